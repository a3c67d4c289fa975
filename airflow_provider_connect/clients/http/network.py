"""Connects: httpcore's network, with a name service that cannot hang and addresses that are looked at.

Which addresses may be spoken to is checked, so that no answer leads a request into the network behind it.
"""

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
    """Tell whose network a numeric address belongs to. What is neither public nor link-local counts as private.

    :raises ValueError: it is none.
    """
    inner = _inner(ipaddress.ip_address(address.partition("%")[0]))
    if inner.is_link_local:  # where clouds have their metadata services, which hand out credentials
        return "link-local"
    return "public" if inner.is_global and not inner.is_multicast else "private"


def _inner(address: Address) -> Address:
    """Return the IPv4 address that one of IPv6 stands for, if it does."""
    if not isinstance(address, ipaddress.IPv6Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


class AddressPolicy:
    """Where the requests of one connection may go. For several threads at once.

    Its own hosts may be private ones. What a host is when it is first spoken to, it has to stay: a name that was public
    and is private all of a sudden was bent. A link-local address has to be named as a number.

    :param hosts: which the connection names.
    """

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._zones: dict[str, AddressZone] = {}
        self._lock = threading.Lock()

    def allowed_addresses(self, host: str, addresses: list[Any]) -> list[Any]:
        """Return those of a host's addresses that may be connected to.

        :param addresses: as :func:`socket.getaddrinfo` returns them.
        :raises ConfigError: there are none.
        """
        zones = [(address_zone(address[4][0]), address) for address in addresses]
        zone = self._zone(host.lower(), [zone for zone, _ in zones])
        allowed = [address for address_zone_, address in zones if address_zone_ in ("public", zone)]
        if addresses and not allowed:
            raise ConfigError(
                f"{host} has an address in a {zones[0][0]} network, which is not spoken to unless the connection's own "
                "host is there from the start: look at what the name means on this machine, and whom it belongs to"
            )
        return allowed

    def _zone(self, host: str, zones: list[AddressZone]) -> AddressZone:
        """Return which network a host may be in, beside the public one."""
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
    """Connects to hosts, within a time.

    :param left_seconds: how long it may take yet. Raises an error when the time is up.
    :param connected: called with each socket as soon as it is there. Raises an error if it is not wanted any more.
    :param reach: the addresses that may be connected to.
    """

    def __init__(
        self, seconds_left: Callable[[], float], on_connected: Callable[[socket.socket], None], address_policy: AddressPolicy | None
    ) -> None:
        self._left_seconds = seconds_left
        self._connected = on_connected
        self._reach = address_policy

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a host that accepts it."""
        refusal: Exception = OSError("no address")
        addresses = self._resolve(host, port)
        if self._reach is not None:  # what is checked here is what is connected to: the name is not asked for again
            addresses = self._reach.allowed_addresses(host, addresses)
        for *_, address in addresses:
            timeout_left = max(min(timeout or threading.TIMEOUT_MAX, self._left_seconds()), 0.001)
            try:
                stream = httpcore.SyncBackend().connect_tcp(address[0], port, timeout_left, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                refusal = error
                continue
            try:
                self._connected(stream.get_extra_info("socket"))
            except BaseException:
                stream.close()
                raise
            return stream
        raise refusal

    def _resolve(self, host: str, port: int) -> list[Any]:
        """Ask the name service, in a thread: a question without an answer cannot be ended in any other way."""
        answers: queue.SimpleQueue[list[Any] | OSError | ValueError] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
            except (OSError, ValueError) as error:
                answers.put(error)

        threading.Thread(target=look_up, name="http-resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=min(self._left_seconds(), threading.TIMEOUT_MAX))
        except queue.Empty:
            self._left_seconds()
            raise TimeoutError from None
        if isinstance(answer, (OSError, ValueError)):
            raise answer
        return answer
