"""Detects the protocol of a cluster's ports, because librdkafka cannot tell a wrong protocol from an absent broker.

Sends the beginning of a TLS handshake, or a Kafka SaslHandshake request, without credentials
(https://kafka.apache.org/protocol.html, 2026-11).
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping
from contextlib import suppress

from airflow_provider_connect.clients.kafka.settings import word_setting

_SECONDS, _ALL_SECONDS = 3.0, 6.0
_DEFAULT_PORT = 9092
_SASL_HANDSHAKE, _VERSION, _CORRELATION, _ILLEGAL_SASL_STATE = 17, 1, 0x636F6E6E, 34
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""First bytes of an alert and of a handshake."""


def find_protocol_mismatch(conf: Mapping[str, str]) -> str | None:
    """Return a message about a server with another protocol than ``security.protocol``, or None."""
    protocol = word_setting(conf, "security.protocol", "plaintext")
    deadline = time.monotonic() + _ALL_SECONDS
    for server in conf.get("bootstrap.servers", "").split(","):
        if time.monotonic() > deadline:
            return None
        server_address = server.strip().rpartition("//")[2]
        with suppress(OSError, ValueError):  # without a response the protocol is unknown
            if mismatch := _mismatch(server_address, _parse_address(server_address), protocol):
                return mismatch
    return None


def _mismatch(server: str, address: tuple[str, int], protocol: str) -> str | None:
    setting = f"and security.protocol is {protocol.upper()}"
    if protocol in ("ssl", "sasl_ssl"):
        if _requires_sign_in(address) is None:
            return None
        return f"{server} speaks no TLS, {setting}: name the port of a TLS listener, or correct security.protocol"
    if _speaks_tls(address):
        secured = "SASL_SSL" if protocol == "sasl_plaintext" else "SSL, or SASL_SSL with a sign-in"
        return f"{server} speaks TLS, {setting}: set it to {secured}, or name the port of a listener without TLS"
    if protocol == "plaintext" and _requires_sign_in(address):
        return (
            f"{server} requires a sign-in, {setting}: set it to SASL_PLAINTEXT with a sasl.mechanism, or name "
            "another port"
        )
    return None


def _parse_address(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        return server.strip("[]"), _DEFAULT_PORT
    return host.strip("[]"), int(port)


def _speaks_tls(address: tuple[str, int]) -> bool:
    hello = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # needs no authorities to begin
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname=address[0]).do_handshake()
    return _request_bytes(address, hello.read(), 2) in _TLS_RECORDS


def _requires_sign_in(address: tuple[str, int]) -> bool | None:
    """Return True if a plain listener requires a sign-in. None if it does not speak Kafka without TLS."""
    request = struct.pack(">hhih5s", _SASL_HANDSHAKE, _VERSION, _CORRELATION, -1, b"\0\x03NON")
    response = _request_bytes(address, struct.pack(">i", len(request)) + request, 10)
    if len(response) < 10 or struct.unpack(">i", response[4:8]) != (_CORRELATION,):
        return None
    return struct.unpack(">h", response[8:10]) != (_ILLEGAL_SASL_STATE,)


def _request_bytes(address: tuple[str, int], request: bytes, size: int) -> bytes:
    with socket.create_connection(address, _SECONDS) as connection:
        connection.sendall(request)
        response = b""
        with suppress(ConnectionError):
            while len(response) < size and (chunk := connection.recv(size - len(response))):
                response += chunk
    return response
