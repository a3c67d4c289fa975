"""The extra field ``credentials``: credentials by name and location in the request.

.. code-block:: json

    {"credentials": {"header": {"X-App-Id": "…"}, "body": {"/auth/client_secret": "{password}"}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from airflow_provider_connect.clients.http.auth import NO_AUTH, Auth, cookie_auth
from airflow_provider_connect.clients.http.client import Body, json_body
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.values.json.paths import path_steps, put_at

FIELD = "credentials"
_LOCATIONS = ("header", "query", "cookie", "body")


def named_credentials_problems(connection: Connection) -> Iterator[str]:
    """Yield the problems of the extra field ``credentials``, without values."""
    by_location: Any = connection.extra.get(FIELD) or {}
    if not isinstance(by_location, Mapping):
        yield f'extra field {FIELD!r} must map locations to names and texts, such as {{"query": {{"key": "…"}}}}'
        return
    for location, values in by_location.items():
        if location not in _LOCATIONS:
            yield f"extra field {FIELD!r} has an unknown location; {suggest_nearest(str(location), _LOCATIONS)}"
        elif not isinstance(values, Mapping) or not all(isinstance(text, str) and text for text in values.values()):
            yield f"extra field {FIELD!r}: {location!r} must map names to texts"
        else:
            yield from _unusable_names(location, values)


def _unusable_names(location: str, values: Mapping[str, str]) -> Iterator[str]:
    for name in values:
        if location == "header" and name.lower() in ("cookie", "content-type"):
            yield f"extra field {FIELD!r}: {name!r} cannot be set as a header"
        if location == "body":
            try:
                path_steps(name)
            except ValueError as error:
                yield f"extra field {FIELD!r}: {error}"


def named_credentials(connection: Connection) -> Auth:
    """Return the credentials of the extra field ``credentials``, with ``{login}`` and ``{password}`` replaced."""
    by_location: Any = connection.extra.get(FIELD) or {}
    known_texts = {
        "{login}": connection.login.get_secret_value() if connection.login else "",
        "{password}": connection.password.get_secret_value() if connection.password else "",
    }
    values = {
        location: {name: known_texts.get(text, text) for name, text in texts.items()}
        for location, texts in by_location.items()
    }
    cookies = cookie_auth(values["cookie"]) if values.get("cookie") else NO_AUTH
    return Auth(
        headers=values.get("header", {}) | cookies.headers,
        secrets=tuple(text for texts in values.values() for text in texts.values()),
        params=tuple(values.get("query", {}).items()),
        body=tuple(values.get("body", {}).items()),
    )


def add_to_body(body: Body | None, credentials: tuple[tuple[str, str], ...]) -> Body | None:
    """Return a JSON body or a form with credentials, each at its path or field.

    :param credentials: (path or field, value).
    """
    if body is None or not credentials:
        return body
    if body.content_type != "application/json":
        names = {name for name, _ in credentials}
        fields = [pair for pair in parse_qsl(body.data.decode(), keep_blank_values=True) if pair[0] not in names]
        return Body(body.content_type, urlencode([*fields, *credentials]).encode())
    document = json.loads(body.data)
    for path, value in credentials:
        document = put_at(document, path_steps(path), value)
    return json_body(document)
