"""Which Mixpanel host to ask with which credentials, and what its refusals mean."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import SecretStr

from airflow_provider_connect.clients.http import access as http
from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import Answer, Body, excerpt, request, retry_after_seconds
from airflow_provider_connect.clients.http.fields import (
    base_url,
    ca_bundle_problems,
    collected,
    own_host_problem,
    proxy_problems,
)
from airflow_provider_connect.clients.http.link import Limits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.sources._mixpanel.limits import limit_problems

Api = Literal["export", "query", "app"]
"""Which of Mixpanel's APIs is asked: each has its own limits and plans, and the export its own hosts."""

HOSTS = {"us": "data.mixpanel.com", "eu": "data-eu.mixpanel.com", "in": "data-in.mixpanel.com"}
"""Export hosts by region: https://developer.mixpanel.com/reference/raw-event-export (2026-11)."""

QUERY_HOSTS = {"us": "mixpanel.com", "eu": "eu.mixpanel.com", "in": "in.mixpanel.com"}
"""Hosts of the Query and App APIs by region: https://developer.mixpanel.com/reference/query-api (2026-11)."""

_REGIMES = ("utc", "project_local")
_HOUR_IS_USED_UP_SECONDS = 900.0
_TOO_MANY_AT_ONCE_SECONDS = 10.0
_TOO_FAST_SECONDS = 60.0
_FUTURE = "cannot be later than today"
_CREDENTIALS = "authenticate"
_TOO_OLD = "days into the past"
_NO_DATA_GROUP = "missing datagroup"


class UnreadableCohortError(ConfigError):
    """The data group of a cohort was deleted, so its members cannot be read."""


@dataclass(frozen=True)
class Access(http.Access):
    """Host and credentials of a project.

    :param asked: region or host, as messages name it.
    """

    asked: str = ""
    project_id: str | None = None
    api: Api = "export"

    @property
    def secrets(self) -> Secrets:
        """Texts that no message may quote."""
        return Secrets([*self.credentials.auth().secrets, *self.route.secrets])

    def request(
        self, path: str, params: Mapping[str, str], limits: Limits, sent: Callable[[], None], body: Body | None = None
    ) -> Answer:
        """Send one request, whose answer is read as it comes."""
        auth, pairs = self.credentials.auth(), tuple(params.items())
        return request(self.route, self.url + path, auth, limits, params=pairs, body=body, sent=sent)

    @classmethod
    def from_connection(cls, connection: Connection, api: Api = "export") -> Access:
        """Read a connection. A host that it names serves both APIs.

        :raises ConfigError: naming everything that is wrong with it.
        """
        found = problems(connection, api)
        if found:
            raise ConfigError("; ".join(found))
        nothing = SecretStr("")
        secret = connection.password or nothing
        is_account = _has(connection.login)
        user, password = (connection.login or nothing, secret) if is_account else (secret, nothing)
        return cls.at(
            connection,
            host_of(connection, api),
            basic_auth(user, password),
            asked=f"host {connection.host}" if connection.host else f"region {_region(connection)!r}",
            project_id=connection.option("project_id"),
            api=api,
        )


def problems(connection: Connection, api: Api = "export") -> list[str]:
    """Return everything that is wrong with a connection to one of the APIs; [] if nothing is."""
    where = f"connection {connection.conn_id!r}"
    found = []
    if api == "app" and not _has(connection.login):
        found.append(
            f"{where}: login is empty, so its password is taken for a project secret, which Mixpanel's App API "
            "refuses: enter a service account's user name and secret"
        )
    if not _has(connection.password):
        found.append(f"{where}: password is empty; it holds the service account's secret, or the project secret")
    if connection.login is not None and ":" in connection.login.get_secret_value():
        found.append(f"{where}: login holds a colon, which HTTP Basic cannot carry")
    checks = (_project_problem, _choice_problems, own_host_problem, proxy_problems, ca_bundle_problems, limit_problems)
    return found + collected(connection, checks)


