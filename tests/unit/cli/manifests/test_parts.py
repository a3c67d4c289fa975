"""Each part of a manifest becomes its counterpart, or a remark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.cli.manifests.expressions import (
    Edge,
    Joined,
    NextNumber,
    Reference,
    Text,
    Unreadable,
    read_condition,
    read_parts,
)
from airflow_provider_connect.cli.manifests.times import record_form, time_form
from airflow_provider_connect.cli.manifests.trees import apply_parameters, resolve_references
from airflow_provider_connect.cli.manifests.writing import connections_yaml, stream_yaml
from airflow_provider_connect.sources._rest.files import read_declaration
from tests.unit.cli.manifests.own import manifest, option, options_of, remarks_of, stream, translated

EXPRESSIONS: dict[str, Any] = {
    "plain": Text("plain"),
    "{{ 5 }}": Text(5),
    "{{ config['a']['b'] }}": Reference("config", ("a", "b")),
    "{{ config.get('a', 'x') }}": Reference("config", ("a",), "x"),
    "{{config.a}}": Reference("config", ("a",)),
    "{{ stream_partition['id'] }}": Reference("partition", ("id",)),
    "{{ stream_slice.parent_slice.id }}": Reference("partition", ("parent_slice", "id")),
    "{{ stream_interval.start_time }}": Edge("start"),
    "{{ format_datetime(stream_slice['end_time'], '%Y') }}": Edge("end", "%Y"),
    "{{ response.get('a', {}).get('b', '') }}": Reference("response", ("a", "b"), ""),
    "{{ response['a'][0] }}": Reference("response", ("a", "0")),
    "{{ response.page + 1 }}": NextNumber(Reference("response", ("page",))),
    "{{ 'a-' ~ config.b }}": Joined((Text("a-"), Reference("config", ("b",)))),
    "{{ 'a-' + 'b' }}": Text("a-b"),
    "{{ [1, 'b'] }}": Text([1, "b"]),
    "{{ record.id | string }}": Reference("record", ("id",)),
    "{{ now_utc() }}": Unreadable("{{ now_utc() }}"),
    "{{ ''.__class__.__mro__ }}": Unreadable("{{ ''.__class__.__mro__ }}"),
    "{{ unclosed": Unreadable("{{ unclosed"),
    "{% for a in b %}{% endfor %}": Unreadable("{% for a in b %}{% endfor %}"),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_read(text: str) -> None:
    parts = read_parts(text)
    expected = EXPRESSIONS[text]
    assert parts == list(expected.parts) if isinstance(expected, Joined) else parts == [expected]


def test_a_nested_expression_ends_nothing() -> None:
    text = "{{ " + "(" * 4_000 + "1" + ")" * 4_000 + " }}"
    assert read_parts(text) == [Unreadable(text)]


CONDITIONS = {
    "{{ not response.next }}": (("next",), False),
    "{{ response.get('next') is none }}": (("next",), None),
    "{{ response.done }}": (("done",), True),
    "{{ response.code == 7 }}": (("code",), 7),
    "{{ response.get('code') != 0 }}": (("code",), True),
    "{{ 'message' in response }}": (("message",), True),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_condition_is_read(text: str) -> None:
    tested = read_condition(text)
    assert tested is not None
    assert (tested[0].steps, tested[1]) == CONDITIONS[text]


@pytest.mark.parametrize(
    "text", ["{{ response.a and response.b }}", "{{ response.a != 7 }}", "{{ response | length }}"]
)
def test_another_condition_is_none(text: str) -> None:
    assert read_condition(text) is None


@pytest.mark.parametrize(
    ("pattern", "form"),
    [("%s", "epoch_s"), ("%ms", "epoch_ms"), ("%Y-%m-%dT%H:%M:%SZ", "iso"), ("%d.%m.%Y", "%d.%m.%Y"), ("%Y-%m", None)],
)
def test_time_formats(pattern: str, form: str | None) -> None:
    assert time_form(pattern) == form


@pytest.mark.parametrize(
    ("pattern", "form"), [("%Y-%m-%dT%H:%M:%S.%f%z", "iso"), ("%d/%m/%Y", "%d/%m/%Y"), ("%ms", "epoch_ms")]
)
def test_time_formats_of_records(pattern: str, form: str) -> None:
    assert record_form(pattern) == form


def test_references_keep_the_fields_beside_them_and_parameters_go_down() -> None:
    tree = {
        "definitions": {"base": {"type": "Thing", "a": 1, "inner": {"type": "Inner"}}, "has/slash": {"x": 1}},
        "streams": [
            {"$ref": "#/definitions/base", "a": 2, "$parameters": {"name": "n", "inner": "not this"}},
            {"$ref": "#/definitions/has/slash"},
            "#/definitions/base/a",
        ],
    }
    resolved = apply_parameters(resolve_references(tree))["streams"]
    assert resolved[0]["a"] == 2
    assert (resolved[0]["name"], resolved[0]["inner"]["name"]) == ("n", "n")
    assert resolved[1:] == [{"x": 1}, 1]


AUTHENTICATORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({"type": "NoAuth"}, {}),
    "basic": (
        {"type": "BasicHttpAuthenticator", "username": "{{ config['user'] }}", "password": ""},
        {"login": "FILL_IN", "extra": {"auth": "basic"}},
    ),
    "bearer": (
        {"type": "BearerAuthenticator", "api_token": "abc-literal-token"},
        {"password": "FILL_IN", "extra": {"auth": "bearer"}},
    ),
    "key with a prefix": (
        {
            "type": "ApiKeyAuthenticator",
            "api_token": "Token {{ config['k'] }}",
            "inject_into": option("X-Auth", "header"),
        },
        {"password": "Token FILL_IN", "extra": {"auth": "api_key", "send_as": "X-Auth", "send_in": "header"}},
    ),
    "key in the query": (
        {"type": "ApiKeyAuthenticator", "api_token": "{{ config['k'] }}", "inject_into": option("key")},
        {"password": "FILL_IN", "extra": {"auth": "api_key", "send_as": "key", "send_in": "query"}},
    ),
    "bearer as a key": (
        {"type": "ApiKeyAuthenticator", "api_token": "Bearer {{ config['k'] }}", "header": "Authorization"},
        {"password": "FILL_IN", "extra": {"auth": "bearer"}},
    ),
    "client credentials": (
        {
            "type": "OAuthAuthenticator",
            "grant_type": "client_credentials",
            "client_id": "{{ config['id'] }}",
            "client_secret": "{{ config['s'] }}",
            "token_refresh_endpoint": "https://login.example.com/token",
            "scopes": ["a", "b"],
            "refresh_request_body": {"audience": "x"},
        },
        {
            "login": "FILL_IN",
            "password": "FILL_IN",
            "extra": {
                "auth": "oauth2_client_credentials",
                "auth_url": "https://login.example.com/token",
                "client_auth": "body",
                "scope": "a b",
                "auth_params": {"audience": "x"},
            },
        },
    ),
    "session": (
        {
            "type": "SessionTokenAuthenticator",
            "login_requester": {
                "url_base": "https://api.example.com/",
                "path": "/login",
                "request_body_json": {"user": "{{ config['u'] }}", "password": "{{ config['p'] }}"},
            },
            "session_token_path": ["data", "id"],
            "request_authentication": {"type": "ApiKey", "inject_into": option("X-Session", "header")},
        },
        {
            "login": "FILL_IN",
            "password": "FILL_IN",
            "extra": {
                "auth": "session",
                "auth_url": "https://api.example.com/login",
                "auth_params": {"user": "{login}", "password": "{password}"},
                "auth_body": "json",
                "auth_result": "/data/id",
                "send_as": "X-Session",
                "send_in": "header",
            },
        },
    ),
}


@pytest.mark.parametrize("kind", AUTHENTICATORS)
def test_an_authenticator_becomes_a_connection(kind: str) -> None:
    authenticator, expected = AUTHENTICATORS[kind]
    translation = translated(manifest(stream(requester={"authenticator": authenticator})))
    fields = translation.connections["api"].as_fields()
    assert fields == {"conn_type": "http", "host": "https://api.example.com"} | expected
    assert "abc-literal-token" not in connections_yaml(translation.connections)


def test_a_custom_authenticator_is_a_remark_in_the_connections_file() -> None:
    custom = {"type": "CustomAuthenticator", "class_name": "a.B"}
    text = connections_yaml(translated(manifest(stream(requester={"authenticator": custom}))).connections)
    assert "# not translated: CustomAuthenticator has no counterpart" in text


def test_streams_of_two_hosts_have_two_connections() -> None:
    other = stream("other", requester={"url_base": "https://b.example.com"})
    translation = translated(manifest(stream(), other))
    assert [item.options["conn_id"] for item in translation.streams] == ["api", "api_2"]


SPEC = {
    "type": "Spec",
    "connection_specification": {
        "required": ["account"],
        "properties": {
            "account": {"type": "string"},
            "kind": {"type": "string", "default": "all"},
            "since": {"type": "string"},
            "key": {"type": "string", "airbyte_secret": True},
        },
    },
}


def test_the_config_is_given_a_default_left_out_or_to_be_replaced() -> None:
    params = {name: f"{{{{ config['{name}'] }}}}" for name in ("account", "kind", "since", "key")}
    tree = manifest(stream(requester={"request_parameters": params}), spec=SPEC)
    assert options_of(tree)["request"]["params"] == {"account": "ACCOUNT", "kind": "all"}
    assert "check request: replace ACCOUNT by your config's 'account'" in remarks_of(tree)
    given = options_of(tree, account="a1", kind="one", key="never-written")["request"]["params"]
    assert given == {"account": "a1", "kind": "one"}
    assert translated(tree).connections["api"].extra["credentials"] == {"query": {"key": "FILL_IN"}}


def test_conditions_are_decided_by_the_config() -> None:
    text = "{{ 'one/' + config['since'] if config.get('since') else 'all' }}"
    tree = manifest(stream(path=text), spec=SPEC)
    assert options_of(tree)["request"]["path"] == "/all"
    assert options_of(tree, since="x")["request"]["path"] == "/one/x"


def test_columns_have_the_types_of_the_schema() -> None:
    types: dict[str, Any] = {
        "id": {"type": ["null", "integer"]},
        "mixed": {"type": ["string", "integer"]},
        "price": {"type": ["integer", "number"]},
        "tags": {"type": "array"},
        "a.b": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "ID": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert options_of(manifest(stream(schema={"properties": types})))["records"]["columns"] == {
        "id": "bigint",
        "mixed": "string",
        "price": "double",
        "tags": "json",
        "a_b": {"type": "boolean", "at": "a.b"},
        "day_2": {"type": "date", "at": "day"},
        "ID_2": {"type": "string", "at": "ID"},
    }


def test_a_computed_key_is_none() -> None:
    fields = [{"path": ["uuid"], "value": "{{ now_utc() }}"}]
    tree = manifest(stream(primary_key=["uuid"], transformations=[{"type": "AddFields", "fields": fields}]))
    assert options_of(tree)["records"]["key"] == ["id"]
    assert "check records: the manifest has no primary key, so 'id' is a guess" in remarks_of(tree)


def test_error_rules_that_differ_from_the_defaults_are_kept() -> None:
    filters = [
        {"action": "RETRY", "http_codes": [429, 503]},
        {"action": "RETRY", "http_codes": [403], "error_message_contains": "rate"},
        {"action": "FAIL", "predicate": "{{ response.get('code') == 17 }}", "error_message": "Log in"},
        {"action": "IGNORE", "http_codes": [404]},
        {"action": "FAIL", "predicate": "{{ response.a | length }}"},
    ]
    pauses = [{"type": "WaitUntilTimeFromHeader", "header": "X-Reset"}]
    tree = manifest(stream(requester={"error_handler": {"response_filters": filters, "backoff_strategies": pauses}}))
    assert options_of(tree)["errors"] == [
        {"status": [403], "text": "rate", "then": "retry"},
        {"at": "code", "values": [17], "then": "refuse", "why": "Log in"},
        {"status": [429], "then": "wait", "until": {"header": "X-Reset", "format": "epoch_s"}},
    ]
    remarks = remarks_of(tree)
    assert "check errors: the manifest ignores status 404. Such a day fails instead" in remarks
    assert any(remark.startswith("gap errors: the condition") for remark in remarks)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ("PT1S", {"per_second": 90.0}),
        ("PT10S", {"per_second": 9.0}),
        ("PT2M", {"per_minute": 45}),
        ("P1D", {"per_hour": 3}),
    ],
)
def test_call_budgets_become_limits(interval: str, expected: dict[str, Any]) -> None:
    policies = [{"type": "MovingWindowCallRatePolicy", "rates": [{"limit": 90, "interval": interval}]}]
    assert options_of(manifest(stream(), api_budget={"policies": policies}))["limits"] == expected


def test_a_filter_of_records_is_a_gap() -> None:
    tree = manifest(stream(selector={"record_filter": {"condition": "{{ record.a }}\n# injected: true"}}))
    assert "gap records: the filter {{ record.a }} # injected: true: all records are loaded. Filter them by SQL" in (
        remarks_of(tree)
    )


def test_a_secret_keeps_the_text_around_it() -> None:
    headers = {"Authorization": "Bearer {{ config['api_key'] }}"}
    extra = translated(manifest(stream(requester={"request_headers": headers}))).connections["api"].extra
    assert extra == {"auth": "none", "credentials": {"header": {"Authorization": "Bearer FILL_IN"}}}


def test_names_that_a_query_repeats_are_lists() -> None:
    tree = manifest(stream(path="/things?kind=a&kind=b", requester={"request_parameters": "x=1&x=2&y=3"}))
    assert options_of(tree)["request"]["params"] == {"kind": ["a", "b"], "x": ["1", "2"], "y": "3"}


@pytest.mark.parametrize(
    ("name", "start"), [("created_after", "exclusive"), ("at[gt]", "exclusive"), ("at[gte]", None)]
)
def test_dates_after_which_the_api_lists_begin_a_day_earlier(name: str, start: str | None) -> None:
    cursor = {"cursor_field": "at", "datetime_format": "%Y-%m-%d", "start_time_option": option(name)}
    assert options_of(manifest(stream(incremental_sync=cursor)))["bounds"].get("start") == start


TEXTS = ["yes", "1", "a: b", "# no", "\u2028", "\x85", "{day.end}", '"', "null", "é", "- x", "~", ""]


@pytest.mark.parametrize("text", TEXTS)
def test_a_written_file_is_read_as_it_was(text: str, tmp_path: Path) -> None:
    tree = manifest(stream(requester={"request_parameters": {text or "empty": text}, "request_headers": {"X-A": text}}))
    translation = translated(tree)
    if translation.refused:  # a name that the request may not have
        return
    (declaration,) = translation.streams
    (tmp_path / "a.yaml").write_text(stream_yaml(declaration), encoding="utf-8")
    assert read_declaration(tmp_path / "a.yaml") == json.loads(json.dumps(declaration.options))
