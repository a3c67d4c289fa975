"""Loads Google credentials with google-auth alone.

Fields: ``apache-airflow-providers-google`` (``GoogleBaseHook``, 2026-11), with or without the older prefix
``extra__google_cloud_platform__``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from airflow_provider_connect.clients.bigquery.errors import classify
from airflow_provider_connect.clients.bigquery.transport import (
    DEFAULT_UNIVERSE,
    endpoint_problems,
    extra_field,
    is_anonymous,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_KEY_FIELDS = ("client_email", "private_key", "token_uri")
_UNSUPPORTED = ("key_secret_name", "idp_issuer_url")
_ACCOUNT = re.compile(r"[^@\s,]+@[^@\s,]+")


def check_connection(connection: Connection) -> list[str]:
    """Validate a connection without network access. Returns the problems found."""
    connection_text = f"connection {connection.conn_id!r}"
    problems = [f"{connection_text}: {text}" for text in endpoint_problems(connection)]
    for check in (key_info, _external_info, impersonation_chain, scopes, key_path, proxy_url):
        try:
            check(connection)
        except ConfigError as error:
            problems.append(str(error))
    problems += [
        f"{connection_text}: field {name!r} is not supported. Use keyfile_dict, key_path, credential_config_file "
        "or application default credentials"
        for name in _UNSUPPORTED
        if extra_field(connection, name)
    ]
    key_fields = [
        name for name in ("keyfile_dict", "key_path", "credential_config_file") if extra_field(connection, name)
    ]
    if len(key_fields) > 1:
        problems.append(f"{connection_text}: give only one of {' and '.join(key_fields)}")
    return problems


def key_info(connection: Connection) -> dict[str, Any] | None:
    """Return the connection's service account key, or None.

    :raises ConfigError: a wrong key.
    """
    info = _object_field(connection, "keyfile_dict")
    if info is None:
        return None
    missing = [name for name in _KEY_FIELDS if not info.get(name)]
    if missing:
        raise ConfigError(f"connection {connection.conn_id!r}: keyfile_dict has no {', '.join(missing)}")
    # A key pasted into the form often has its line ends escaped twice.
    return info | {"private_key": str(info["private_key"]).replace("\\n", "\n")}


def _object_field(connection: Connection, name: str) -> dict[str, Any] | None:
    value = extra_field(connection, name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ConfigError(f"connection {connection.conn_id!r}: {name} is not valid JSON") from None
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"connection {connection.conn_id!r}: {name} must be a JSON object")
    return value


def _external_info(connection: Connection) -> dict[str, Any] | str | None:
    value = extra_field(connection, "credential_config_file")
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        return value
    return _object_field(connection, "credential_config_file")


def impersonation_chain(connection: Connection) -> tuple[str, ...]:
    """Return the impersonation chain's accounts, last the account to act as.

    :raises ConfigError: a wrong address.
    """
    value = extra_field(connection, "impersonation_chain") or []
    accounts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else ["not a list"]
    chain = tuple(str(account).strip() for account in accounts if str(account).strip())
    if any(not _ACCOUNT.fullmatch(account) for account in chain):
        raise ConfigError(
            f"connection {connection.conn_id!r}: impersonation_chain must hold service accounts' addresses"
        )
    return chain


def scopes(connection: Connection) -> tuple[str, ...]:
    """Return the scopes to request, by default the whole cloud platform."""
    value = _text_field(connection, "scope", "scopes separated by commas")
    return tuple(scope.strip() for scope in (value or "").split(",") if scope.strip()) or SCOPES


def key_path(connection: Connection) -> str | None:
    """Return the path of the key file, which must exist on each machine, or None."""
    return _text_field(connection, "key_path", "the path of a key")


def _text_field(connection: Connection, name: str, expected: str) -> str | None:
    value = extra_field(connection, name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"connection {connection.conn_id!r}: {name} must be text, {expected}")
    return value


def proxy_url(connection: Connection) -> str | None:
    """Return the proxy's URL. The environment's are never used.

    :raises ConfigError: the URL is not ``http``.
    """
    value = connection.option("proxy")
    if value is not None and not re.fullmatch(r"http://[^\s/?#]+/?", value):
        raise ConfigError(f"connection {connection.conn_id!r}: proxy must be a URL like http://host:port")
    return value


def project_of_connection(connection: Connection) -> str | None:
    """Return the project of the connection or of its key, or None."""
    project, info = extra_field(connection, "project"), key_info(connection)
    project_id = project or (info.get("project_id") if isinstance(info, dict) else None)
    return str(project_id) if project_id else None


def load_credentials(connection: Connection) -> tuple[Any, str | None]:
    """Return google-auth credentials, and their project if they have one.

    :raises ConfigError: wrong fields, or no credentials.
    """
    from google.auth import impersonated_credentials
    from google.auth.credentials import AnonymousCredentials

    problems = check_connection(connection)
    if problems:
        raise ConfigError("; ".join(problems))
    if is_anonymous(connection):
        return AnonymousCredentials(), None  # type: ignore[no-untyped-call]
    requested_scopes = scopes(connection)
    google_credentials, project = _base_credentials(connection, requested_scopes)
    google_credentials = _in_universe(google_credentials, connection)
    chain = impersonation_chain(connection)
    if not chain:
        return google_credentials, project
    impersonated = impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
        source_credentials=google_credentials,
        target_principal=chain[-1],
        delegates=list(chain[:-1]),
        target_scopes=list(requested_scopes),
    )
    return impersonated, project


def _in_universe(google_credentials: Any, connection: Connection) -> Any:
    universe = extra_field(connection, "universe_domain")
    if universe is None or google_credentials.universe_domain == universe:
        return google_credentials
    if google_credentials.universe_domain != DEFAULT_UNIVERSE or not hasattr(
        google_credentials, "with_universe_domain"
    ):
        raise ConfigError(
            f"connection {connection.conn_id!r}: its credentials belong to the universe domain "
            f"{google_credentials.universe_domain}, but universe_domain is {universe}. Correct the field, or use a "
            "key of that universe"
        )
    return google_credentials.with_universe_domain(universe)


def _base_credentials(connection: Connection, requested_scopes: tuple[str, ...]) -> tuple[Any, str | None]:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    connection_text = f"connection {connection.conn_id!r}"
    info = key_info(connection) or _external_info(connection)
    path = key_path(connection) or (info if isinstance(info, str) else None)
    try:
        if path:
            info = json.loads(Path(path).expanduser().read_text())
        if info is None:
            return google.auth.default(scopes=requested_scopes)
        if not isinstance(info, dict):
            raise ValueError
        return _credentials_from_info(info, requested_scopes), info.get("project_id")
    except OSError as error:
        raise ConfigError(f"{connection_text}: cannot read its key file: {error.strerror}") from None
    except GoogleAuthError as error:
        raise classify(error, f"{connection_text}: reading its credentials") from None
    except (TypeError, ValueError):
        raise ConfigError(
            f"{connection_text}: the key is damaged or of an unknown type. Paste the whole JSON key again"
        ) from None


def _credentials_from_info(info: dict[str, Any], requested_scopes: tuple[str, ...]) -> Any:
    from google.auth import aws, identity_pool, pluggable
    from google.oauth2 import credentials as user
    from google.oauth2 import service_account

    credentials_class: Any = service_account.Credentials
    if info.get("type") == "authorized_user":
        user_credentials: Any = user.Credentials
        return user_credentials.from_authorized_user_info(info, scopes=requested_scopes)
    if info.get("type") != "external_account":
        return credentials_class.from_service_account_info(info, scopes=requested_scopes)
    if str(info.get("subject_token_type", "")).startswith("urn:ietf:params:aws:"):
        credentials_class = aws.Credentials
    elif "executable" in (info.get("credential_source") or {}):
        credentials_class = pluggable.Credentials
    else:
        credentials_class = identity_pool.Credentials
    return credentials_class.from_info(info, scopes=requested_scopes)
