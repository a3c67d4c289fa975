"""What the registry's client makes of connections and of answers; the real registry has its tests in integration."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.kafka.registry import check_connection, registry_url
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.sinks._kafka.schema_resolver import SchemaResolver, Subject, value_subject
from tests.equipment.bigquery.server import CANARY, Server

DOCUMENT = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]})
OTHER = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]})


def connection(host: str, **fields: Any) -> Connection:
    return Connection(conn_id="registry_default", conn_type="http", host=host, **fields)


def resolve(host: str, registration: Any = "auto_register", **fields: Any) -> Any:
    with closing(
        SchemaResolver(connection(host, **fields), timeout_seconds=0.3, registration=registration)
    ) as registry:
        return registry.value_schema("t-value", DOCUMENT, "AVRO")


def refusal(status: int, code: int, message: str = "x") -> tuple[int, Any]:
    return status, {"error_code": code, "message": message}


NO_SUBJECT = refusal(404, 40401)
REGISTERED = (200, {"subject": "t-value", "id": 7, "version": 3, "schema": DOCUMENT})


@pytest.mark.parametrize(("strategy", "name"), [("topic", "t-value"), ("record", "a.B"), ("topic_record", "t-a.B")])
def test_subjects_are_named_as_confluents_strategies_do(strategy: Any, name: str) -> None:
    assert value_subject(strategy, "t", "a.B") == name


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"host": "http://h:1/apis/ccompat/v7/"}, "http://h:1/apis/ccompat/v7"),
        ({"host": "https://h/x", "port": 8081}, "https://h:8081/x"),
        ({"host": "h", "port": 8081}, "http://h:8081"),
        ({"host": "h", "path": "https"}, "https://h"),
        ({"host": "http://[::1]:5"}, "http://[::1]:5"),
    ],
)
def test_the_address_is_read_from_host_schema_and_port(fields: dict[str, Any], found: str) -> None:
    assert registry_url(connection(**fields)) == found
    assert check_connection(connection(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"host": ""}, "must be the http(s) URL"),
        ({"host": "ftp://h"}, "must be the http(s) URL"),
        ({"host": "http://a,http://b"}, "URL of one schema registry"),
        ({"host": "http://h:port"}, "no URL"),
        ({"host": f"https://user:{CANARY}@h"}, "Use the fields login and password"),
        ({"host": "https://h", "login": "me"}, "login and password belong together"),
        ({"host": "http://h", "login": "me", "password": CANARY}, "without TLS"),
        ({"host": "https://h", "extra": {"basic.auth.user.info": CANARY}}, "'basic.auth.user.info' is unknown"),
    ],
)
def test_a_wrong_connection_is_named_without_its_secrets(fields: dict[str, Any], said: str) -> None:
    (problem,) = check_connection(connection(**fields))
    assert said in problem
    assert CANARY not in problem
    with pytest.raises(ConfigError, match="registry_default"):
        SchemaResolver(connection(**fields), 1, "auto_register")


def test_files_that_do_not_exist_are_a_wrong_connection() -> None:
    with pytest.raises(ConfigError, match="Check the files"):
        SchemaResolver(connection("https://h", extra={"ssl.ca.location": "/nowhere/ca.pem"}), 1, "auto_register")


def test_a_schema_that_is_there_already_is_only_looked_up(server: Server) -> None:
    server.answer = REGISTERED
    found = resolve(server.url, login="me", password=CANARY)
    assert (found.subject, found.id, found.version, found.document) == ("t-value", 7, 3, None)
    assert server.asked == 1
    assert server.passwords[0] is not None
    assert server.passwords[0].startswith("Basic ")


def test_compatibility_is_asked_before_a_schema_is_registered(server: Server) -> None:
    server.first = [NO_SUBJECT, (200, {"is_compatible": False}), (200, {**REGISTERED[1], "schema": OTHER})]
    with pytest.raises(DataError, match=r"'t-value'.* field x: long here, string in the registered schema"):
        resolve(server.url)
    assert server.asked == 3


def test_a_subject_that_became_incompatible_meanwhile_is_named_too(server: Server) -> None:
    newest = (200, {**REGISTERED[1], "schema": OTHER})
    server.first = [NO_SUBJECT, (200, {"is_compatible": True}), refusal(409, 409), newest]
    with pytest.raises(DataError, match="field x"):
        resolve(server.url)


def test_problems_are_found_without_registering(server: Server) -> None:
    server.first = [(200, {"is_compatible": False}), (200, {**REGISTERED[1], "schema": OTHER})]
    subject: Subject = ("t-value", DOCUMENT, "AVRO")
    with closing(SchemaResolver(connection(server.url), 1, "auto_register")) as registry:
        (problem,) = registry.problems(subject, None)
        assert "field x" in problem
        server.answer = NO_SUBJECT
        assert registry.problems(subject, None) == []
    with closing(SchemaResolver(connection(server.url), 1, "use_latest")) as registry:
        problems = registry.problems(subject, ("t-key", DOCUMENT, "AVRO"))
        assert [("t-value" in text, "has no schema" in text) for text in problems] == [(True, True), (False, True)]


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal(401, 40101), ConfigError, "Check login, password"),
        (refusal(403, 40301), ConfigError, "access denied"),
        ((404, {"detail": "not here"}), ConfigError, "this address is no schema registry"),
        (refusal(422, 42201, "invalid schema"), DataError, "invalid schema"),
        (refusal(503, 50001), RetriableError, "answered 503"),
        (refusal(429, 42901), RetriableError, "answered 429"),
        ((200, []), ConfigError, "is no schema registry"),
    ],
)
def test_answers_are_named_by_what_to_do(
    server: Server, answer: tuple[int, Any], error: type[ConnectError], said: str
) -> None:
    server.answer = answer
    with pytest.raises(error, match=said) as raised:
        resolve(server.url, login="me", password=CANARY)
    assert type(raised.value) is error
    assert "registry_default" in str(raised.value)
    assert CANARY not in str(raised.value)


def test_a_registry_that_is_away_is_tried_again_later(closed: int, silent: int) -> None:
    for port in (closed, silent):
        with pytest.raises(RetriableError, match="no answer"):
            resolve(f"http://127.0.0.1:{port}")


@pytest.fixture
def untrusted(server: Server, tmp_path: Path) -> str:
    """The address of a server whose certificate nobody knows."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + dt.timedelta(1)
    )
    file = tmp_path / "server.pem"
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain) + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    return server.url.replace("http://", "https://")


