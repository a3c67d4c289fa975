"""Tokens and sessions that have to be fetched: once for a process, again when they end, and never out of hand."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl

import pytest

from airflow_provider_connect.clients.http import auth as auth_module
from airflow_provider_connect.clients.http.access import HttpAccess
from airflow_provider_connect.clients.http.auth import Auth, FetchedAuth, FetchedCredentials
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said

CANARY = "canary-7f"
OAUTH = {"auth": "oauth2_client_credentials", "auth_url": "/token"}
REFRESH = {"auth": "oauth2_refresh_token", "auth_url": "/token", "refresh_token": "canary-refresh"}
SESSION = {"auth": "session", "auth_url": "login"}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may come twice, and with it what another test fetched there."""
    monkeypatch.setattr(auth_module, "_login_states", {})


def access(server: AnsweringServer, extra: dict[str, Any]) -> HttpAccess:
    return HttpAccess.read_connection(
        Connection(conn_id="c", host=f"{server.url}/v1", login="me", password=CANARY, extra=extra)
    )


def form(heard: Heard) -> dict[str, str]:
    return dict(parse_qsl(heard.body.decode()))


def fails(answer: Said, extra: dict[str, Any], kind: type[ConnectError]) -> ConnectError:
    with AnsweringServer(lambda _: answer) as server, pytest.raises(kind) as caught:
        access(server, extra).credentials.auth()
    assert "canary" not in str(caught.value)
    assert "connection 'c'" in str(caught.value)
    return caught.value


def test_a_client_asks_for_a_token_by_its_own_credentials() -> None:
    with AnsweringServer(lambda _: Said({"access_token": "t-1", "expires_in": 3600})) as server:
        extra = OAUTH | {"scope": "read all", "auth_params": {"audience": "a&b"}}
        assert access(server, extra).credentials.auth().headers == {"Authorization": "Bearer t-1"}
        (heard,) = server.heard
    assert (heard.method, heard.path) == ("POST", "/token")
    assert form(heard) == {"grant_type": "client_credentials", "scope": "read all", "audience": "a&b"}
    assert heard.headers["authorization"] == "Basic " + base64.b64encode(f"me:{CANARY}".encode()).decode()


def test_credentials_of_a_client_may_go_as_fields_of_the_form() -> None:
    with AnsweringServer(lambda _: Said({"access_token": "t-1"})) as server:
        access(server, OAUTH | {"client_auth": "body"}).credentials.auth()
        (heard,) = server.heard
    assert form(heard) == {"grant_type": "client_credentials", "client_id": "me", "client_secret": CANARY}
    assert "authorization" not in heard.headers


@pytest.mark.parametrize("again", [{}, {"refresh_token": "canary-refresh"}, {"refresh_token": ""}])
def test_a_refresh_token_that_stays_the_same_is_used(again: dict[str, str]) -> None:
    with AnsweringServer(lambda _: Said({"access_token": "t-1"} | again)) as server:
        assert access(server, REFRESH).credentials.auth().headers == {"Authorization": "Bearer t-1"}
        assert form(server.heard[0]) == {"grant_type": "refresh_token", "refresh_token": "canary-refresh"}


def test_h21_a_service_that_rotates_refresh_tokens_is_refused_with_the_reason() -> None:
    error = fails(Said({"access_token": "t", "refresh_token": "canary-next"}), REFRESH, ConfigError)
    assert (
        "rotates refresh tokens: it sent a new one with the access token. An Airflow task cannot write its connection"
        in str(error)
    )


def test_h21_many_threads_fetch_one_token_and_polls_after_them_none() -> None:
    def answer(_: Heard) -> Said:
        time.sleep(0.05)
        return Said({"access_token": "t-1", "expires_in": 3600})

    with AnsweringServer(answer) as server, ThreadPoolExecutor(8) as pool:
        each = [pool.submit(access(server, OAUTH).credentials.auth) for _ in range(16)]
        assert {future.result().headers["Authorization"] for future in each} == {"Bearer t-1"}
        assert len(server.heard) == 1


