"""Days of an API whose credentials end, move or are refused while its pages are read."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.clients.http import auth
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.rest import NextLink
from airflow_provider_connect.testing.polls import Poll, poll
from tests.equipment.http.answering import AnsweringServer, Heard, Said
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.reading import DAY, declared, ids

CANARY = "canary-7f"
OAUTH = {"auth": "oauth2_client_credentials", "auth_url": "/token"}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_login_states", {})


class Api:
    """Three pages of two rows, for who has the newest of its tokens; each is good for so many requests."""

    def __init__(self, good_for: int) -> None:
        self._good_for = good_for
        self._left = 0
        self.tokens = 0

    def __call__(self, heard: Heard) -> Said:
        if heard.path == "/token":
            self.tokens += 1
            self._left = self._good_for
            return Said({"access_token": f"{CANARY}-{self.tokens}", "expires_in": 3600})
        if heard.headers.get("authorization") != f"Bearer {CANARY}-{self.tokens}" or not self._left:
            return Said({"error": f"{heard.headers.get('authorization')} has ended"}, 401)
        self._left -= 1
        page = int(dict(heard.params).get("page", 1))
        rows = [{"id": 2 * page + at, "at": f"{DATE}T12:00:00Z", "name": "a"} for at in range(2)]
        return Said({"items": rows, "next": f"/items?page={page + 1}" if page < 3 else None})


def read(server: AnsweringServer, extra: dict[str, Any] = OAUTH) -> Poll:
    source = declared("items", NextLink(at="next", ends="no_token"), at="items", retry_budget_seconds=1)
    connection = Connection(conn_id="api", conn_type="http", host=server.url, login="me", password=CANARY, extra=extra)
    return poll(source, connection, DAY)


@pytest.mark.parametrize(("good_for", "tokens"), [(9, 1), (2, 2), (1, 3)])
def test_h21_a_token_that_ends_between_two_pages_costs_neither_the_day_nor_a_row(good_for: int, tokens: int) -> None:
    api = Api(good_for)
    with AnsweringServer(api) as server:
        assert sorted(ids(read(server))) == [2, 3, 4, 5, 6, 7]
        pages = [heard.params for heard in server.heard if heard.path == "/items"]
    assert api.tokens == tokens
    assert len(pages) == 3 + tokens - 1


def test_the_polls_of_a_process_share_one_token() -> None:
    """airbyte #28311: a new token for every stream exhausted the token endpoint."""
    api = Api(100)
    with AnsweringServer(api) as server:
        for _ in range(3):
            read(server)
    assert api.tokens == 1


def test_a_refresh_token_that_is_good_once_is_refused_and_no_run_is_locked_out() -> None:
    """airbyte #3990, #18035, #82783: two operations with the same stored token, and the second one lost the account."""

    def rotates(heard: Heard) -> Said:
        if heard.path == "/token":
            return Said({"access_token": "t", "refresh_token": f"{CANARY}-next", "expires_in": 3600})
        return Said({"items": [], "next": None})

    with AnsweringServer(rotates) as server:
        for _ in range(2):
            with pytest.raises(ConfigError, match="rotates refresh tokens") as caught:
                read(server, {"auth": "oauth2_refresh_token", "auth_url": "/token", "refresh_token": CANARY})
            assert CANARY not in str(caught.value)
        assert [heard.path for heard in server.heard] == ["/token"], "a refusal is not asked for again"


def test_a_token_that_is_refused_at_once_is_a_person_s_matter() -> None:
    api = Api(0)
    with AnsweringServer(api) as server, pytest.raises(ConfigError, match="the API refuses the credentials") as caught:
        read(server)
    assert api.tokens == 2
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("link", ["http://[::1/items", "https://[/"])
def test_a_next_link_that_is_no_address_is_told(link: str) -> None:
    def answer(_: Heard) -> Said:
        return Said({"items": [{"id": 1, "at": f"{DATE}T12:00:00Z", "name": "a"}], "next": link})

    with AnsweringServer(answer) as server, pytest.raises(RetriableError, match="page 1 has a link to a next page"):
        read(server, {})


ROWS = [{"id": number, "at": f"{DATE}T12:00:00Z", "name": "a"} for number in range(4)]
SESSION = {"auth": "session", "auth_url": "/login", "auth_result": "id", "send_as": "X-Session"}


