"""There is one list of what is secret: whoever masks, hides or strikes out takes the same fields for it."""

from __future__ import annotations

import json
import re

import pytest
from airflow.sdk import Connection as AirflowConnection

from airflow_provider_connect.clients.bigquery.messages import printable_message
from airflow_provider_connect.clients.kafka.connection import SecretFreeLog
from airflow_provider_connect.clients.kafka.connection import secret_texts as kafka_secrets
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.secrets import is_secret_name, redact_tokens
from airflow_provider_connect.submit.launch import REQUIRED_CONF

CANARY = "CANARY-1"
SECRET_NAMES = (
    "password", "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "passphrase",
    "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "sasl.jaas.config", "api_token", "refresh.token",
    "token_uri", "private_key", "keyfile_dict", "api_key", "Authorization", "credentials", "dsn", "sas", "account_sas",
    "basic.auth.credentials.source", "sasl.oauthbearer.assertion.private.key.pem",
)  # fmt: skip
PUBLIC_NAMES = (
    "bootstrap.servers", "project_id", "sasl.username", "ssl.key.location", "ssl.ca.location", "ssl.keystore.location",
    "sasl.kerberos.keytab", "sasl.oauthbearer.token.endpoint.url", "sasl.mechanism", "has_header", "ssl.ca.pem",
)  # fmt: skip


def masked_by_airflow(name: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    hidden: list[str] = []
    extra = json.dumps({name: CANARY})
    monkeypatch.setattr(credentials, "mask_secret", hidden.append)
    monkeypatch.setattr(
        credentials.BaseHook, "get_connection", lambda _: AirflowConnection(conn_id="c", conn_type="x", extra=extra)
    )
    credentials.resolve_connection("c")
    return CANARY in hidden


def struck_by_kafka(name: str) -> bool:
    return CANARY in kafka_secrets(Connection(conn_id="c", extra={name: CANARY}))


def hidden_by_spark(name: str) -> bool:
    """Tell whether Spark shows no value of a property with that name: its pattern is searched for in the name."""
    return bool(re.search(REQUIRED_CONF["spark.redaction.regex"], name))


@pytest.mark.parametrize("name", [*SECRET_NAMES, "PASSWD", "SIGNING_KEY", "access_key", "bearer", "accountsas"])
def test_spark_does_not_show_a_property_that_is_called_so(name: str) -> None:
    assert hidden_by_spark(name)
    assert hidden_by_spark(f"spark.executorEnv.{name}")


@pytest.mark.parametrize("name", ["spark.executor.memory", "spark.sql.shuffle.partitions", "spark.app.name"])
def test_spark_shows_other_properties(name: str) -> None:
    assert not hidden_by_spark(name)


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_field_that_one_takes_for_secret_is_so_for_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_secret_name(name)
    assert masked_by_airflow(name, monkeypatch)
    assert struck_by_kafka(name)


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_a_field_that_messages_must_name_is_so_for_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_secret_name(name)
    assert not masked_by_airflow(name, monkeypatch)
    assert not struck_by_kafka(name)


CREDENTIALS = (
    "Bearer CANARY-1", "auth=Bearer\x01CANARY-1", "basic CANARY-1", "ya29.CANARY-1",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvYXV0aCJ9.CANARY-1", "-----BEGIN PRIVATE KEY----- CANARY-1",
)  # fmt: skip


@pytest.mark.parametrize("credential", CREDENTIALS)
def test_what_looks_like_a_credential_is_shown_by_nobody(credential: str) -> None:
    text = f"Not found: Table p:d.t, {credential}"
    for shown in (redact_tokens(text), printable_message(text), SecretFreeLog(frozenset()).redact(text)):
        assert shown.startswith("Not found: Table p:d.t")
        assert CANARY not in shown
