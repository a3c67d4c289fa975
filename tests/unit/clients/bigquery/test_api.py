"""Connections are read and checked without the network, and only they say who signs in and through which proxy."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.credentials import SCOPES, check_connection, load_credentials
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, RetriableError
from tests.equipment.bigquery.server import CANARY, LOCAL, Server, api_at, connection, key


class TestPlace:
    def test_a_table_ref_has_its_id_sql_and_resource_name(self) -> None:
        place = TableRef("a-project", "a_dataset", "a_table")
        assert place.id == "a-project.a_dataset.a_table"
        assert place.sql == "`a-project.a_dataset.a_table`"
        assert place.resource_name == "projects/a-project/datasets/a_dataset/tables/a_table"
        assert place.sibling("b") == TableRef("a-project", "a_dataset", "b")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("d.t", ("proj", "d", "t")),
            ("other.d.t", ("other", "d", "t")),
            ("example.com:other.d.t", ("example.com:other", "d", "t")),
        ],
    )
    def test_a_table_ref_is_parsed_with_a_default_project(self, text: str, expected: tuple[str, str, str]) -> None:
        assert TableRef.parse(text, "proj") == TableRef(*expected)

    @pytest.mark.parametrize("text", ["t", "", ".", "d.", ".t", "d.t`; DROP", "d.t$20260901", "a b.d.t", "p.d-d.t"])
    def test_text_that_names_no_table_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError):
            TableRef.parse(text, "proj")


class TestCheckConnection:
    @pytest.mark.parametrize(
        "extra",
        [
            {},
            {"project": "p"},
            {"keyfile_dict": key()},
            {"keyfile_dict": json.dumps(key())},
            {"extra__google_cloud_platform__keyfile_dict": json.dumps(key())},
            {"key_path": "/a/key.json", "scope": "https://a, https://b"},
            {"impersonation_chain": "a@p.iam, b@p.iam"},
            {"impersonation_chain": ["a@p.iam", "b@p.iam"]},
            {"credential_config_file": "/a/file.json"},
            {"credential_config_file": '{"type": "external_account"}'},
            {"is_anonymous": True},
            {"proxy": "http://proxy.example.com:3128"},
            LOCAL,
            LOCAL | {"rest_endpoint": "http://localhost:1", "grpc_endpoint": "http://[::1]:2"},
            {"rest_endpoint": "https://bigquery-own.p.googleapis.com"},
            {"grpc_endpoint": "bigquerystorage-own.p.googleapis.com:443", "universe_domain": "apis-tpczero.goog"},
        ],
    )
    def test_valid_connections_have_no_problems(self, extra: dict[str, Any]) -> None:
        assert check_connection(connection(**extra)) == []

    @pytest.mark.parametrize(
        ("extra", "problem"),
        [
            ({"keyfile_dict": "{" + CANARY}, "keyfile_dict is not valid JSON"),
            ({"keyfile_dict": f'["{CANARY}"]'}, "must be a JSON object"),
            ({"keyfile_dict": {"private_key": CANARY}}, "keyfile_dict has no client_email, token_uri"),
            ({"credential_config_file": "{" + CANARY}, "credential_config_file is not valid JSON"),
            ({"keyfile_dict": key(), "key_path": "/a"}, "only one of keyfile_dict and key_path"),
            ({"impersonation_chain": "nobody"}, "must hold service accounts' addresses"),
            ({"impersonation_chain": 5}, "must hold service accounts' addresses"),
            ({"impersonation_chain": {CANARY: 1}}, "must hold service accounts' addresses"),
            ({"scope": ["a"]}, "scope must be text"),
            ({"key_path": {"private_key": CANARY}}, "key_path must be text"),
            ({"key_secret_name": "a-secret"}, "'key_secret_name' is not supported"),
            ({"idp_issuer_url": "https://a", "client_secret": CANARY}, "'idp_issuer_url' is not supported"),
            ({"proxy": f"https://{CANARY}@a"}, "proxy must be a URL like http://host:port"),
            ({"proxy": {"https": CANARY}}, "'proxy' must be text"),
            (
                LOCAL | {"is_anonymous": False},
                "rest_endpoint without TLS must not carry credentials. Write https://, or set is_anonymous=true",
            ),
            ({"grpc_endpoint": "http://127.0.0.1:1"}, "grpc_endpoint without TLS must not carry credentials"),
            (LOCAL | {"rest_endpoint": "http://example.com:1"}, "rest_endpoint without TLS must be a loopback address"),
            (LOCAL | {"rest_endpoint": "http://127.0.0.1@example.com"}, "rest_endpoint must be like https://host"),
            (LOCAL | {"grpc_endpoint": "http://10.0.0.1:1"}, "grpc_endpoint without TLS must be a loopback address"),
            ({"rest_endpoint": "bigquery.example.com"}, "rest_endpoint must be like https://host"),
            ({"rest_endpoint": f"https://example.com/{CANARY}"}, "rest_endpoint must be like https://host"),
            ({"grpc_endpoint": f"{CANARY}@example.com"}, "grpc_endpoint must be like host:443"),
            ({"grpc_endpoint": ["a"]}, "grpc_endpoint must be like host:443"),
            ({"universe_domain": f"https://{CANARY}"}, "universe_domain must be a domain"),
        ],
    )
    def test_invalid_connections_are_reported(self, extra: dict[str, Any], problem: str) -> None:
        found = "; ".join(check_connection(connection(**extra)))
        assert problem in found
        assert "'google_cloud_default'" in found
        assert CANARY not in found
        with pytest.raises(ConfigError):
            load_credentials(connection(**extra))


class TestCredentials:
    def test_a_key_in_the_connection_is_loaded(self, private_key: str) -> None:
        made, project = load_credentials(connection(keyfile_dict=json.dumps(key(private_key))))
        assert (made.service_account_email, project) == ("robot@keys-project.iam.gserviceaccount.com", "keys-project")
        assert tuple(made.scopes) == SCOPES

    def test_a_key_with_doubly_escaped_line_ends_is_loaded(self, private_key: str) -> None:
        escaped = private_key.replace("\n", "\\n")
        made, _ = load_credentials(connection(keyfile_dict=key(escaped), scope="https://one,https://two"))
        assert made.scopes == ("https://one", "https://two")

    def test_a_key_file_is_loaded(self, private_key: str, tmp_path: Path) -> None:
        (tmp_path / "key.json").write_text(json.dumps(key(private_key)))
        made, project = load_credentials(connection(key_path=str(tmp_path / "key.json")))
        assert (made.service_account_email, project) == ("robot@keys-project.iam.gserviceaccount.com", "keys-project")

    @pytest.mark.parametrize(
        "extra",
        [
            {"keyfile_dict": key()},
            {"keyfile_dict": key(type="x", private_key="-----BEGIN " + CANARY)},
            {"credential_config_file": {"type": "external_account", "credential_source": 5}},
            {"credential_config_file": {"type": "external_account", "audience": 5, "subject_token_type": CANARY}},
        ],
    )
    def test_a_damaged_key_is_refused(self, extra: dict[str, Any]) -> None:
        with pytest.raises(ConfigError) as caught:
            load_credentials(connection(**extra))
        assert CANARY not in str(caught.value)
        assert "Paste the whole JSON key again" in str(caught.value)

    def test_a_missing_or_invalid_key_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot read its key file: No such file"):
            load_credentials(connection(key_path=str(tmp_path / "none.json")))
        (tmp_path / "key.json").write_text(CANARY)
        with pytest.raises(ConfigError) as caught:
            load_credentials(connection(key_path=str(tmp_path / "key.json")))
        assert CANARY not in str(caught.value)

    @pytest.mark.parametrize("way", ["file", "text", "object"])
    def test_an_external_account_is_loaded_without_network(self, tmp_path: Path, way: str) -> None:
        info = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": "https://sts.googleapis.com/v1/token",
            "credential_source": {"file": "/a/token"},
        }
        (tmp_path / "external.json").write_text(json.dumps(info))
        value = {"file": str(tmp_path / "external.json"), "text": json.dumps(info), "object": info}[way]
        made, _ = load_credentials(connection(credential_config_file=value))
        assert type(made).__module__ == "google.auth.identity_pool"

    def test_default_credentials_are_used_without_fields(
        self, private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "key.json").write_text(json.dumps(key(private_key)))
        monkeypatch.setenv("GOOGLE_APPLICATION_DEFAULT", "")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        made, project = load_credentials(connection())
        assert (made.service_account_email, project) == ("robot@keys-project.iam.gserviceaccount.com", "keys-project")

    def test_missing_default_credentials_are_refused_with_the_remedy(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        with pytest.raises(ConfigError, match=r"no usable Google credentials\. Put keyfile_dict or key_path"):
            load_credentials(connection())

    def test_an_impersonation_chain_is_applied(self, private_key: str) -> None:
        chain = "first@p.iam,second@p.iam,last@p.iam"
        made, _ = load_credentials(connection(keyfile_dict=key(private_key), impersonation_chain=chain))
        assert made.service_account_email == "last@p.iam"
        assert made._delegates == ["first@p.iam", "second@p.iam"]

    @pytest.mark.parametrize("extra", [LOCAL, *({"is_anonymous": value} for value in (True, "true", " True "))])
    def test_an_anonymous_connection_has_no_credentials(self, extra: dict[str, Any]) -> None:
        made, _ = load_credentials(connection(**extra))
        assert type(made).__name__ == "AnonymousCredentials"


class TestOpen:
    def test_the_project_is_the_connections_then_the_keys_then_the_tables(self, private_key: str) -> None:
        own = {"keyfile_dict": key(private_key)}
        assert BigQueryApi.open(connection(project="mine", **own), "tables").project == "mine"
        assert BigQueryApi.open(connection(**own), "tables").project == "keys-project"
        assert BigQueryApi.open(connection(is_anonymous=True), "tables").project == "tables"
        with pytest.raises(ConfigError, match="no project"):
            BigQueryApi.open(connection(is_anonymous=True))

    def test_nothing_secret_is_shown(self, private_key: str) -> None:
        api = BigQueryApi.open(connection(keyfile_dict=key(private_key)))
        assert "PRIVATE" not in repr(api)
        assert CANARY not in repr(api)

    def test_the_wrong_key_is_refused_by_the_sign_in(self, private_key: str, server: Server) -> None:
        server.answer = (400, {"error": "invalid_grant", "error_description": f"Invalid JWT {CANARY}"})
        own = key(private_key, token_uri=f"{server.url}/token")
        api = BigQueryApi.open(connection(keyfile_dict=own), timeout_seconds=1, retry_budget_seconds=2)
        with api, pytest.raises(ConfigError, match=r"reading: Google refuses .* \(invalid_grant\)") as caught:
            api.call("reading", api.client.get_dataset, "d")
        assert CANARY not in str(caught.value)

    def test_a_sign_in_without_response_ends_in_time(self, private_key: str, silent: int) -> None:
        own = key(private_key, token_uri=f"http://127.0.0.1:{silent}/token")
        started = time.monotonic()
        api = BigQueryApi.open(connection(keyfile_dict=own), timeout_seconds=0.3, retry_budget_seconds=0.8)
        with api, pytest.raises(RetriableError, match="sign-in service"):
            api.call("reading", api.client.get_dataset, "d")
        assert time.monotonic() - started < 3


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.bigquery", None)
    with pytest.raises(ConfigError, match=r"Install airflow-provider-connect\[bigquery\]"):
        BigQueryApi.open(connection(**LOCAL))


class TestNetrc:
    """A password of ``.netrc`` would stand in the place of the token, and go out to the server."""

    @pytest.fixture(autouse=True)
    def netrc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "netrc").write_text(f"default login somebody password {CANARY}\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    def test_requests_carry_the_token(self, private_key: str, server: Server) -> None:
        from google.cloud import bigquery

        server.first = [(200, {"access_token": "the-token", "expires_in": 3600, "token_type": "Bearer"})]
        server.answer = (200, {"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})
        own = key(private_key, token_uri=f"{server.url}/token")
        with BigQueryApi.open(connection(keyfile_dict=own)) as api:
            session = api.client._http
            client = bigquery.Client("pppp", api.credentials, session, client_options={"api_endpoint": server.url})
            api.call("reading", client.get_dataset, "d")
        assert server.passwords == [None, "Bearer the-token"]

    def test_anonymous_requests_carry_nothing(self, server: Server) -> None:
        server.answer = (200, {"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})
        with api_at(server.url) as api:
            api.call("reading", api.client.get_dataset, "d")
        assert server.passwords == [None]

    def test_the_sign_in_of_the_other_service_carries_nothing(
        self, private_key: str, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import grpc

        plugins = []
        make = grpc.metadata_call_credentials
        monkeypatch.setattr(grpc, "metadata_call_credentials", lambda plugin: plugins.append(plugin) or make(plugin))
        server.answer = (200, {"access_token": "the-token", "expires_in": 3600, "token_type": "Bearer"})
        own = key(private_key, token_uri=f"{server.url}/token")
        with BigQueryApi.open(connection(keyfile_dict=own)) as api:
            assert api.write_client
            headers = plugins[0]._get_authorization_headers(
                type("Context", (), {"method_name": "Method", "service_url": "https://bigquerystorage.googleapis.com/"})
            )
        assert ("authorization", "Bearer the-token") in headers
        assert server.passwords == [None]


class TestProxy:
    def test_the_environments_proxy_is_not_used(
        self, server: Server, closed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{closed}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        server.answer = (200, {"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})
        with api_at(server.url) as api:
            assert api.call("reading", api.client.get_dataset, "d").location == "EU"

    def test_the_connections_proxy_is_used(self, server: Server) -> None:
        server.answer = (200, {"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})
        with api_at("http://127.0.0.1:1", proxy=server.url) as api:
            assert api.call("reading", api.client.get_dataset, "d").location == "EU"