def test_h21_a_token_that_the_api_refuses_is_fetched_anew_once_for_all_who_had_it() -> None:
    tokens = iter(range(9))
    with AnsweringServer(lambda _: Said({"access_token": f"t-{next(tokens)}"})) as server:
        own = [access(server, OAUTH).credentials for _ in range(4)]
        refused = own[0].auth()
        with ThreadPoolExecutor(4) as pool:
            again = [future.result() for future in [pool.submit(each.renew, refused) for each in own]]
        assert {auth.headers["Authorization"] for auth in again if auth is not None} == {"Bearer t-1"}
        assert len(server.heard) == 2


def test_two_connections_do_not_share_a_token() -> None:
    tokens = iter(range(9))
    with AnsweringServer(lambda _: Said({"access_token": f"t-{next(tokens)}"})) as server:
        one, other = (access(server, OAUTH | {"scope": scope}).credentials.auth() for scope in "ab")
        assert one.headers != other.headers


@pytest.fixture
def fetches() -> list[float]:
    return []


def fetched(fetches: list[float], clock: NoTime, lasts: float | None, name: str) -> FetchedCredentials:
    def fetch() -> FetchedAuth:
        fetches.append(clock.seconds)
        return FetchedAuth(Auth({"Authorization": f"Bearer {len(fetches)}"}), lasts)

    return FetchedCredentials((name, id(fetches)), fetch, clock)


@pytest.mark.parametrize(("lasts", "until"), [(3600.0, 3540.0), (100.0, 90.0), (1.0, 0.9)])
def test_a_token_is_fetched_anew_a_while_before_it_ends(fetches: list[float], lasts: float, until: float) -> None:
    clock = NoTime()
    ours = fetched(fetches, clock, lasts, f"ends {lasts}")
    ours.auth()
    clock.seconds = until - 0.01
    ours.auth()
    assert len(fetches) == 1
    clock.seconds = until
    ours.auth()
    assert len(fetches) == 2


def test_a_token_without_an_end_is_kept_until_it_is_refused(fetches: list[float]) -> None:
    clock = NoTime()
    ours = fetched(fetches, clock, None, "no end")
    first = ours.auth()
    clock.seconds = 1e9
    assert ours.auth() == first
    assert ours.renew(first) != first
    assert len(fetches) == 2


def test_a_login_that_was_refused_is_not_asked_again_for_a_minute() -> None:
    clock, asked = NoTime(), []

    def refuse() -> FetchedAuth:
        asked.append(clock.seconds)
        raise ConfigError("wrong password")

    ours = FetchedCredentials(("locked", id(asked)), refuse, clock)
    for seconds in (0.0, 30.0, 59.0, 60.0):
        clock.seconds = seconds
        with pytest.raises(ConfigError, match="wrong password"):
            ours.auth()
    assert asked == [0.0, 60.0]


@pytest.mark.parametrize("lasts", [None, "soon", -1, 0, True, [], "1e999", 10**400])
def test_an_unreadable_expiry_counts_as_none(lasts: Any) -> None:
    with AnsweringServer(lambda _: Said({"access_token": "t", "expires_in": lasts})) as server:
        credentials = access(server, OAUTH).credentials
        credentials.auth()
        credentials.auth()
        assert len(server.heard) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refused_login_is_a_person_s_matter_and_quotes_no_secret(status: int) -> None:
    error = fails(Said({"error": "invalid_client", "you": CANARY}, status), OAUTH, ConfigError)
    assert f"refused the login ({status})" in str(error)
    assert "invalid_client" in str(error)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_token_endpoint_in_trouble_is_asked_again_later(status: int) -> None:
    error = fails(Said({"you": CANARY}, status, {"Retry-After": "7"}), OAUTH, RetriableError)
    assert isinstance(error, RetriableError)
    assert error.retry_after_seconds == 7


