"""Translates a manifest's authenticators to a connection of type ``http``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.cli.manifests.expressions import Reference, Text, read_parts, read_whole
from airflow_provider_connect.cli.manifests.remarks import Remarks
from airflow_provider_connect.cli.manifests.settings import Settings
from airflow_provider_connect.cli.manifests.texts import LeftOutError, Scope, SecretError

FILL_IN = "FILL_IN"
"""Stands for a secret in the written connection."""


@dataclass
class ConnectionDraft:
    """A connection without its secrets.

    :param sources: name of the config's field, by field of the connection.
    """

    host: str
    login: str = ""
    password: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    remarks: Remarks = field(default_factory=Remarks)

    @property
    def identity(self) -> str:
        """Equal for connections that differ only in named credentials."""
        extra = {name: value for name, value in self.extra.items() if name != "credentials"}
        return json.dumps([self.host, self.login, self.password, extra], sort_keys=True, default=str)

    def add_credential(self, location: str, name: str, text: str, source: str) -> None:
        """Add a named credential of the request."""
        self.extra.setdefault("credentials", {}).setdefault(location, {})[name] = text
        self.sources[f"extra.credentials.{location}.{name}"] = source
        self.extra.setdefault("auth", "none")

    def merge_credentials(self, other: ConnectionDraft) -> None:
        """Take over the named credentials of a connection with the same identity."""
        for location, values in other.extra.get("credentials", {}).items():
            for name, text in values.items():
                self.add_credential(location, name, text, other.sources[f"extra.credentials.{location}.{name}"])

    def as_fields(self) -> dict[str, Any]:
        """Return the fields for ``airflow connections import``."""
        fields: dict[str, Any] = {"conn_type": "http", "host": self.host}
        fields |= {name: value for name, value in (("login", self.login), ("password", self.password)) if value}
        return fields | ({"extra": self.extra} if self.extra else {})


def fill_authentication(draft: ConnectionDraft, authenticator: Any, settings: Settings) -> None:
    """Set the credentials of a connection as an authenticator sends them. What is left out becomes a remark."""
    _Authentication(draft, settings).fill(authenticator)


def masked_text(value: Any) -> str:
    """Return FILL_IN with the literal parts around it, such as ``Token FILL_IN``. A literal alone is never kept."""
    parts = read_parts(str(value)) if value else []
    texts = [str(part.value) if isinstance(part, Text) else FILL_IN for part in parts]
    return "".join(texts) if FILL_IN in texts else FILL_IN if texts else ""


class _Authentication:
    def __init__(self, draft: ConnectionDraft, settings: Settings) -> None:
        self._draft = draft
        self._scope = Scope(settings, draft.remarks)

    def fill(self, authenticator: Any) -> None:
        if not isinstance(authenticator, Mapping) or not authenticator:
            return
        fillers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "NoAuth": lambda _: None,
            "BasicHttpAuthenticator": self._basic,
            "BearerAuthenticator": self._bearer,
            "ApiKeyAuthenticator": self._api_key,
            "OAuthAuthenticator": self._oauth,
            "SessionTokenAuthenticator": self._session,
            "SelectiveAuthenticator": self._selective,
        }
        kind = str(authenticator.get("type"))
        filler = fillers.get(kind)
        if filler is None:
            self._draft.remarks.gap("auth", f"{kind} has no counterpart: set login, password and extra by hand")
        else:
            filler(authenticator)

    def _secret(self, field_name: str, value: Any) -> str:
        """Return a credential's text, and keep the name of its source."""
        for part in read_parts(str(value)) if value else ():
            if isinstance(part, Reference) and part.root == "config":
                self._draft.sources[field_name] = f"config {'.'.join(part.steps)!r}"
        return masked_text(value)

    def _basic(self, fields: Mapping[str, Any]) -> None:
        self._draft.login = self._secret("login", fields.get("username")) or FILL_IN
        self._draft.password = self._secret("password", fields.get("password"))
        self._draft.extra["auth"] = "basic"

    def _bearer(self, fields: Mapping[str, Any]) -> None:
        self._draft.password = self._secret("password", fields.get("api_token")) or FILL_IN
        self._draft.extra["auth"] = "bearer"

    def _api_key(self, fields: Mapping[str, Any]) -> None:
        option = fields.get("inject_into")
        name, location = fields.get("header") or "X-Api-Key", "header"
        if isinstance(option, Mapping):
            name = option.get("field_name") or "/".join(map(str, ["", *(option.get("field_path") or ())])) or name
            location = {"request_parameter": "query", "header": "header"}.get(str(option.get("inject_into")), "body")
        name = str(self._scope.write_text(name, "auth"))
        key = self._secret("password", fields.get("api_token")) or FILL_IN
        if name.lower() == "authorization" and key.lower().startswith("bearer "):
            self._draft.password = key[len("bearer ") :]
            self._draft.extra["auth"] = "bearer"
        elif location == "body":
            self._draft.add_credential("body", name, key, self._draft.sources.pop("password", ""))
        else:
            self._draft.password = key
            self._draft.extra |= {"auth": "api_key", "send_as": name, "send_in": location}

    def _oauth(self, fields: Mapping[str, Any]) -> None:
        draft = self._draft
        grant = str(fields.get("grant_type") or "refresh_token")
        if not fields.get("token_refresh_endpoint"):  # a token that the user has is sent as it is
            draft.password = self._secret("password", fields.get("access_token_value")) or FILL_IN
            draft.extra["auth"] = "bearer"
            return
        is_refresh = grant == "refresh_token"
        if grant not in ("refresh_token", "client_credentials"):
            draft.remarks.gap("auth", f"the grant {grant!r} has no counterpart: client credentials are written instead")
        draft.login = self._secret("login", fields.get("client_id")) or FILL_IN
        draft.password = self._secret("password", fields.get("client_secret")) or FILL_IN
        draft.extra |= {
            "auth": "oauth2_refresh_token" if is_refresh else "oauth2_client_credentials",
            "auth_url": self._plain(fields["token_refresh_endpoint"]),
            "client_auth": "body",
        }
        if is_refresh:
            draft.extra["refresh_token"] = self._secret("extra.refresh_token", fields.get("refresh_token")) or FILL_IN
            if fields.get("refresh_token_updater"):
                draft.remarks.gap("auth", "the service replaces the refresh token at each use. Turn off rotation there")
        if isinstance(fields.get("scopes"), list) and fields["scopes"]:
            draft.extra["scope"] = " ".join(map(str, fields["scopes"]))
        self._oauth_form(fields)

    def _oauth_form(self, fields: Mapping[str, Any]) -> None:
        known = ("client_id", "client_secret", "refresh_token", "grant_type", "scope", "scopes")
        body = fields.get("refresh_request_body")
        params = {
            str(name): self._plain(value)
            for name, value in (body.items() if isinstance(body, Mapping) else ())
            if name not in known
        }
        if params:
            self._draft.extra["auth_params"] = params
        headers = fields.get("refresh_request_headers")
        names = {str(name).lower() for name in headers} if isinstance(headers, Mapping) else set()
        if "authorization" in names:
            self._draft.extra["client_auth"] = "basic"
        if names - {"authorization", "content-type", "accept"}:
            self._draft.remarks.gap("auth", f"headers of the token request: {', '.join(sorted(names))}")

    def _session(self, fields: Mapping[str, Any]) -> None:
        draft = self._draft
        requester = fields.get("login_requester") or {}
        base, path = requester.get("url_base") or requester.get("url") or "", requester.get("path") or ""
        body = requester.get("request_body_json") or requester.get("request_body_data") or {}
        names = {str(name): value for name, value in body.items()} if isinstance(body, Mapping) else {}
        secret = next((name for name in names if "pass" in name.lower() or "secret" in name.lower()), None)
        draft.login = draft.password = FILL_IN
        draft.extra |= {
            "auth": "session",
            "auth_url": f"{self._plain(base).rstrip('/')}/{self._plain(path).lstrip('/')}".rstrip("/"),
            "auth_params": {
                name: "{password}" if name == secret else "{login}" if _is_config(value) else str(value)
                for name, value in names.items()
            },
            "auth_body": "form" if requester.get("request_body_data") else "json",
            "auth_result": "/" + "/".join(map(str, fields.get("session_token_path") or ())),
        }
        sender = (fields.get("request_authentication") or {}).get("inject_into")
        if isinstance(sender, Mapping):
            is_query = sender.get("inject_into") == "request_parameter"
            draft.extra |= {
                "send_as": str(sender.get("field_name")),
                "send_in": "query" if is_query else "header",
            }

    def _selective(self, fields: Mapping[str, Any]) -> None:
        choices = fields.get("authenticators")
        if isinstance(choices, Mapping) and choices:
            name, first = next(iter(choices.items()))
            self._draft.remarks.check("auth", f"the manifest has {', '.join(map(str, choices))}. Written is {name}")
            self.fill(first)

    def _plain(self, value: Any) -> str:
        try:
            return str(self._scope.write(value, "auth"))
        except (LeftOutError, SecretError):
            return FILL_IN


def _is_config(value: Any) -> bool:
    part = read_whole(value) if isinstance(value, str) else None
    return isinstance(part, Reference) and part.root == "config"
