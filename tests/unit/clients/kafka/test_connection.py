from __future__ import annotations

import base64
import ctypes
import json
import logging
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.kafka import settings as _kafka_settings
from airflow_provider_connect.clients.kafka.connection import (
    SecretFreeLog,
    check_connection,
    librdkafka_settings,
    make_admin_client,
    make_consumer,
    make_producer,
    secret_texts,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

SECRET = 'canary/+ pass"word'
HERE = {"bootstrap.servers": "127.0.0.1:1"}


def kafka(extra: dict[str, Any] | None = None, **fields: Any) -> Connection:
    return Connection(conn_id="k", conn_type="kafka", extra=HERE if extra is None else extra, **fields)


def sasl(mechanism: str = "PLAIN", protocol: str = "SASL_SSL", **more: Any) -> dict[str, Any]:
    return HERE | {"security.protocol": protocol, "sasl.mechanism": mechanism} | more


def oidc(**more: Any) -> dict[str, Any]:
    url = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "https://idp.test/token"}
    return sasl("OAUTHBEARER", **url) | {name.replace("__", "."): value for name, value in more.items()}


def only(found: list[str]) -> str:
    assert len(found) == 1, found
    return found[0]


def test_the_connection_that_airflow_makes_by_default_is_fine():
    connection = kafka({"bootstrap.servers": "broker:29092", "group.id": "my-group"})
    assert librdkafka_settings(connection) == {"bootstrap.servers": "broker:29092"}
    assert check_connection(connection, "exactly_once") == []


def test_setting_values_are_written_as_librdkafka_expects():
    extra = HERE | {"socket.keepalive.enable": True, "linger.ms": 5, "client.id": "", "client.rack": None}
    assert librdkafka_settings(kafka(extra)) == HERE | {"socket.keepalive.enable": "true", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("host", "port", "servers"),
    [
        ("one", 9092, "one:9092"),
        ("one:1, two", 2, "one:1,two:2"),
        ("one:1,two:2", None, "one:1,two:2"),
        ("one", None, "one"),
    ],
)
def test_host_and_port_stand_in_for_the_servers(host: str, port: int | None, servers: str):
    assert librdkafka_settings(kafka({}, host=host, port=port)) == {"bootstrap.servers": servers}
    assert librdkafka_settings(kafka(host=host, port=port)) == HERE


def test_login_and_password_stand_in_for_the_sasl_settings():
    connection = kafka(sasl("SCRAM-SHA-512"), login="me", password=SECRET)
    assert librdkafka_settings(connection)["sasl.username"] == "me"
    assert librdkafka_settings(connection)["sasl.password"] == SECRET
    assert check_connection(connection, "exactly_once") == []
    assert librdkafka_settings(kafka(sasl(**{"sasl.username": "other"}), login="me"))["sasl.username"] == "other"


def test_login_and_password_are_the_client_of_a_token_server():
    connection = kafka(oidc(), login="me", password=SECRET)
    assert librdkafka_settings(connection)["sasl.oauthbearer.client.id"] == "me"
    assert librdkafka_settings(connection)["sasl.oauthbearer.client.secret"] == SECRET
    assert "sasl.password" not in librdkafka_settings(connection)
    assert check_connection(connection, "exactly_once") == []


def test_a_setting_under_two_names_is_refused():
    with pytest.raises(ConfigError, match=r"'sasl.mechanism' is set twice, also as 'sasl.mechanisms'"):
        librdkafka_settings(kafka(sasl(**{"sasl.mechanisms": "SCRAM-SHA-256"})))
    assert librdkafka_settings(kafka(sasl(**{"sasl.mechanisms": "PLAIN"})))["sasl.mechanism"] == "PLAIN"


