"""What a port speaks, where it speaks neither TLS nor Kafka, or nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_provider_connect.clients.kafka import listeners as _kafka_listeners
from airflow_provider_connect.clients.kafka.listeners import _parse_address, find_protocol_mismatch


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Run a server that sends the same to everybody, whatever they say, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("protocol", ["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"])
@pytest.mark.parametrize("answer", [b"", b"\x15", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(10)])
def test_a_port_with_an_unknown_protocol_is_not_explained(protocol: str, answer: bytes):
    with answering(answer) as server:
        assert (
            find_protocol_mismatch({"bootstrap.servers": f"127.0.0.1:1, {server}", "security.protocol": protocol})
            is None
        )


@pytest.mark.parametrize("answer", [b"\x15\x03\x03\x00\x02\x02\x28", b"\x16\x03\x03\x00\x7a"])
def test_an_alert_and_a_handshake_are_recognized_as_tls(answer: bytes):
    with answering(answer) as server:
        assert "speaks TLS" in (find_protocol_mismatch({"bootstrap.servers": server}) or "")
        assert find_protocol_mismatch({"bootstrap.servers": server, "security.protocol": "SSL"}) is None


@pytest.mark.parametrize(("seconds", "asked"), [(60.0, True), (0.01, False)])
def test_silent_servers_share_one_time_limit(monkeypatch: pytest.MonkeyPatch, seconds: float, asked: bool):
    monkeypatch.setattr(_kafka_listeners, "_SECONDS", 0.7)
    monkeypatch.setattr(_kafka_listeners, "_ALL_SECONDS", seconds)
    with socket.create_server(("127.0.0.1", 0)) as silent, answering(b"\x16\x03\x03") as server:
        servers = f"127.0.0.1:{silent.getsockname()[1]},{server}"
        assert (find_protocol_mismatch({"bootstrap.servers": servers}) is not None) == asked


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("one:9093", ("one", 9093)),
        ("one", ("one", 9092)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
    ],
)
def test_server_addresses_are_parsed_as_librdkafka_does(written: str, address: tuple[str, int]):
    assert _parse_address(written) == address


def test_an_invalid_address_is_left_to_librdkafka():
    assert find_protocol_mismatch({"bootstrap.servers": "one:port,:,"}) is None
