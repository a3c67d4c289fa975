"""Where an answer leads: within the connection's own host, to hosts that it names without credentials, nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_connect.clients.http import json_api
from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.clients.http.route import HttpRoute
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer, Heard, Said
from tests.equipment.http.raw_server import Peer, RawServer

CANARY = "canary-7f"
Make = Callable[..., JsonApi]
OK = Said({"rows": []})
KEYS: dict[str, dict[str, Any]] = {
    "header": {"auth": "api_key", "send_as": "X-Api-Key"},
    "query": {"auth": "api_key", "send_as": "api_key", "send_in": "query"},
    "cookie": {"auth": "api_key", "send_as": "sid", "send_in": "cookie"},
    "bearer": {"auth": "bearer"},
    "own header": {"auth": "none", "headers": {"X-Tenant-Key": CANARY}},
}


def moving(to: str, status: int = 302) -> Callable[[Heard], Said]:
    """Redirect every path but /there."""
    return lambda heard: OK if heard.path == "/there" else Said(b"", status, {"Location": to})


def is_told(heard: Heard) -> bool:
    return CANARY in repr(heard)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_host_is_followed_with_its_own_query(asker_of: Make, status: int) -> None:
    with AnsweringServer(moving("/there?b=2", status)) as server:
        asker = asker_of(server, password=CANARY, extra=KEYS["query"])
        reply = asker.ask(Call("here", params=[("a", "1")]))
        assert [heard.params for heard in server.heard] == [
            [("a", "1"), ("api_key", CANARY)],
            [("b", "2"), ("api_key", CANARY)],
        ]
    assert reply.url == f"{server.url}/there?b=2"  # what a relative link is relative to; it holds no key


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("way", ["redirect", "link"])
def test_h15_h16_credentials_never_leave_their_host(asker_of: Make, key: dict[str, Any], way: str) -> None:
    """erpl-web #183, azure-sdk-for-python PR #47390, Policy-Weaver #112: credentials follow a link to another host."""
    call = Call("here", headers={"X-Custom": f"{CANARY}-declared"})
    with AnsweringServer(lambda _: OK) as other, AnsweringServer(moving(f"{other.url}/there?signed=1")) as server:
        if way == "link":
            call = Call(f"{other.url}/there?signed=1", headers=call.headers)
        with pytest.raises(
            ConfigError, match=r"leads to http://127\.0\.0\.1:\d+, which .* so no request is sent"
        ) as caught:
            asker_of(server, password=CANARY, extra=key).ask(call)
        assert CANARY not in str(caught.value)
        assert other.heard == []
        named = key | {"allowed_hosts": [other.url]}
        assert asker_of(server, password=CANARY, extra=named).ask(call).verdict == "rows"
        assert [(heard.path, heard.params) for heard in other.heard] == [("/there", [("signed", "1")])]
        assert not is_told(other.heard[0])
        assert way == "link" or is_told(server.heard[0])


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://127.0.0.1:{port}/there",
        "http://localhost:{port}/there",
        "http://127.0.0.1:{port}@evil.example/there",
        "http://me:pw@127.0.0.1:{port}/there",
        "http://127.0.0.1:{port}\\@evil.example/",
        "//evil.example/there",
        "file:///etc/passwd",
        "ftp://127.0.0.1/there",
        "http://[::1/there",
        "http://127.0.0.1:99999/there",
        "gopher://127.0.0.1:{port}/",
    ],
)
@pytest.mark.parametrize("way", ["redirect", "link"])
def test_h16_a_link_to_anywhere_else_is_refused(asker_of: Make, to: str, way: str) -> None:
    def move(heard: Heard) -> Said:
        return moving(to.format(port=server.port))(heard)

    with AnsweringServer(move) as server:
        call = Call("here") if way == "redirect" else Call(to.format(port=server.port))
        with pytest.raises(ConfigError, match=r"leads to|redirects to an invalid address"):
            asker_of(server, password=CANARY, extra=KEYS["header"]).ask(call)
        assert [heard.path for heard in server.heard] == (["/here"] if way == "redirect" else [])


def test_a_redirect_that_loses_the_query_is_refused(asker_of: Make) -> None:
    """It would ask for everything, and the answer would look like the day's."""
    with AnsweringServer(moving("/there")) as server:
        with pytest.raises(ConfigError, match="to an address without a query"):
            asker_of(server).ask(Call("here", params=[("from", "1")]))
        assert len(server.heard) == 1


