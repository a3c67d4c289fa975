"""Metadata that Airflow reads before it imports any other part of this package. Standard library only."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": ["string", "null"]}
_NETWORK: dict[str, Any] = {
    "proxy": {
        "label": "Proxy",
        "description": "URL of an HTTP proxy, or 'environment' for the proxies of the environment. By default no "
        "proxy is used.",
        "schema": _TEXT | {"format": "password"},
    },
    "ca_bundle": {
        "label": "CA bundle",
        "description": "Certificates to trust besides the public ones, for a proxy that inspects TLS: PEM text, "
        "or the absolute path of a PEM file on the worker and every Spark node.",
        "schema": _TEXT | {"format": "multiline"},
    },
}
_INTEGRATIONS = (
    ("Mixpanel", "https://developer.mixpanel.com/reference/raw-data-export-api", "service"),
    ("REST APIs", "https://www.rfc-editor.org/rfc/rfc9110", "protocol"),
    ("SQL databases", "https://www.iso.org/standard/76583.html", "protocol"),
    ("X search", "https://docs.x.com/x-api/posts/search/introduction", "service"),
    ("Delta Lake", "https://delta.io/", "software"),
    ("Google BigQuery", "https://cloud.google.com/bigquery/", "gcp"),
    ("Apache Kafka", "https://kafka.apache.org/", "apache"),
    ("OpenSearch", "https://opensearch.org/", "software"),
)


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, valid against Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-connect",
        "name": "Connect",
        "description": "Kafka Connect for batch-polled sources and sinks, on Spark: no day lost, none doubled.",
        "integrations": [
            {"integration-name": name, "external-doc-url": url, "tags": [tag]} for name, url, tag in _INTEGRATIONS
        ],
        "operators": [
            {"integration-name": name, "python-modules": ["airflow_provider_connect.operators.connect"]}
            for name, *_ in _INTEGRATIONS
        ],
        "extra-links": ["airflow_provider_connect.operators.links.PublishedLink"],
        "hooks": [
            {
                "integration-name": "Mixpanel",
                "python-modules": ["airflow_provider_connect.hooks.mixpanel"],
            },
            {"integration-name": "X search", "python-modules": ["airflow_provider_connect.hooks.x"]},
        ],
        "cli": ["airflow_provider_connect.cli.definition.get_commands"],
        "connection-types": [_mixpanel(), _x()],
        "task-decorators": [
            {"name": "connect", "class-name": "airflow_provider_connect.decorators.connect.connect_task"}
        ],
        # Official providers, if installed, override these schemes: Airflow reads them later.
        "asset-uris": [{"schemes": ["bigquery", "kafka", "opensearch"], "handler": None}],
    }


def _mixpanel() -> dict[str, Any]:
    return {
        "connection-type": "mixpanel",
        "hook-name": "Mixpanel",
        "hook-class-name": "airflow_provider_connect.hooks.mixpanel.MixpanelHook",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {
                "login": "Service account username",
                "password": "Service account secret",
                "host": "Own host",
                "port": "Port of the own host",
            },
            "placeholders": {
                "login": "name.123abc.mp-service-account; empty with a project secret",
                "password": "the service account's secret, or the project secret",
                "host": "empty for Mixpanel itself; https://… for a gateway of your own",
            },
        },
        "conn-fields": {
            "project_id": {
                "label": "Project id",
                "description": "Number of the project. Required with a service account.",
                "schema": {"type": ["string", "null"], "pattern": "^[0-9]*$"},
            },
            "region": {
                "label": "Region",
                "description": "Where the project's data lives: us, eu or in (Project settings, Data residency).",
                "schema": {"type": "string", "enum": ["us", "eu", "in"], "default": "us"},
            },
            "timestamps": {
                "label": "Timestamps",
                "description": "utc for projects created since January 2023, project_local for older ones. Required "
                "unless the project's zone is UTC.",
                "schema": {"type": ["string", "null"], "enum": ["utc", "project_local"]},
            },
            "limits": {
                "label": "Limits",
                "description": "Limits other than Mixpanel's, as JSON: "
                '{"export": {"requests": 60, "seconds": 3600, "per_second": 3, "at_once": 100}, '
                '"query": {"requests": 60, "at_once": 5}}.',
                "schema": _TEXT | {"format": "multiline"},
            },
            **_NETWORK,
        },
    }


def _x() -> dict[str, Any]:
    return {
        "connection-type": "x",
        "hook-name": "X",
        "hook-class-name": "airflow_provider_connect.hooks.x.XHook",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login"],
            "relabeling": {"password": "Bearer token", "host": "Own host", "port": "Port of the own host"},
            "placeholders": {
                "password": "the app's bearer token, from X's developer console",
                "host": "empty for api.x.com; https://… for a gateway of your own",
            },
        },
        "conn-fields": {
            "app": {
                "label": "App",
                "description": "Name of the app, equal in all connections with its token, which share its limits. By "
                "default the connection's id.",
                "schema": _TEXT,
            },
            "limits": {
                "label": "Limits",
                "description": "Limits other than X's, as JSON: "
                '{"recent": {"requests": 450, "seconds": 900}, "all": {"requests": 300, "seconds": 900, '
                '"per_second": 1}, "counts": {"requests": 300, "seconds": 900}}.',
                "schema": _TEXT | {"format": "multiline"},
            },
            **_NETWORK,
        },
    }
