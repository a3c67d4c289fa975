"""Private endpoints and other universe domains: where calls go, and whose credentials they carry."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import airflow_provider_connect
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.credentials import load_credentials
from airflow_provider_connect.errors import ConfigError
from tests.equipment.bigquery.server import LOCAL, Server, connection, key, private_key, server

__all__ = ["private_key", "server"]
OWN_UNIVERSE = "apis-tpczero.goog"


@pytest.mark.parametrize(
    ("extra", "rest", "grpc", "tls"),
    [
        ({}, "https://bigquery.googleapis.com", "bigquerystorage.googleapis.com:443", True),
        (
            {"rest_endpoint": "https://bigquery-x.p.googleapis.com/", "grpc_endpoint": "storage-x.p.googleapis.com"},
            "https://bigquery-x.p.googleapis.com",
            "storage-x.p.googleapis.com:443",
            True,
        ),
        ({"grpc_endpoint": "https://10.0.0.5:8443"}, "https://bigquery.googleapis.com", "10.0.0.5:8443", True),
        (LOCAL, "http://127.0.0.1:1", "127.0.0.1:2", False),
    ],
)
def test_calls_go_where_the_connection_says(extra: dict[str, Any], rest: str, grpc: str, tls: object) -> None:
    with BigQueryApi.open(connection(**{"project": "pppp", "is_anonymous": True} | extra)) as api:
        assert (api.endpoints.rest, api.endpoints.grpc, api.endpoints.grpc_tls) == (rest, grpc, tls)
        assert rest == api.client._connection.API_BASE_URL


def test_the_environment_does_not_lead_tokens_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", "http://attacker.example.com")
    monkeypatch.setenv("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "example.com")
    with BigQueryApi.open(connection(project="pppp", is_anonymous=True)) as api:
        assert api.client._connection.API_BASE_URL == "https://bigquery.googleapis.com"


@pytest.mark.parametrize("says", ["key", "connection", "both"])
def test_a_universe_is_taken_from_key_or_connection(private_key: str, says: str) -> None:
    own = key(private_key, **({} if says == "connection" else {"universe_domain": OWN_UNIVERSE}))
    named = {} if says == "key" else {"universe_domain": OWN_UNIVERSE}
    with BigQueryApi.open(connection(keyfile_dict=json.dumps(own), **named)) as api:
        assert api.credentials.universe_domain == OWN_UNIVERSE
        assert f"https://bigquery.{OWN_UNIVERSE}" == api.client._connection.API_BASE_URL
        assert api.endpoints.grpc == f"bigquerystorage.{OWN_UNIVERSE}:443"
        assert api.console_link("a_job") is None


def test_a_key_of_another_universe_than_the_connection_is_refused(private_key: str) -> None:
    own = key(private_key, universe_domain="example.com")
    with pytest.raises(ConfigError, match=f"universe domain example.com, but universe_domain is {OWN_UNIVERSE}"):
        load_credentials(connection(keyfile_dict=own, universe_domain=OWN_UNIVERSE))


def test_the_package_does_not_mention_the_emulator() -> None:
    package = Path(airflow_provider_connect.__file__).parent
    files = list(package.rglob("*.py"))
    assert len(files) > 100
    assert [path.name for path in files if re.search(r"(?i)emulator|transactioncontext", path.read_text())] == []


def test_a_statement_of_a_script_has_the_same_budget_as_a_query(server: Server) -> None:
    done = {
        "jobReference": {"projectId": "connect-test", "jobId": "j", "location": "US"},
        "configuration": {"query": {}},
    }
    server.answer = (200, {"jobComplete": True, "totalRows": "0", "schema": {"fields": []}})
    server.first = [(200, done | {"status": {"state": "DONE"}})]
    extra = LOCAL | {"rest_endpoint": server.url}
    with BigQueryApi.open(connection(**extra), maximum_bytes_billed=20_000_000) as api:
        api.query("SELECT 1", action="asking", labels={})
    query = server.bodies[0]["configuration"]["query"]
    assert query["maximumBytesBilled"] == "20000000"
    assert query["scriptOptions"]["statementByteBudget"] == "20000000"
