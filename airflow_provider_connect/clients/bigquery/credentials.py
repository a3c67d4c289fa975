"""Google credentials from the fields of the Google provider's own connection type, read with google-auth alone.

The names are those of ``apache-airflow-providers-google`` (``GoogleBaseHook``, 2026-11), with and without its older
prefix ``extra__google_cloud_platform__``. Nothing secret is written to a file.
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
    """Say what is wrong with a connection, as far as one can tell without the network; [] when nothing is."""
    where = f"connection {connection.conn_id!r}"
    found = [f"{where}: {text}" for text in endpoint_problems(connection)]
    for check in (key_info, _external_info, impersonation_chain, scopes, key_path, proxy_url):
        try:
            check(connection)
        except ConfigError as error:
            found.append(str(error))
    found += [
        f"{where}: field {name!r} is not supported here; use keyfile_dict, key_path, credential_config_file or "
        "application default credentials"
        for name in _UNSUPPORTED
        if extra_field(connection, name)
    ]
    named = [name for name in ("keyfile_dict", "key_path", "credential_config_file") if extra_field(connection, name)]
    if len(named) > 1:
        found.append(f"{where}: give only one of {' and '.join(named)}")
    return found


def key_info(connection: Connection) -> dict[str, Any] | None:
    """Return the service account's key that the connection holds; None if it holds none.

    :raises ConfigError: it is not JSON, or a field is missing.
    """
    info = _object(connection, "keyfile_dict")
    if info is None:
        return None
    missing = [name for name in _KEY_FIELDS if not info.get(name)]
    if missing:
        raise ConfigError(f"connection {connection.conn_id!r}: keyfile_dict has no {', '.join(missing)}")
    # A key pasted into the form often has its line ends escaped twice.
    return info | {"private_key": str(info["private_key"]).replace("\\n", "\n")}


def _object(connection: Connection, name: str) -> dict[str, Any] | None:
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
    return _object(connection, "credential_config_file")


def impersonation_chain(connection: Connection) -> tuple[str, ...]:
    """Return the accounts of the impersonation chain; the last one is the one to act as.

    :raises ConfigError: one of them is not an account's address.
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
    """Return the scopes to ask for; by default that of the whole cloud platform."""
    value = _text(connection, "scope", "scopes separated by commas")
    return tuple(scope.strip() for scope in (value or "").split(",") if scope.strip()) or SCOPES


def key_path(connection: Connection) -> str | None:
    """Return where the key lies on each machine; None if the connection does not say."""
    return _text(connection, "key_path", "the path of a key")


def _text(connection: Connection, name: str, what: str) -> str | None:
    value = extra_field(connection, name)
    if value is not None and not isinstance(value, str):
        raise ConfigError(f"connection {connection.conn_id!r}: {name} must be text, {what}")
    return value


def proxy_url(connection: Connection) -> str | None:
    """Return the URL of the only proxy that is used; those of the environment are not.

    :raises ConfigError: it is not an ``http`` URL, the only kind of proxy that gRPC can use.
    """
    value = connection.option("proxy")
    if value is not None and not re.fullmatch(r"http://[^\s/?#]+/?", value):
        raise ConfigError(f"connection {connection.conn_id!r}: proxy must be a URL like http://host:port")
    return value


def project_of_connection(connection: Connection) -> str | None:
    """Return the project that the connection or the key in it names; None if only the environment knows one."""
    project, info = extra_field(connection, "project"), key_info(connection)
    found = project or (info.get("project_id") if isinstance(info, dict) else None)
    return str(found) if found else None


def load_credentials(connection: Connection) -> tuple[Any, str | None]:
    """Return google-auth credentials, and their project if they know one.

    :raises ConfigError: the connection's fields are wrong, or there are no credentials.
    """
    from google.auth import impersonated_credentials
    from google.auth.credentials import AnonymousCredentials

    problems = check_connection(connection)
    if problems:
        raise ConfigError("; ".join(problems))
    if is_anonymous(connection):
        return AnonymousCredentials(), None  # type: ignore[no-untyped-call]
    asked = scopes(connection)
    own, project = _own(connection, asked)
    own = _in_universe(own, connection)
    chain = impersonation_chain(connection)
    if not chain:
        return own, project
    acting = impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]
        source_credentials=own, target_principal=chain[-1], delegates=list(chain[:-1]), target_scopes=list(asked)
    )
    return acting, project


def _in_universe(own: Any, connection: Connection) -> Any:
    """Return the credentials for the universe domain that the connection names."""
    asked = extra_field(connection, "universe_domain")
    if asked is None or own.universe_domain == asked:
        return own
    if own.universe_domain != DEFAULT_UNIVERSE or not hasattr(own, "with_universe_domain"):
        raise ConfigError(
            f"connection {connection.conn_id!r}: its credentials are of the universe domain {own.universe_domain}, and "
            f"universe_domain says {asked}: take a key of that universe, or correct the field"
        )
    return own.with_universe_domain(asked)


def _own(connection: Connection, asked: tuple[str, ...]) -> tuple[Any, str | None]:
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    where = f"connection {connection.conn_id!r}"
    info = key_info(connection) or _external_info(connection)
    path = key_path(connection) or (info if isinstance(info, str) else None)
    try:
        if path:
            info = json.loads(Path(path).expanduser().read_text())
        if info is None:
            return google.auth.default(scopes=asked)
        if not isinstance(info, dict):
            raise ValueError
        return _made(info, asked), info.get("project_id")
    except OSError as error:
        raise ConfigError(f"{where}: cannot read its key file: {error.strerror}") from None
    except GoogleAuthError as error:
        raise classify(error, f"{where}: reading its credentials") from None
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: the key is damaged or of another kind; paste the whole JSON key again") from None


def _made(info: dict[str, Any], asked: tuple[str, ...]) -> Any:
    """Make credentials from a key file's content; unlike the library's own loader, without the network."""
    from google.auth import aws, identity_pool, pluggable
    from google.oauth2 import credentials as user
    from google.oauth2 import service_account

    kind: Any = service_account.Credentials
    if info.get("type") == "authorized_user":
        made: Any = user.Credentials
        return made.from_authorized_user_info(info, scopes=asked)
    if info.get("type") != "external_account":
        return kind.from_service_account_info(info, scopes=asked)
    if str(info.get("subject_token_type", "")).startswith("urn:ietf:params:aws:"):
        kind = aws.Credentials
    elif "executable" in (info.get("credential_source") or {}):
        kind = pluggable.Credentials
    else:
        kind = identity_pool.Credentials
    return kind.from_info(info, scopes=asked)