def test_a_setting_of_a_wrong_type_is_refused():
    with pytest.raises(ConfigError, match=r"extra field 'default.topic.config' must be text"):
        librdkafka_settings(kafka(HERE | {"default.topic.config": {"acks": "all"}}))


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"acks": 1}, "acks: must be"),
        ({"request.required.acks": "0"}, "acks: must be"),
        ({"enable.idempotence": False}, "enable.idempotence: must be true"),
        ({"transactional.id": "mine"}, "transactional.id: the sink makes its own"),
        ({"transaction.timeout.ms": 1000}, "transaction_timeout_seconds"),
        ({"isolation.level": "read_uncommitted"}, "isolation.level: must be read_committed"),
        ({"plugin.library.paths": "/tmp/x"}, "plugin.library.paths: it loads foreign code"),
        ({"security.protocol": "SSL", "ssl.engine.location": "/tmp/x"}, "ssl.engine.location: it loads foreign code"),
        ({"security.protocol": "SSL", "ssl.engine.id": "x"}, "ssl.engine.id: it loads foreign code"),
        ({"security.protocol": "SSL", "ssl.providers": "default,/tmp/x"}, "ssl.providers: must be base, default,"),
        (
            sasl("GSSAPI", **{"sasl.kerberos.kinit.cmd": "touch /tmp/x"}),
            "sasl.kerberos.kinit.cmd: the task would run it as a command",
        ),
        ({"internal.termination.signal": 0}, "internal.termination.signal: it may end the task's own process"),
        ({"oauth_cb": "a.b"}, "oauth_cb: a connection cannot contain functions"),
        ({"error_cb": "a.b"}, "error_cb: a connection cannot contain functions"),
        ({"on_delivery": "a.b"}, "on_delivery: a connection cannot contain functions"),
        ({"compression.codec": "brotli"}, "compression.type: librdkafka refuses its value"),
        ({"partitioner": "mine"}, "partitioner: librdkafka refuses its value"),
        ({"enable.ssl.certificate.verification": "false"}, "any server could pose as the cluster"),
        ({"max.in.flight": 6}, "max.in.flight"),
        ({"foo.bar": "x"}, "foo.bar: unknown setting, see librdkafka"),
        ({"linger": 5}, "linger: unknown setting, did you mean 'linger.ms'?"),
        ({"linger.ms": SECRET}, "linger.ms: librdkafka refuses its value"),
        ({"security.protocol": "TLS"}, "security.protocol: librdkafka refuses its value"),
        ({"sasl.username": "me"}, "sasl.username: not used with security.protocol PLAINTEXT"),
        ({"ssl.ca.pem": "x"}, "ssl.ca.pem: not used with security.protocol PLAINTEXT"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such"}, "ssl.ca.location: this machine has no such file"),
        ({"security.protocol": "SSL", "ssl.key.pem": SECRET}, "a client's certificate needs both"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}, "set the only trusted CA"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": " NONE"}, "set the only trusted CA"),
        ({"security.protocol": " ssl", "ssl.endpoint.identification.algorithm": "none"}, "set the only trusted CA"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism"),
        (sasl(), "PLAIN needs login (sasl.username) and password"),
        (sasl("SCRAM-SHA-256", **{"sasl.username": "me"}), "SCRAM-SHA-256 needs password (sasl.password)"),
        (sasl("OAUTHBEARER"), "needs sasl.oauthbearer.method=oidc"),
        (oidc(), "needs sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"),
        ({"bootstrap.servers": "a:1,,b:2"}, "bootstrap.servers has an empty entry"),
    ],
)  # fmt: skip
def test_each_problem_is_named_with_its_remedy(extra: dict[str, Any], says: str):
    found = check_connection(kafka(HERE | extra), "exactly_once")
    assert says in only(found)
    assert found[0].startswith("connection 'k': ")
    assert SECRET not in found[0]


@pytest.mark.parametrize("name", ["sasl.kerberos.principal", "sasl.kerberos.keytab"])
def test_kerberos_settings_cannot_end_the_command_they_are_written_into(name: str):
    extra = sasl("GSSAPI") | {name: 'x"; touch /tmp/x; "'}
    assert any(
        f": {name}: must contain only letters" in text for text in check_connection(kafka(extra), "exactly_once")
    )
    assert _kafka_settings.forbidden_settings({name: "kafka/host-1.example.com@EXAMPLE.COM"}) == {}


def documented_settings() -> dict[str, str]:
    """Return every setting that the installed librdkafka knows, with what it says about it."""
    from confluent_kafka import cimpl

    [path] = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "librdkafka" in line}
    assert cimpl is not None
    library, libc = ctypes.CDLL(path), ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = library.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as pool, os.fdopen(reading) as shown:
        text = pool.submit(shown.read)
        stream = libc.fdopen(writing, b"w")
        library.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        rows = [line.split("|") for line in text.result().splitlines() if line.count("|") > 4]
    return {row[0].strip(): row[-1] + row[3] for row in rows}