def _has(secret: SecretStr | None) -> bool:
    return secret is not None and secret.get_secret_value() != ""


def _project_problem(connection: Connection) -> list[str]:
    project_id = connection.option("project_id")
    if project_id is None:
        return ["extra has no project_id, which a service account needs"] if _has(connection.login) else []
    if not re.fullmatch(r"[0-9]{1,20}", project_id):
        return ["extra field 'project_id' is not a number"]
    return []


def _choice_problems(connection: Connection) -> list[str]:
    found = []
    for name, choices in (("region", tuple(HOSTS)), ("timestamps", _REGIMES)):
        value = connection.option(name)
        if value is not None and value not in choices:
            found.append(f"extra field {name!r} is not one of {', '.join(choices)}")
    return found


def _region(connection: Connection) -> str:
    return connection.option("region") or "us"


def host_of(connection: Connection, api: Api) -> str:
    """Return scheme and host of a connection that has no problems."""
    if not connection.host:
        return base_url((HOSTS if api == "export" else QUERY_HOSTS)[_region(connection)], None)
    return base_url(connection.host, connection.port)


class _Meaning(NamedTuple):
    """What an answer means, and what to do; the first entry that matches counts."""

    status: int
    text: str
    error: type[ConnectError]
    meaning: str


_ASK_FOR_LATER_DAYS = "the project's plan does not show data that is so old: load later days, or change the plan"

_TABLE = (
    _Meaning(
        400, _FUTURE, ConfigError, "the day lies in the future of the project's zone: zone or timestamps "
        "are not the project's own",
    ),
    _Meaning(
        400, _CREDENTIALS, ConfigError, "the host does not know the credentials: check login, password and project_id, "
        "and whether the project lives in another region ({regions})",
    ),
    # Seen by https://github.com/ploner/RMixpanel/issues/7, and with 403 by https://github.com/jaredmcfarland/mixpanel_data
    # (get_events, 2026-05).
    _Meaning(400, _TOO_OLD, ConfigError, _ASK_FOR_LATER_DAYS),
    _Meaning(400, "project_id", ConfigError, "project_id in the connection's extra is missing or wrong"),
    _Meaning(400, "", ConfigError, "the request is not understood: check {about}{options}"),
    _Meaning(
        401, "", ConfigError, "the credentials are wrong, or the project lives in another region ({regions}): check "
        "login, password and the region",
    ),
    _Meaning(402, "", ConfigError, "the project's plan does not include {plan}"),
    _Meaning(403, _TOO_OLD, ConfigError, _ASK_FOR_LATER_DAYS),
    _Meaning(403, "", ConfigError, "the account has no role in this project that may {may}: ask for one, and check "
             "project_id"),
    # https://github.com/estuary/connectors/pull/2550 (2026-11)
    _Meaning(
        404, _NO_DATA_GROUP, UnreadableCohortError, "{what} cannot be read: its data group was deleted. Change the "
        "data group of the cohort in Mixpanel",
    ),
    _Meaning(404, "", ConfigError, "{unknown}there is no {verb} API at that host: check host and region"),
    _Meaning(408, "", RetriableError, "the server gave up waiting"),
    _Meaning(429, "", RetriableError, "the project's query limit is reached"),
)  # fmt: skip
"""Refusals, as documented and as seen by connectors (2026-11):
https://developer.mixpanel.com/reference/raw-event-export, /reference/rate-limits."""

_WORDS: dict[Api, dict[str, str]] = {
    "export": {
        "regions": ", ".join(HOSTS),
        "verb": "export",
        "may": "export",
        "plan": "this API",
        "options": "the options where and event",
        "who": "an export",
    },
    "query": {
        "regions": ", ".join(QUERY_HOSTS),
        "verb": "query",
        "may": "query",
        "plan": "the Query API, which needs Growth or Enterprise; of this source, stream='export' does without it",
        "options": "the stream's options",
        "who": "the Query API",
    },
    "app": {
        "regions": ", ".join(QUERY_HOSTS),
        "verb": "app",
        "may": "see its annotations",
        "plan": "this API",
        "options": "the stream's options",
        "who": "the App API",
    },
}


