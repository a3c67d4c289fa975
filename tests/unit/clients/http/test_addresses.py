"""No answer, and no name that was bent, leads a request into the network behind the worker."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import NO_AUTH
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.clients.http.network import AddressPolicy, address_zone
from airflow_provider_connect.errors import ConfigError
from tests.equipment.http.answering import AnsweringServer, Said
from tests.equipment.http.sending import request

LIMITS = HttpTimeouts(connect_timeout_seconds=5, read_timeout_seconds=5, deadline_seconds=20)


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("8.8.8.8", "public"),
        ("2606:4700::1111", "public"),
        ("127.0.0.1", "private"),
        ("0.0.0.0", "private"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("224.0.0.1", "private"),
        ("::1", "private"),
        ("fd00::1", "private"),
        ("::ffff:127.0.0.1", "private"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b::808:808", "public"),
        ("2002:7f00:1::", "private"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
    ],
)
def test_each_address_has_its_zone(address: str, zone: str) -> None:
    assert address_zone(address) == zone


def found(*addresses: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in addresses]


def permitted(reach: AddressPolicy, host: str, *addresses: str) -> list[str]:
    return [each[4][0] for each in reach.allowed_addresses(host, found(*addresses))]


def test_the_connection_s_own_host_may_be_a_private_one_from_the_start() -> None:
    reach = AddressPolicy(frozenset({"intranet.example"}))
    assert permitted(reach, "intranet.example", "10.0.0.1") == ["10.0.0.1"]
    assert permitted(reach, "intranet.example", "10.0.0.2") == ["10.0.0.2"]


def test_a_name_that_was_public_and_is_private_all_of_a_sudden_is_refused() -> None:
    reach = AddressPolicy(frozenset({"api.example"}))
    assert permitted(reach, "api.example", "8.8.8.8", "127.0.0.1") == ["8.8.8.8"]
    with pytest.raises(ConfigError, match=r"api\.example has an address in a private network"):
        permitted(reach, "api.example", "127.0.0.1")


def test_a_host_that_the_connection_does_not_name_may_not_be_private() -> None:
    with pytest.raises(ConfigError, match="private network"):
        permitted(AddressPolicy(frozenset({"intranet.example"})), "files.example", "10.0.0.1")


def test_a_name_never_leads_to_a_metadata_service_but_its_number_does_if_it_is_named() -> None:
    with pytest.raises(ConfigError, match="link-local network"):
        permitted(AddressPolicy(frozenset({"api.example"})), "api.example", "169.254.169.254")
    named = AddressPolicy(frozenset({"169.254.169.254"}))
    assert permitted(named, "169.254.169.254", "169.254.169.254") == ["169.254.169.254"]


def test_the_address_that_was_looked_at_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means something else each time it is asked for: public while it is checked, private afterwards."""
    real = socket.getaddrinfo
    asked: list[str] = []

    def bent(host: str, *args: Any, **options: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", bent)
    with AnsweringServer(lambda _: Said({})) as server:
        reach = AddressPolicy(frozenset({"api.example"}))
        reach.allowed_addresses("api.example", found("8.8.8.8"))
        with pytest.raises(ConfigError, match="private network"):
            request(f"http://api.example:{server.port}/", {}, NO_AUTH, LIMITS, reach=reach)
        assert asked == ["api.example"]
        assert server.heard == []


def test_what_a_proxy_may_reach_is_the_proxy_s_to_say() -> None:
    with AnsweringServer(lambda _: Said({})) as proxy:
        reach = AddressPolicy(frozenset())
        with request("http://10.9.9.9/", {}, NO_AUTH, LIMITS, reach=reach, proxy=SecretStr(proxy.url)) as answer:
            assert answer.status == 200