def test_h15_redirects_that_never_end_are_asked_a_few_times(asker_of: Make) -> None:
    with AnsweringServer(moving("/again")) as server:
        with pytest.raises(ConfigError, match="redirects more than 5 times"):
            asker_of(server).ask(Call("here"))
        assert len(server.heard) == 6


def test_h15_a_post_is_never_sent_elsewhere(asker_of: Make) -> None:
    with AnsweringServer(moving("/there", 307)) as server:
        with pytest.raises(ConfigError, match=r"redirects a POST \(status 307\)"):
            asker_of(server).ask(Call("here", "POST"))
        assert len(server.heard) == 1


@pytest.mark.parametrize("status", [300, 302, 304])
def test_a_redirect_to_nowhere_is_refused(asker_of: Make, status: int) -> None:
    with AnsweringServer(lambda _: Said(b"", status)) as server, pytest.raises(ConfigError, match="redirects a GET"):
        asker_of(server).ask(Call("here"))


def test_a_path_that_looks_like_an_address_further_on_is_a_path(asker_of: Make) -> None:
    with AnsweringServer(lambda _: OK) as server:
        asker_of(server).ask(Call("proxy?to=https://evil.example/"))
        asker_of(server).ask(Call("search:all"))
        assert [heard.path for heard in server.heard] == ["/proxy", "/search:all"]


def test_a_host_whose_name_holds_the_key_is_not_shown(asker_of: Make) -> None:
    text = r"leads to https://\*\*\*\.evil\.example:443"
    moved = moving(f"https://{CANARY}.evil.example/")
    with AnsweringServer(moved) as server, pytest.raises(ConfigError, match=text) as caught:
        asker_of(server, password=CANARY, extra=KEYS["header"]).ask(Call("here"))
    assert CANARY not in str(caught.value)


def test_a_link_by_http_to_the_host_that_is_reached_by_https_is_asked_by_https(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django behind a proxy that ends TLS links to itself like that."""
    asked: list[str] = []

    def request(_: HttpRoute, url: str, *args: Any, **options: Any) -> Any:
        asked.append(url)
        raise ConfigError("far enough")

    monkeypatch.setattr(json_api, "request", request)
    for host, link in (
        ("api.example/v1", "http://api.example/v1/a?page=2"),
        ("api.example:443", "http://API.example:80/a"),
        ("api.example:8443", "http://api.example/a"),
        ("api.example", "http://api.example:8080/a"),
        ("api.example", "http://me@api.example/a"),
    ):
        with pytest.raises(ConfigError), JsonApi(Connection(conn_id="c", host=host)) as asker:
            asker.ask(Call(link))
    assert asked == ["https://api.example/v1/a?page=2", "https://api.example:443/a"]


def test_a_redirect_that_has_no_body_and_does_not_say_so_is_not_waited_for(clock: NoTime) -> None:
    def answer(peer: Peer) -> None:
        if b"GET /there" in peer.request:
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        else:
            peer.say(b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n")
            peer.wait()

    times = HttpTimeouts(connect_timeout_seconds=5, read_timeout_seconds=5, deadline_seconds=60)
    with (
        RawServer(answer) as server,
        JsonApi(Connection(conn_id="c", host=server.url), clock=clock, timeouts=times) as asker,
    ):
        began = time.monotonic()
        assert asker.ask(Call("here")).body == b"[]"
        assert time.monotonic() - began < 4


def test_what_another_host_refuses_says_nothing_about_our_token(asker_of: Make) -> None:
    def api(heard: Heard) -> Said:
        return Said({"access_token": "t"}) if heard.path == "/token" else moving(f"{other.url}/there")(heard)

    with AnsweringServer(lambda _: Said({}, 401)) as other, AnsweringServer(api) as server:
        extra = {"auth": "oauth2_client_credentials", "auth_url": "/token", "allowed_hosts": [other.url]}
        with pytest.raises(ConfigError, match="answered 401"):
            asker_of(server, login="me", password=CANARY, extra=extra).ask(Call("here"))
        assert [heard.path for heard in server.heard] == ["/token", "/here"]