def refusal(
    status: int,
    body: str,
    access: Access,
    *,
    now: dt.datetime,
    retry_after: str = "",
    seen: str = "",
    is_cut: bool = False,
    about: str = "",
) -> ConnectError:
    """Return the error to raise for a refusal.

    :param body: the beginning of the answer, or of the error document in it.
    :param retry_after: the header of that name.
    :param seen: how much was read before a status 200 turned into an error.
    :param is_cut: whether ``body`` lacks its end.
    :param about: what was asked for, and which option names it.
    """
    text = _error_text(body)
    quote = excerpt(text, access.secrets, is_cut=is_cut)
    quoted = f"; it said: {quote!r}" if quote else ""
    after = f"; {seen}" if seen else ""
    effective = _effective_status(status, text)
    for row in _TABLE:
        if row.status == effective and row.text in text.lower():
            unknown = f"this project has no {about}: check it and project_id; or " if about else ""
            words = _WORDS[access.api] | {
                "about": f"{about} and " if about else "",
                "unknown": unknown,
                "what": about or "what was asked for",
            }
            meaning = row.meaning.format(**words)
            message = f"Mixpanel ({access.asked}) answered {status}: {meaning}{quoted}{after}"
            if effective == 429 and (counted := _hour(text)) is not None:
                wait = retry_after_seconds(retry_after, now)
                after_seconds = _wait(effective, text, retry_after, now)
                return QuotaError(message, said=(*counted, wait or 0.0), retry_after_seconds=after_seconds)
            if row.error is RetriableError:
                return RetriableError(message, retry_after_seconds=_wait(effective, text, retry_after, now))
            return row.error(message)
    if status >= 500 or status == 200:
        trouble = "an error inside its answer" if status == 200 else str(status)
        message = f"Mixpanel ({access.asked}) answered {trouble}: it is in trouble{quoted}{after}"
        return RetriableError(message, retry_after_seconds=retry_after_seconds(retry_after, now))
    return ConfigError(
        f"Mixpanel ({access.asked}) answered {status}, which {_WORDS[access.api]['who']} never does{quoted}{after}"
    )


def refused_status(status: int, body: str) -> int:
    """Return the status of a refusal, or the one that fits its error document if that came with status 200."""
    return _effective_status(status, _error_text(body))


def _effective_status(status: int, text: str) -> int:
    """Return the status that fits an error document sent with status 200."""
    if status != 200:
        return status
    if "rate limit" in text.lower():
        return 429
    return 400 if _CREDENTIALS in text.lower() or _FUTURE in text.lower() else 200


def _error_text(body: str) -> str:
    """Return the ``error`` of a JSON answer, or the whole text."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if isinstance(error, str) else body


def _hour(text: str) -> tuple[int, int] | None:
    """Return the hour's counter and its limit, if the text says that the hour is used up."""
    counters = re.search(r"(\d{1,9})/(\d{1,9}) queries running in the last hour", text)
    if counters is None or int(counters[1]) < int(counters[2]):
        return None
    return int(counters[1]), int(counters[2])


def _wait(status: int, text: str, retry_after: str, now: dt.datetime) -> float | None:
    """Return how long to wait: as the header says, else a guess from the counters in the text.

    The text reads like ``1/5 queries running concurrently and 61/60 queries running in the last hour``.
    """
    asked = retry_after_seconds(retry_after, now)
    if asked is not None or status != 429:
        return asked
    if _hour(text) is not None:
        return _HOUR_IS_USED_UP_SECONDS
    counters = re.search(r"(\d{1,9})/(\d{1,9}) queries running concurrently", text)
    if counters and int(counters[1]) >= int(counters[2]):
        return _TOO_MANY_AT_ONCE_SECONDS
    return _TOO_FAST_SECONDS
