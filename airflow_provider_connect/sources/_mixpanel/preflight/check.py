"""Checks a connection before the first run and reports findings with remedies.

Sends one request, and one to each other region for unknown credentials.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, QuotaError
from airflow_provider_connect.polling import findings
from airflow_provider_connect.polling.findings import Finding, Level, level_of
from airflow_provider_connect.polling.quota.book import QuotaBook, prefix_of
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.quota.turns import (
    KeyStore,
    NoRoomError,
    Turns,
    record_refusal,
    reserve_request,
    without_store_errors,
)
from airflow_provider_connect.sources._mixpanel import access as accesses
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.access import HOSTS, Api, MixpanelAccess, quota_of
from airflow_provider_connect.sources._mixpanel.columns import Regime
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.preflight.probe import ProbeResult, probe
from airflow_provider_connect.sources._mixpanel.preflight.regime_detection import (
    RegimeReading,
    detect_regime,
    format_offset,
)
from airflow_provider_connect.sources._mixpanel.streams import STREAMS

_CLOCK_SECONDS = 5.0
_API_NAMES: dict[Api, str] = {"export": "the export", "query": "the Query API", "app": "the App API"}


@dataclass(frozen=True)
class MixpanelReport(findings.PreflightReport):
    """Findings of one check, with its number of counted requests."""

    requests_by_api: dict[Api, int] = field(default_factory=dict)

    @property
    def requests_text(self) -> str:
        """Number of requests by API, such as ``1 of the export``."""
        return ", ".join(f"{count} of {_API_NAMES[api]}" for api, count in self.requests_by_api.items()) or "none"

    def __str__(self) -> str:
        return f"{super().__str__()}\nRequests sent: {self.requests_text}."


def check_connection(
    connection: Connection,
    options: MixpanelOptions | None = None,
    *,
    store: KeyStore | None = None,
    clock: Callable[[], dt.datetime] = client.current_time,
) -> MixpanelReport:
    """Check a connection.

    :param options: None for the export without a zone.
    :param store: tasks' shared count of requests.
    """
    return _Check(connection, options, store, clock).report()


class _Check:
    def __init__(
        self,
        connection: Connection,
        options: MixpanelOptions | None,
        store: KeyStore | None,
        clock: Callable[[], dt.datetime],
    ) -> None:
        self._connection = connection
        self._options = options
        self._stream = STREAMS["export" if options is None else options.stream]
        self._api = self._stream.api
        self._store = store
        self._clock = clock
        self._sent: Counter[Api] = Counter()
        self._findings: list[Finding] = []
        self._uncounted_reason = ""

    def report(self) -> MixpanelReport:
        problems = accesses.access_problems(self._connection, self._api)
        if problems:
            self._findings += [Finding("connection", "problem", problem) for problem in problems]
            return MixpanelReport(f"Mixpanel, stream {self._stream.name},", tuple(self._findings))
        access = MixpanelAccess.from_connection(self._connection, self._api)
        try:
            probe_result = self._probe(self._connection)
        except NoRoomError as error:
            self._note("quota", "later", str(error), "check again when there is room")
        except ConnectError as error:
            self._note("answer", level_of(error), str(error), "check whether this machine can reach the host")
        else:
            self._read_result(probe_result)
        title = f"Mixpanel ({access.server_text}), stream {self._stream.name},"
        return MixpanelReport(title, tuple(self._findings), dict(self._sent))

    def _note(self, subject: str, level: Level, text: str, remedy: str = "") -> None:
        self._findings.append(Finding(subject, level, text.rstrip("."), remedy))

    def _read_result(self, probe_result: ProbeResult) -> None:
        if probe_result.rejects_credentials:
            self._read_unknown_credentials(probe_result)
        elif probe_result.error is not None:
            self._read_refusal(probe_result)
        else:
            self._note("credentials", "ok", "accepted")
            self._note("region", "ok", self._region_text("knows the project"))
            self._note("project id", "ok", self._connection.option("project_id") or "not needed with a project secret")
            self._note("role", "ok", f"may use {_API_NAMES[self._api]}")
            self._note("plan", "ok", f"includes {_API_NAMES[self._api]}")
            if self._options is not None and self._options.split_rows is not None:
                self._note(
                    "split_rows",
                    "unknown",
                    "each day is counted with the Query API, which this check did not use",
                    'check a stream of that API: --options \'{"stream": "segmentation"}\'',
                )
        self._read_clock(probe_result.clock_ahead_seconds)
        if probe_result.error is None and "timestamps" in self._stream.options:
            self._read_regime(probe_result)
        if not isinstance(probe_result.error, QuotaError):
            self._read_quota()

    def _region_text(self, predicate: str) -> str:
        region = self._connection.option("region") or "us"
        return f"the connection's own host {predicate}" if self._connection.host else f"{region!r} {predicate}"

    # Refusals

    def _read_unknown_credentials(self, probe_result: ProbeResult) -> None:
        if self._connection.host:
            reason = "the connection has its own host"
            self._note("credentials", "problem", str(probe_result.error), "check login, password and project_id")
            self._note("region", "unknown", f"no other region was tried, because {reason}")
            return
        region_found, silent_regions = self._find_region()
        if region_found:
            self._note("credentials", "ok", f"accepted in region {region_found!r}")
            remedy = f"set region={region_found} in the connection"
            self._note("region", "problem", f"the project answers in {region_found!r}", remedy)
            return
        self._note("credentials", "problem", str(probe_result.error), "check login, password and project_id")
        unsuccessful_regions = [region for region in self._other_regions() if region not in silent_regions]
        if unsuccessful_regions:
            self._note(
                "region", "unknown", f"{' and '.join(unsuccessful_regions)} were tried, and do not know the credentials"
            )
        for region, reason in silent_regions.items():
            self._note("region", "unknown", f"region {region!r} gave no answer: {reason}")

    def _other_regions(self) -> list[str]:
        region_in_use = self._connection.option("region") or "us"
        return [region for region in HOSTS if region != region_in_use]

    def _find_region(self) -> tuple[str, dict[str, str]]:
        silent_regions = {}
        for region in self._other_regions():
            extra = {**self._connection.extra, "region": region}
            try:
                probe_result = self._probe(self._connection.model_copy(update={"extra": extra}))
            except (NoRoomError, ConnectError) as error:
                silent_regions[region] = str(error)
                continue
            if probe_result.knows_credentials:
                return region, silent_regions
            if not probe_result.rejects_credentials:
                silent_regions[region] = str(probe_result.error)
        return "", silent_regions

    def _read_refusal(self, probe_result: ProbeResult) -> None:
        assert probe_result.error is not None, "checked by the caller"
        error = str(probe_result.error)
        if probe_result.status in (402, 403):
            self._note("credentials", "ok", "accepted")
            self._note("region", "ok", self._region_text("knows them"))
        if probe_result.status == 402:
            self._note("plan", "problem", error, "change the plan, or leave out the streams that need this API")
        elif probe_result.status == 403:
            self._note("role", "problem", error, "give the account a role in the project")
            self._note("project id", "unknown", "403 means a missing role or a wrong project id")
        elif probe_result.status == 400 and "project_id" in error:
            self._note("project id", "problem", error)
        elif probe_result.status == 429:
            self._note("quota", "later", error, "check again when there is room")
            self._note("credentials", "unknown", "not checked, because the limit was reached first")
        else:
            self._note("answer", level_of(probe_result.error), error)

    # Clock, times

    def _read_clock(self, ahead: float | None) -> None:
        if ahead is None:
            self._note("clock", "unknown", "the answer has no date")
        elif abs(ahead) <= _CLOCK_SECONDS:
            self._note("clock", "ok", f"no more than {_CLOCK_SECONDS:g} s from the server's")
        else:
            direction = "ahead of" if ahead > 0 else "behind"
            self._note(
                "clock",
                "note",
                f"this machine's clock is {abs(ahead):,.0f} s {direction} the server's. It decides when a day has "
                "ended and when a request leaves the hour's count",
                "synchronize it with a time server (NTP)",
            )

    def _read_regime(self, probe_result: ProbeResult) -> None:
        zone = self._options.zone if self._options else None
        reading = detect_regime(probe_result.samples, zone)
        regime_option = self._connection.option("timestamps")
        if self._options is not None:
            regime_option = self._options.timestamps or regime_option or ("utc" if zone == "UTC" else None)
        configured: Regime | None = "utc" if regime_option == "utc" else "project_local" if regime_option else None
        self._findings.append(
            _finding_on_times(reading, configured, zone, probe_result.day, has_source=self._options is not None)
        )

    # Quota

    def _probe(self, connection: Connection) -> ProbeResult:
        access, quota = MixpanelAccess.from_connection(connection, self._api), quota_of(connection, self._api)
        turns = self._turns(quota)
        times: list[float] = []
        with reserve_request(turns, "check", self._note_uncounted, times):
            try:
                probe_result = probe(access, self._clock, lambda: times.append(time.time()))
            finally:
                self._sent[self._api] += len(times)
            if isinstance(probe_result.error, QuotaError):
                record_refusal(turns, probe_result.error, self._note_uncounted)
            return probe_result

    def _turns(self, quota: Quota | None) -> Turns | None:
        if quota is None or self._store is None:
            return None
        if self._connection.option("project_id") is None:
            # Its count has the name of the connection, and Airflow's form gives its Test another name each time.
            self._note_uncounted("requests are counted by project_id, and the connection has none")
            return None
        return Turns(self._store, quota)

    def _note_uncounted(self, reason: str) -> None:
        self._uncounted_reason = reason

    def _read_quota(self) -> None:
        quota = quota_of(self._connection, self._api)
        if quota is None:
            self._note("quota", "ok", f"Mixpanel states no limit for {_API_NAMES[self._api]}")
            return
        requests_left = None
        if (store := self._store) is not None and not self._uncounted_reason:
            requests_left = without_store_errors(
                lambda: QuotaBook.read(quota, store.keys(prefix_of(quota))).room(time.time()), self._note_uncounted
            )
        if requests_left is None:
            reason = f": {self._uncounted_reason}" if self._uncounted_reason else ""
            self._note("quota", "unknown", f"the number of requests left of {quota.describe()} is unknown{reason}")
            return
        self._note(
            "quota",
            "ok" if requests_left > 0 else "note",
            f"{max(requests_left, 0)} of {quota.describe()} are left by the count of this Airflow. Requests of other "
            "clients are not in this count until Mixpanel refuses one",
        )


def _finding_on_times(
    reading: RegimeReading, configured: Regime | None, zone: str | None, day: dt.date, *, has_source: bool
) -> Finding:
    subject = "time zone and timestamps"
    location = "on the source, or in the connection" if has_source else "in the connection, or on each source"
    if reading.regime is None:
        level: Level = "unknown"
        remedy = ""
        if configured is None:
            # A run would be refused for it.
            level = "problem" if has_source else level
            remedy = (
                "look up the project's day of creation in its settings in Mixpanel. Set timestamps=utc if it was "
                f"created since January 2023, otherwise project_local, {location}"
            )
        if reading.ahead_minutes:
            remedy = (
                "look up the project's zone in its settings in Mixpanel. If it is that far behind UTC, set "
                f"zone to it, and timestamps=project_local {location}"
            )
        return Finding(subject, level, f"events of {day} do not show the regime: {reading.reason}", remedy)
    text = f"events of {day} show timestamps={reading.regime}: {reading.reason}"
    if reading.regime == "project_local" and not reading.matches_zone:
        text += f". Times are about {format_offset(reading.ahead_minutes or 0)}"
        if zone is not None:
            return Finding(
                subject,
                "problem",
                f"{text}, but {zone} had another offset",
                f"set zone to the project's own zone and timestamps=project_local {location}",
            )
    if configured == reading.regime:
        return Finding(subject, "ok", f"{text}, as configured")
    if configured is None and not has_source:
        condition = ", unless the zone is UTC" if reading.regime == "utc" else ", and zone on each source"
        return Finding(subject, "ok", text, f"set timestamps={reading.regime} {location}{condition}")
    contradiction = f"but timestamps={configured} is configured" if configured else "and nothing is configured"
    return Finding(subject, "problem", f"{text}, {contradiction}", f"set timestamps={reading.regime} {location}")
