"""Refuses credentials in a declaration. DAG files import this."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from airflow_provider_connect.config import has_template
from airflow_provider_connect.sources._rest.placeholders import placeholders_in
from airflow_provider_connect.sources._rest.request import Request

_ONLY_CREDENTIALS = re.compile(
    r"authorization|proxy-authorization|cookie|(x-)?api[-_]?key|access[-_]token|client[-_]secret"
)
"""Names that hold only credentials, unlike ``page_token`` and ``sort_key``."""
_OWNERS = "x|api|app|application|auth|access|refresh|client|consumer|private|session|subscription|developer|user|bearer"
_LIKE_CREDENTIALS = re.compile(
    rf"((({_OWNERS})[-_]?)*(secret|token|key|password|passphrase)([-_]?key)?|passwd|pwd|credentials?)"
)
_HEADER_LIKE_CREDENTIALS = re.compile(rf"{_LIKE_CREDENTIALS.pattern}|.+[-_](token|secret|password|signature)")
"""Headers of vendors too, such as X-Shopify-Access-Token. Idempotency-Key is none."""


def credential_problems(request: Request, paging_names: Collection[str]) -> Iterator[str]:
    """Yield a problem for each credential in a request, without its value.

    Refused are headers and params that hold only credentials, and literal texts and numbers with a name like a
    credential's. Names in ``request.public`` pass.

    :param paging_names: names that the paging uses, which pass too.
    """
    allowed_names = {*request.public, *paging_names}
    for name in (*request.headers, *request.params):
        if _ONLY_CREDENTIALS.fullmatch(name.lower()):
            yield f"{name!r} is a credential. Move it to the connection"
            allowed_names.add(name)
    locations = [
        ("header", request.headers, _HEADER_LIKE_CREDENTIALS),
        ("query", request.params, _LIKE_CREDENTIALS),
        ("body", request.body, _LIKE_CREDENTIALS),
        ("body", request.form, _LIKE_CREDENTIALS),
    ]
    allowed_headers = {name.lower() for name in allowed_names}
    for location, fields, like_credentials in locations:
        for name, value in _named_values(fields):
            is_allowed = name.lower() in allowed_headers if location == "header" else name in allowed_names
            if not is_allowed and _is_literal(value) and like_credentials.fullmatch(name.lower()):
                yield (
                    f"{name!r} looks like a credential. Move it to the connection, into the extra field credentials: "
                    f'{{"{location}": {{"{name}": "…"}}}}. If it is none, add the name to request.public'
                )


def _is_literal(value: str | float) -> bool:
    return not isinstance(value, str) or (value != "" and not placeholders_in(value))


def _named_values(value: Any, name: str = "") -> Iterator[tuple[str, str | float]]:
    """Yield each text and number with the name of its field. Booleans are no credentials."""
    if isinstance(value, str | int | float) and not isinstance(value, bool) and name:
        yield name, value
    elif isinstance(value, Mapping):
        for inner_name, inner in value.items():
            yield from _named_values(inner, str(inner_name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _named_values(inner, name)


def publish_templated_names(rendered: Any, declared: Any) -> Any:
    """Return a rendered request with the names of templated credentials in ``public``, because they are no literals.

    :param declared: the request before rendering, as a model or as plain data.
    """
    plain = declared.model_dump() if isinstance(declared, Request) else declared
    if not isinstance(plain, Mapping) or not isinstance(rendered, Mapping):
        return rendered
    names = sorted({name for name in _templated_names(plain) if _HEADER_LIKE_CREDENTIALS.fullmatch(name.lower())})
    return {**rendered, "public": [*rendered.get("public", ()), *names]} if names else rendered


def _templated_names(fields: Any) -> Iterator[str]:
    return (name for name, value in _named_values(fields) if isinstance(value, str) and has_template(value))