def test_a_certificate_that_is_not_trusted_is_a_wrong_connection(untrusted: str) -> None:
    with pytest.raises(ConfigError, match=r"not trusted\. Set ssl\.ca\.location"):
        resolve(untrusted)


def test_a_plain_port_that_is_asked_in_tls_is_a_wrong_connection(server: Server) -> None:
    with pytest.raises(ConfigError, match=r"this port speaks no TLS\. Name the https port, or use an http URL"):
        resolve(server.url.replace("http://", "https://"))


def test_the_newest_schema_must_be_of_the_converters_kind_and_hold_the_rows(server: Server) -> None:
    server.answer = (200, {**REGISTERED[1], "schema": OTHER})
    with pytest.raises(DataError, match="version 3: cannot hold the rows: field x"):
        resolve(server.url, "use_latest")
    server.answer = (200, {**REGISTERED[1], "schemaType": "JSON"})
    with pytest.raises(DataError, match="its schema is JSON"):
        resolve(server.url, "use_latest")
    server.answer = (200, {**REGISTERED[1], "references": [{"name": "a", "subject": "b", "version": 1}]})
    with pytest.raises(DataError, match="refers to other subjects"):
        resolve(server.url, "use_latest")
    server.answer = NO_SUBJECT
    with pytest.raises(ConfigError, match="has no schema"):
        resolve(server.url, "use_latest")


def test_the_newest_schema_goes_with_its_id_where_it_is_another_text(server: Server) -> None:
    wider = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "long"]}]})
    server.answer = (200, {**REGISTERED[1], "schema": wider})
    assert resolve(server.url, "use_latest").document == wider
    server.answer = REGISTERED
    assert resolve(server.url, "use_latest").document is None
