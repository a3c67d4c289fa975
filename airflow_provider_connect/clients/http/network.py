"""Opens TCP connections to checked addresses before a deadline."""

from __future__ import annotations

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal

import httpcore

from airflow_provider_connect.errors import ConfigError

AddressZone = Literal["public", "private", "link-local"]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def address_zone(address: str) -> AddressZone:
    """Classify a numeric address, as private if neither public nor link-local.

    :raises ValueError: the address is invalid.
    """
    embedded_address = _embedded_address(ipaddress.ip_address(address.partition("%")[0]))
    if embedded_address.is_link_local:  # clouds serve metadata with credentials there
        return "link-local"
    return "public" if embedded_address.is_global and not embedded_address.is_multicast else "private"


def _embedded_address(address: Address) -> Address:
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


class AddressPolicy:
    """Policy of the addresses that a connection's requests may reach. Thread-safe.

    Only the connection's own hosts may be private. A host that moves from a public to a private address is refused. A
    link-local address must be given as a number.
    """

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._zones: dict[str, AddressZone] = {}
        self._lock = threading.Lock()

    def allowed_addresses(self, host: str, addresses: list[Any]) -> list[Any]:
        """Return the addresses of a host that a request may reach. Raises ConfigError without any."""
        zones = [(address_zone(address[4][0]), address) for address in addresses]
        zone = self._zone(host.lower(), [zone for zone, _ in zones])
        allowed = [address for address_zone_, address in zones if address_zone_ in ("public", zone)]
        if addresses and not allowed:
            raise ConfigError(
                f"{host} has an address in a {zones[0][0]} network. Such addresses are refused unless the "
                "connection's own host was there from the first request. Check the name's meaning on this machine, "
                "and its owner"
            )
        return allowed

    def _zone(self, host: str, zones: list[AddressZone]) -> AddressZone:
        if host not in self._hosts or not zones:
            return "public"
        zone: AddressZone = "public" if "public" in zones else "private"
        if "link-local" in zones and _is_number(host):
            zone = "link-local"
        with self._lock:
            return self._zones.setdefault(host, zone)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class Network(httpcore.NetworkBackend):
    """httpcore backend that opens connections to allowed addresses before a deadline.

    :param seconds_left: time until the deadline. Raises after it.
    :param on_connected: called with each new socket.
    :param address_policy: None allows every address.
    """

    def __init__(
        self,
        seconds_left: Callable[[], float],
        on_connected: Callable[[socket.socket], None],
        address_policy: AddressPolicy | None,
    ) -> None:
        self._seconds_left = seconds_left
        self._on_connected = on_connected
        self._address_policy = address_policy

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first allowed address that accepts."""
        refusal: Exception = OSError("no address")
        addresses = self._resolve(host, port)
        if self._address_policy is not None:  # connect to the checked address: the name is not resolved again
            addresses = self._address_policy.allowed_addresses(host, addresses)
        for *_, address in addresses:
            timeout_left = max(min(timeout or threading.TIMEOUT_MAX, self._seconds_left()), 0.001)
            try:
                stream = httpcore.SyncBackend().connect_tcp(
                    address[0], port, timeout_left, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refusal = error
                continue
            try:
                self._on_connected(stream.get_extra_info("socket"))
            except BaseException:
                stream.close()
                raise
            return stream
        raise refusal

    def _resolve(self, host: str, port: int) -> list[Any]:
        """Resolve a name in a thread, since a hanging lookup cannot be interrupted. A number needs no lookup."""
        if _is_number(host):
            return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        answers: queue.SimpleQueue[list[Any] | OSError | ValueError] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
            except (OSError, ValueError) as error:
                answers.put(error)

        threading.Thread(target=look_up, name="http-resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=min(self._seconds_left(), threading.TIMEOUT_MAX))
        except queue.Empty:
            self._seconds_left()
            raise TimeoutError from None
        if isinstance(answer, (OSError, ValueError)):
            raise answer
        return answer