@pytest.mark.parametrize("body", [b"", b"{", b"<html>canary-7f</html>", b"[]", b'{"access_token": 7}', b"[" * 100_000])
def test_an_answer_without_a_token_is_none(body: bytes) -> None:
    fails(Said(body), OAUTH, RetriableError)


def test_an_endless_answer_to_a_login_ends() -> None:
    fails(Said(b" " * (2 << 20)), OAUTH, ConfigError)


def test_a_login_is_not_sent_where_a_redirect_points_to() -> None:
    with AnsweringServer(lambda _: Said({})) as elsewhere:
        moved = Said(b"", 307, {"Location": elsewhere.url})
        with AnsweringServer(lambda _: moved) as server, pytest.raises(ConfigError, match="Redirects are not followed"):
            access(server, OAUTH).credentials.auth()
        assert elsewhere.heard == []


def session(answer: Callable[[Heard], Said], extra: dict[str, Any]) -> tuple[dict[str, str], Heard]:
    with AnsweringServer(answer) as server:
        return access(server, SESSION | extra).credentials.auth().headers, server.heard[0]


def test_a_session_is_what_the_login_s_answer_holds() -> None:
    headers, heard = session(lambda _: Said({"data": {"id": "s-1"}}), {"auth_result": "/data/id"})
    assert headers == {"Authorization": "Bearer s-1"}
    assert (heard.method, heard.path) == ("POST", "/v1/login")
    assert json.loads(heard.body) == {"username": "me", "password": CANARY}


def test_a_session_goes_in_the_header_that_is_named() -> None:
    headers, heard = session(
        lambda _: Said({"id": 17}),
        {
            "auth_result": "id",
            "send_as": "X-Session",
            "auth_body": "form",
            "auth_params": {"user": "{login}", "pass": "{password}", "realm": "a"},
        },
    )
    assert headers == {"X-Session": "17"}
    assert form(heard) == {"user": "me", "pass": CANARY, "realm": "a"}


@pytest.mark.parametrize("status", [200, 302])
def test_cookies_of_a_login_are_the_session(status: int) -> None:
    cookie = {"Set-Cookie": "sid=s-1; Path=/; HttpOnly", "set-cookie": "b=2"}
    headers, _ = session(lambda _: Said({}, status, cookie | {"Location": "/home"}), {})
    assert headers == {"Cookie": "sid=s-1; b=2"}


@pytest.mark.parametrize(
    ("answer", "extra", "kind"),
    [
        (Said({}), {}, ConfigError),
        (Said({"sid": CANARY}, 401, {"Set-Cookie": "sid=1"}), {}, ConfigError),
        (Said({}, 503), {}, RetriableError),
        (Said({"id": None, "you": CANARY}), {"auth_result": "id"}, ConfigError),
        (Said([CANARY]), {"auth_result": "id"}, ConfigError),
        (Said(b"<html>"), {"auth_result": "id"}, RetriableError),
    ],
)
def test_a_login_without_a_session_is_refused(answer: Said, extra: dict[str, Any], kind: type[ConnectError]) -> None:
    fails(answer, SESSION | extra, kind)


def test_a_thread_waiting_for_a_failed_fetch_fetches_itself() -> None:
    """A thread that had trouble must not leave the others without a token, nor with half of one."""
    began, failed, tries = threading.Event(), threading.Event(), []

    def fetch() -> FetchedAuth:
        tries.append(1)
        if len(tries) == 1:
            began.set()
            failed.wait(5)
            raise RetriableError("away")
        return FetchedAuth(Auth({"Authorization": "Bearer 2"}), None)

    ours = FetchedCredentials(("fails once", id(tries)), fetch)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ours.auth)
        began.wait(5)
        second = pool.submit(ours.auth)
        failed.set()
        assert isinstance(first.exception(), RetriableError)
        assert second.result().headers == {"Authorization": "Bearer 2"}