HARMLESS = {
    "builtin.features", "consume.callback.max.messages", "enable.sasl.oauthbearer.unsecure.jwt", "https.ca.location",
    "log.queue", "ssl.ca.certificate.stores", "ssl.ca.location",
}  # fmt: skip
"""Settings of librdkafka that sound like code and are none: looked at, one by one."""


def test_every_setting_of_librdkafka_that_sounds_like_code_is_refused_or_was_looked_at():
    known = documented_settings()
    assert {"ssl.engine.location", "linger.ms", "acks"} <= known.keys()
    code = re.compile(
        r"(?i)command|shell|engine|providers|plugin|librar|interceptor|callback|signal|\bload|execut|_cb\b"
    )
    by_text = {name: told for name, told in known.items() if "see dedicated API" not in told}
    sounding = {name for name, told in by_text.items() if code.search(f"{name} {told}")}
    assert sounding - HARMLESS - _kafka_settings.forbidden_settings(dict.fromkeys(known, "x;")).keys() == set()


def test_no_client_is_made_with_what_a_check_refuses(tmp_path: Path):
    for name in ("plugin.library.paths", "ssl.engine.location"):
        with pytest.raises(ConfigError, match="it loads foreign code"):
            make_admin_client(kafka(HERE | {"security.protocol": "SSL", name: str(tmp_path / "x.so")}))


def test_all_problems_are_reported_together():
    extra = {"bootstrap.server": "a:1", "acks": "1", "foo.bar": "x", "linger.ms": "soon", "oauth_cb": "a.b"}
    found = check_connection(kafka(extra), "exactly_once")
    for name in ("acks", "bootstrap.server", "foo.bar", "linger.ms", "oauth_cb"):
        assert any(f": {name}: " in text for text in found), (name, found)
    assert any("did you mean 'bootstrap.servers'?" in text for text in found)
    assert any("bootstrap.servers is missing. Set it in the extra, or set the host" in text for text in found)


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_credentials_travel_in_clear_on_this_machine_alone(mechanism: str):
    token = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": "http://localhost:1/token"}
    extra = sasl(mechanism, "SASL_PLAINTEXT", **(token if mechanism == "OAUTHBEARER" else {}))
    away = extra | {"bootstrap.servers": "localhost:1,broker.example.com:9092"}
    assert "exposes the credentials on the network" in only(
        check_connection(kafka(away, login="me", password=SECRET), "exactly_once")
    )
    assert check_connection(kafka(extra, login="me", password=SECRET), "exactly_once") == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://idp.example.com/token", "must begin with https://"),
        ("https://me:pass@idp.example.com/token", "must not contain credentials"),
    ],
)
def test_a_token_server_without_tls_is_refused(url: str, says: str):
    connection = kafka(oidc(sasl__oauthbearer__token__endpoint__url=url), login="me", password=SECRET)
    assert says in only(check_connection(connection, "exactly_once"))


def test_a_damaged_key_is_told_without_the_key(tmp_path: Path):
    extra = HERE | {"security.protocol": "SSL", "ssl.key.pem": SECRET * 3, "ssl.certificate.pem": "nonsense"}
    found = only(check_connection(kafka(extra), "exactly_once"))
    assert "ssl.certificate.pem" in found
    assert "canary" not in found


@pytest.mark.parametrize("extra", [{}, sasl("SCRAM-SHA-256"), oidc(), sasl("OAUTHBEARER", "SASL_PLAINTEXT")])
def test_a_check_opens_no_connection(extra: dict[str, Any]):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        port = server.getsockname()[1]
        extra = extra | {"bootstrap.servers": f"127.0.0.1:{port}"}
        if extra.get("sasl.mechanism") == "OAUTHBEARER":
            extra |= {"sasl.oauthbearer.method": "oidc"}
            extra |= {"sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token"}
        user = {"login": "me", "password": SECRET} if "sasl.mechanism" in extra else {}
        assert check_connection(kafka(extra, **user), "exactly_once") == []
        with pytest.raises(TimeoutError):
            server.accept()


def test_clients_are_made_with_what_must_not_be_chosen():
    connection = kafka(HERE | {"group.id": "mine", "auto.offset.reset": "earliest", "enable.auto.commit": True})
    assert make_producer(connection, **{"transactional.id": "connect-1"}) is not None
    reader = make_consumer(connection)
    assert reader.memberid() in (None, "")
    reader.close()
    assert make_admin_client(connection) is not None