class SessionApi:
    """Two pages. Each session is good for one of them, and the answer after it is ``ended``."""

    def __init__(self, ended: Said, *, is_final: bool = False) -> None:
        self._ended = ended
        self._is_final = is_final
        self.sessions = 0
        self._left = 0

    def __call__(self, heard: Heard) -> Said:
        if heard.path == "/login":
            self.sessions += 1
            self._left = 0 if self._is_final and self.sessions > 1 else 1
            return Said({"id": f"s{self.sessions}"})
        if heard.path == "/welcome":
            return Said(b"<html>Please log in</html>", headers={"Content-Type": "text/html"})
        if heard.headers.get("x-session") != f"s{self.sessions}" or not self._left:
            return self._ended
        self._left -= 1
        page = int(dict(heard.params).get("page", 1))
        return Said({"items": ROWS[2 * page - 2 : 2 * page], "next": "/items?page=2" if page == 1 else None})


LOGGED_OUT = {
    "403": (Said({}, 403), {"status": 403}),
    "419": (Said({}, 419), {"status": 419}),
    "redirect": (
        Said({}, 302, {"Location": "/welcome?next=%2Fitems"}),
        {"header": "location", "header_value": "/welcome"},
    ),
    "error in a 200": (Said({"error": {"code": 17}}), {"at": "/error/code", "values": [17]}),
}


@pytest.mark.parametrize("way", LOGGED_OUT)
@pytest.mark.parametrize("is_final", [False, True])
def test_a_session_that_ends_is_begun_again_once(way: str, *, is_final: bool) -> None:
    ended, rule = LOGGED_OUT[way]
    api = SessionApi(ended, is_final=is_final)
    source = declared(
        "items",
        NextLink(at="next", ends="no_token"),
        at="items",
        errors=[rule | {"then": "login"}],
        retry_budget_seconds=0,
    )
    with AnsweringServer(api) as server:
        connection = Connection(
            conn_id="api", conn_type="http", host=server.url, login="me", password=CANARY, extra=SESSION
        )
        if is_final:
            with pytest.raises(ConfigError, match="takes it for the end of a session, and new credentials do not help"):
                poll(source, connection, DAY)
        else:
            assert sorted(ids(poll(source, connection, DAY))) == [0, 1, 2, 3]
        assert api.sessions == 2


def test_credentials_that_cannot_be_fetched_again_are_a_person_s_matter() -> None:
    source = declared(
        "items", NextLink(at="next", ends="no_token"), at="items", errors=[{"status": 403, "then": "login"}]
    )
    with AnsweringServer(lambda _: Said({}, 403)) as server:
        connection = Connection(conn_id="api", conn_type="http", host=server.url, login="me", password=CANARY)
        with pytest.raises(ConfigError, match="only sessions and OAuth tokens can be fetched again"):
            poll(source, connection, DAY)
        assert len(server.heard) == 1


@pytest.mark.parametrize("keep_host", [True, False])
def test_links_that_name_the_service_by_another_host_keep_the_host_if_declared(*, keep_host: bool) -> None:
    """Such a host gets no credentials, and its refusal says so."""

    def serve(heard: Heard) -> Said:
        page = int(dict(heard.params).get("page", 1))
        link = f"{other.url}/items?page=2" if page == 1 else None
        return Said({"items": ROWS[2 * page - 2 : 2 * page], "next": link})

    with AnsweringServer(lambda _: Said({}, 401)) as other, AnsweringServer(serve) as server:
        source = declared("items", NextLink(at="next", ends="no_token", keep_host=keep_host), at="items")
        connection = Connection(
            conn_id="api",
            conn_type="http",
            host=server.url,
            login="me",
            password=CANARY,
            extra={"allowed_hosts": [other.url]},
        )
        if keep_host:
            assert sorted(ids(poll(source, connection, DAY))) == [0, 1, 2, 3]
            assert all(heard.headers["authorization"].startswith("Basic ") for heard in server.heard)
        else:
            with pytest.raises(ConfigError, match=r"asked without the credentials of connection 'api'.*set keep_host"):
                poll(source, connection, DAY)
        assert len(other.heard) == (not keep_host)
