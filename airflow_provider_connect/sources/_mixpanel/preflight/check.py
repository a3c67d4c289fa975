"""Checks a connection before the first run: what was looked at, what was found, and what to do.

A check sends one request to the API of the stream, and one to each other region if this one does not know the
credentials. Credentials go to Mixpanel's own hosts only, or to the one that the connection names.
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
    """Findings of one check.

    :param requests: how many requests it sent that count, by API.
    """

    requests_by_api: dict[Api, int] = field(default_factory=dict)

    @property
    def requests_text(self) -> str:
        """The requests, for people."""
        return ", ".join(f"{count} of {_API_NAMES[api]}" for api, count in self.requests_by_api.items()) or "none"

    def __str__(self) -> str:
        """Return the report as text, problems first; each line is a sentence, also where lines are joined."""
        return f"{super().__str__()}\nRequests sent: {self.requests_text}."


def check_connection(
    connection: Connection,
    options: MixpanelOptions | None = None,
    *,
    store: KeyStore | None = None,
    clock: Callable[[], dt.datetime] = client.current_time,
) -> MixpanelReport:
    """Check a connection.

    :param options: of the source that will use it; None for the export, whatever the source's zone.
    :param store: where the requests of all tasks are counted; None for nowhere.
    :param clock: tells the present instant, in UTC.
    """
    return _Check(connection, options, store, clock).report()


class _Check:
    """One check on its way."""

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
        self._uncounted = ""

    def report(self) -> MixpanelReport:
        problems = accesses.access_problems(self._connection, self._api)
        if problems:
            self._findings += [Finding("connection", "problem", problem) for problem in problems]
            return MixpanelReport(f"Mixpanel, stream {self._stream.name},", tuple(self._findings))
        there = MixpanelAccess.from_connection(self._connection, self._api)
        try:
            probed = self._probe(self._connection)
        except NoRoomError as error:
            self._note("quota", "later", str(error), "check again when there is room")
        except ConnectError as error:
            self._note("answer", level_of(error), str(error), "see whether this machine can reach that host")
        else:
            self._read(probed)
        asked = f"Mixpanel ({there.server_text}), stream {self._stream.name},"
        return MixpanelReport(asked, tuple(self._findings), dict(self._sent))

    def _note(self, about: str, level: Level, found: str, todo: str = "") -> None:
        self._findings.append(Finding(about, level, found.rstrip("."), todo))

    def _read(self, probed: ProbeResult) -> None:
        if probed.rejects_credentials:
            self._read_stranger(probed)
        elif probed.error is not None:
            self._read_refusal(probed)
        else:
            self._note("credentials", "ok", "accepted")
            self._note("region", "ok", self._place("knows the project"))
            self._note("project id", "ok", self._connection.option("project_id") or "not needed with a project secret")
            self._note("role", "ok", f"may use {_API_NAMES[self._api]}")
            self._note("plan", "ok", f"includes {_API_NAMES[self._api]}")
            if self._options is not None and self._options.split_rows is not None:
                self._note(
                    "split_rows",
                    "unknown",
                    "each day is counted with the Query API, which was not asked",
                    'check a stream of that API, too: --options \'{"stream": "segmentation"}\'',
                )
        self._read_clock(probed.clock_ahead_seconds)
        if probed.error is None and "timestamps" in self._stream.options:
            self._read_regime(probed)
        if not isinstance(probed.error, QuotaError):
            self._read_quota()

    def _place(self, does: str) -> str:
        region = self._connection.option("region") or "us"
        return f"the connection's own host {does}" if self._connection.host else f"{region!r} {does}"

    # Refusals

    def _read_stranger(self, probed: ProbeResult) -> None:
        if self._connection.host:
            why = "the connection names a host of its own"
            self._note("credentials", "problem", str(probed.error), "check login, password and project_id")
            self._note("region", "unknown", f"no other region was asked, because {why}")
            return
        found, silent = self._other_regions()
        if found:
            self._note("credentials", "ok", f"accepted in region {found!r}")
            todo = f"set region={found} in the connection"
            self._note("region", "problem", f"the project answers in {found!r}", todo)
            return
        self._note("credentials", "problem", str(probed.error), "check login, password and project_id")
        asked = [region for region in self._others() if region not in silent]
        if asked:
            self._note("region", "unknown", f"{' and '.join(asked)} were asked too, and do not know the credentials")
        for region, why in silent.items():
            self._note("region", "unknown", f"region {region!r} could not be asked: {why}")

    def _others(self) -> list[str]:
        own = self._connection.option("region") or "us"
        return [region for region in HOSTS if region != own]

    def _other_regions(self) -> tuple[str, dict[str, str]]:
        """Return the region that knows the credentials, if one does, and those that gave no answer, with why."""
        silent = {}
        for region in self._others():
            extra = {**self._connection.extra, "region": region}
            try:
                probed = self._probe(self._connection.model_copy(update={"extra": extra}))
            except (NoRoomError, ConnectError) as error:
                silent[region] = str(error)
                continue
            if probed.knows_credentials:
                return region, silent
            if not probed.rejects_credentials:
                silent[region] = str(probed.error)
        return "", silent

    def _read_refusal(self, probed: ProbeResult) -> None:
        assert probed.error is not None, "the caller has looked"
        error = str(probed.error)
        if probed.status in (402, 403):
            self._note("credentials", "ok", "accepted")
            self._note("region", "ok", self._place("knows them"))
        if probed.status == 402:
            self._note("plan", "problem", error, "change the plan, or leave out the streams that need this API")
        elif probed.status == 403:
            self._note("role", "problem", error, "give the account a role in the project")
            self._note("project id", "unknown", "the answer does not tell a missing role from another project's id")
        elif probed.status == 400 and "project_id" in error:
            self._note("project id", "problem", error)
        elif probed.status == 429:
            self._note("quota", "later", error, "check again when there is room")
            self._note("credentials", "unknown", "the limit came first")
        else:
            self._note("answer", level_of(probed.error), error)

    # Clock, times

    def _read_clock(self, ahead: float | None) -> None:
        if ahead is None:
            self._note("clock", "unknown", "the answer has no date")
        elif abs(ahead) <= _CLOCK_SECONDS:
            self._note("clock", "ok", f"no more than {_CLOCK_SECONDS:g} s from the server's")
        else:
            which = "ahead of" if ahead > 0 else "behind"
            self._note(
                "clock",
                "note",
                f"this machine's is {abs(ahead):,.0f} s {which} the server's. It decides when a day is over and when a "
                "request leaves the hour's count",
                "set it by a time server (NTP)",
            )

    def _read_regime(self, probed: ProbeResult) -> None:
        zone = self._options.zone if self._options else None
        reading = detect_regime(probed.samples, zone)
        chosen = self._connection.option("timestamps")
        if self._options is not None:
            chosen = self._options.timestamps or chosen or ("utc" if zone == "UTC" else None)
        configured: Regime | None = "utc" if chosen == "utc" else "project_local" if chosen else None
        self._findings.append(_about_times(reading, configured, zone, probed.day, has_source=self._options is not None))

    # Quota

    def _probe(self, connection: Connection) -> ProbeResult:
        """Send one request, counted where all tasks count theirs.

        :raises NoRoomError: there is no room for it.
        :raises ConnectError: there is no answer.
        """
        access, quota = MixpanelAccess.from_connection(connection, self._api), quota_of(connection, self._api)
        turns = self._turns(quota)
        times: list[float] = []
        with reserve_request(turns, "check", self._not_counted, times):
            try:
                probed = probe(access, self._clock, lambda: times.append(time.time()))
            finally:
                self._sent[self._api] += len(times)
            if isinstance(probed.error, QuotaError):
                record_refusal(turns, probed.error, self._not_counted)
            return probed

    def _turns(self, quota: Quota | None) -> Turns | None:
        if quota is None or self._store is None:
            return None
        if self._connection.option("project_id") is None:
            # Its count has the name of the connection, and Airflow's form gives its Test another name each time.
            self._not_counted("requests are counted by project_id, which the connection has not")
            return None
        return Turns(self._store, quota)

    def _not_counted(self, why: str) -> None:
        self._uncounted = why

    def _read_quota(self) -> None:
        quota = quota_of(self._connection, self._api)
        if quota is None:
            self._note("quota", "ok", f"Mixpanel states no limit for {_API_NAMES[self._api]}")
            return
        left = None
        if (store := self._store) is not None and not self._uncounted:
            left = without_store_errors(
                lambda: QuotaBook.read(quota, store.keys(prefix_of(quota))).room(time.time()), self._not_counted
            )
        if left is None:
            why = f"; {self._uncounted}" if self._uncounted else ""
            self._note("quota", "unknown", f"of {quota.describe()} it is not known how many are left{why}")
            return
        self._note(
            "quota",
            "ok" if left > 0 else "note",
            f"{max(left, 0)} of {quota.describe()} are left, by the count that this Airflow's tasks keep; what others "
            "send is not in it until Mixpanel refuses a request",
        )


def _about_times(
    reading: RegimeReading, configured: Regime | None, zone: str | None, day: dt.date, *, has_source: bool
) -> Finding:
    """Compare what the data shows with what is configured."""
    about = "time zone and timestamps"
    where = "on the source, or in the connection" if has_source else "in the connection, or on each source"
    if reading.regime is None:
        level: Level = "unknown"
        todo = ""
        if configured is None:
            # A run would be refused for it.
            level = "problem" if has_source else level
            todo = (
                "take the project's day of creation from its settings in Mixpanel: since January 2023 "
                f"timestamps=utc, before it project_local; set it {where}"
            )
        if reading.ahead_minutes:
            todo = (
                "look up the project's zone in its settings in Mixpanel; if it is so far behind UTC, set "
                f"zone to it, and timestamps=project_local {where}"
            )
        return Finding(about, level, f"events of {day} do not tell: {reading.reason}", todo)
    found = f"events of {day} show timestamps={reading.regime}: {reading.reason}"
    if reading.regime == "project_local" and not reading.matches_zone:
        found += f". Times are about {format_offset(reading.ahead_minutes or 0)}"
        if zone is not None:
            return Finding(
                about,
                "problem",
                f"{found}, which {zone} was not",
                f"set zone to the project's own zone and timestamps=project_local {where}",
            )
    if configured == reading.regime:
        return Finding(about, "ok", f"{found}, as configured")
    if configured is None and not has_source:
        unless = ", unless the zone is UTC" if reading.regime == "utc" else ", and zone on each source"
        return Finding(about, "ok", found, f"set timestamps={reading.regime} {where}{unless}")
    said = f"but timestamps={configured} is configured" if configured else "and nothing is configured"
    return Finding(about, "problem", f"{found}, {said}", f"set timestamps={reading.regime} {where}")