def test_a_client_without_servers_is_not_made():
    with pytest.raises(ConfigError, match=r"connection 'k': bootstrap\.servers is missing"):
        make_producer(kafka({}))


def test_a_setting_that_librdkafka_refuses_is_a_config_error():
    with pytest.raises(ConfigError, match="connection 'k'") as caught:
        make_producer(kafka(HERE | {"linger.ms": SECRET}))
    assert SECRET not in str(caught.value)


def test_a_client_that_cannot_be_made_names_what_is_wrong_on_this_machine():
    extra = HERE | {"security.protocol": "SSL", "ssl.ca.location": "/no/such/file.pem"}
    with pytest.raises(ConfigError, match=r"connection 'k': ssl\.ca\.location: this machine has no such file"):
        make_admin_client(kafka(extra))
    with pytest.raises(ConfigError, match=r"connection 'k': .*transaction\.timeout\.ms"):
        make_producer(kafka(), **{"transactional.id": "x", "transaction.timeout.ms": "soon"})


def test_secrets_are_known_in_every_form_in_which_they_travel():
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END PRIVATE KEY-----\n"
    connection = kafka(HERE | {"ssl.key.pem": pem, "ssl.ca.pem": "public"}, login="me", password=SECRET)
    hidden = secret_texts(connection)
    assert {SECRET, pem, "MIIEvQIBADANBgkqhkiG9w0"} <= hidden
    assert base64.b64encode(f"me:{SECRET}".encode()).decode() in hidden
    assert "canary%2F%2B%20pass%22word" in hidden
    assert 'canary/+ pass\\"word' in hidden
    assert not {"public", "me", ""} & hidden


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.key.password", "ssl.keystore.password", "ssl.key.pem", "sasl.oauthbearer.client.secret",
     "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.config",
     "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.private.key.pem"],
)  # fmt: skip
def test_settings_that_hold_secrets(name: str):
    assert SECRET in secret_texts(kafka(HERE | {name: SECRET}))


def test_the_log_shows_no_secret_and_no_token(caplog: pytest.LogCaptureFixture):
    log = SecretFreeLog(secret_texts(kafka(password=SECRET)))
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvYXV0aCJ9.c2lnbmF0dXJl"
    with caplog.at_level(logging.DEBUG):
        log.log(logging.ERROR, "%s [%s] %s", "FAIL", "client-1", f"password {SECRET} token {token} done")
        log.log(logging.DEBUG, "%s [%s] %s", "HTTP", "client-1", "Authorization: Basic bWU6c2VjcmV0")
    assert caplog.messages[0] == "FAIL [client-1] password … token … done"
    assert "bWU6" not in caplog.text
    assert caplog.records[0].levelno == logging.WARNING
    assert SECRET not in repr(log)


def test_the_log_does_not_repeat_itself(caplog: pytest.LogCaptureFixture):
    log = SecretFreeLog(frozenset())
    for milliseconds in (301, 302):
        log.log(logging.ERROR, "%s [%s] %s", "FAIL", "client-1", f"refused (after {milliseconds}ms)")
    log.log(logging.ERROR, "%s [%s] %s", "FAIL", "client-1", "something else")
    assert len(caplog.records) == 2


def test_the_page_names_what_is_refused():
    page = (Path(__file__).parents[4] / "docs" / "kafka.md").read_text()
    table = page.partition("<!-- refused -->")[2].partition("<!-- end of refused -->")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`([a-z_.]+)`", row.partition(" | ")[0])}
    assert {*_kafka_settings._FORBIDDEN, *_kafka_settings._ALLOWED_VALUES} <= named
    assert set(_kafka_settings.forbidden_settings(dict.fromkeys(named, "x"))) == named


def test_the_page_shows_connections_that_are_right():
    page = (Path(__file__).parents[4] / "docs" / "kafka.md").read_text().partition("## Connection")[2]
    [extra] = re.findall(r"`(\{\"bootstrap\.servers\": \"…\", \"security\.protocol\".*?\})`", page)
    given = json.loads(extra) | HERE
    assert check_connection(kafka(given, login="me", password=SECRET), "exactly_once") == []
