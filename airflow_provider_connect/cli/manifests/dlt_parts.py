"""Translates authentication, paginators and paths of a rest_api config of dlt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.cli.manifests.columns import pointer
from airflow_provider_connect.cli.manifests.connections import FILL_IN, ConnectionDraft
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError

_LOCATIONS = {"header": "header", "query": "query", "param": "query", "cookie": "cookie"}
_TYPES = {
    "text": "string", "bigint": "bigint", "double": "double", "bool": "boolean", "timestamp": "timestamp",
    "date": "date", "json": "json", "complex": "json", "decimal": "decimal(38,9)",
}  # fmt: skip
_COUNTED = {
    "offset": ({"offset_param": "param"}, ("limit_param", "limit"), "offset"),
    "page_number": ({"page_param": "param"}, ("size_param", "size"), "page"),
}


def fill_dlt_authentication(draft: ConnectionDraft, auth: Any) -> None:
    """Set the credentials of a connection as a config's ``auth`` sends them. Its values are not read."""
    if auth is None:
        return
    fields = auth if isinstance(auth, Mapping) else {}
    kind = str(fields.get("type") or ("bearer" if "token" in fields else auth))
    if kind == "bearer":
        draft.password, draft.extra = FILL_IN, {"auth": "bearer"}
    elif kind == "http_basic":
        draft.login = draft.password = FILL_IN
        draft.extra = {"auth": "basic"}
    elif kind == "api_key":
        location = _LOCATIONS.get(str(fields.get("location") or "header"), "header")
        draft.password = FILL_IN
        draft.extra = {"auth": "api_key", "send_as": str(fields.get("name") or "Authorization"), "send_in": location}
    elif kind == "oauth2_client_credentials":
        draft.login = draft.password = FILL_IN
        url = str(fields.get("access_token_url") or "token")
        draft.extra = {"auth": kind, "auth_url": url, "client_auth": "body"}
    else:
        draft.remarks.gap("auth", f"the auth {kind!r} has no counterpart: set login, password and extra by hand")


def translate_dlt_paging(paginator: Any, params: dict[str, Any], remarks: Remarks) -> dict[str, Any]:
    """Return the paging.

    :raises UntranslatableError: the paginator is detected while it runs, or has no counterpart.
    """
    fields = paginator if isinstance(paginator, Mapping) else {"type": paginator}
    kind = str(fields.get("type") or "auto")
    if kind == "auto":
        raise UntranslatableError("its paginator is detected while it runs. Name one in the config")
    if kind == "single_page":
        return {"kind": "single"}
    if kind == "header_link":
        relation = fields.get("links_next_key") or "next"
        return {"kind": "link_header", "ends": "no_token"} | ({} if relation == "next" else {"rel": str(relation)})
    if kind in ("json_link", "json_response"):
        return {"kind": "next_link", "at": dlt_pointer(fields.get("next_url_path") or "next"), "ends": "no_token"}
    if kind in ("cursor", "header_cursor"):
        return _by_cursor(kind, fields)
    if kind not in _COUNTED:
        raise UntranslatableError(f"its paginator {kind!r} has no counterpart")
    return _counted(kind, fields, params, remarks)


def _by_cursor(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    paging: dict[str, Any] = {"kind": "cursor"}
    if kind == "header_cursor":
        paging["header"] = str(fields.get("cursor_key") or "next")
    else:
        paging["at"] = dlt_pointer(fields.get("cursor_path") or "cursors.next")
    if body_path := fields.get("cursor_body_path"):
        paging["put"] = dlt_pointer(body_path)
    else:
        paging["param"] = str(fields.get("cursor_param") or ("cursor" if kind == "header_cursor" else "after"))
    return paging | {"ends": "no_token"}


def _counted(kind: str, fields: Mapping[str, Any], params: dict[str, Any], remarks: Remarks) -> dict[str, Any]:
    names, (size_name, size_field), param = _COUNTED[kind]
    paging: dict[str, Any] = {"kind": kind}
    body_path = fields.get("offset_body_path") or fields.get("page_body_path")
    if body_path:
        paging["put"] = dlt_pointer(body_path)
    else:
        paging["param"] = next((str(fields[name]) for name in names if fields.get(name)), param)
        params.pop(paging["param"], None)
    first = fields.get("offset") if kind == "offset" else fields.get("page", fields.get("base_page", 0))
    if isinstance(first, int) and first != (0 if kind == "offset" else 1):
        paging["first"] = first
    if kind == "offset" and isinstance(fields.get("limit"), int) and not body_path:
        paging |= {size_name: str(fields.get("limit_param") or "limit"), size_field: fields["limit"]}
        params.pop(paging[size_name], None)
    total = fields.get("total_path", "total")
    if total and "total_path" in fields:
        return paging | {
            "ends": {"rule": "total", "at": dlt_pointer(total), "of": "records" if kind == "offset" else "pages"}
        }
    if fields.get("has_more_path"):
        return paging | {"ends": {"rule": "flag", "at": dlt_pointer(fields["has_more_path"]), "last": False}}
    remarks.check("paging", "the page after the last one is requested, too. Declare a total if the answer has one")
    return paging | {"ends": "empty_page"}


def dlt_pointer(path: Any) -> str:
    """Return the path of a JSONPath of plain names.

    :raises UntranslatableError: it has another form.
    """
    text = re.sub(r"^\$\.?|\.?\[\*\]$", "", str(path))
    text = re.sub(r"\[?['\"]([^'\"]+)['\"]\]?", lambda match: f".{match[1]}" if match.start() else match[1], text)
    if re.search(r"[\[\]*?()@]", text.replace("@odata", "")) or ".." in str(path):
        raise UntranslatableError(f"the path {str(path)!r} selects by more than names")
    return text if text.startswith("@odata.") else pointer(text.split(".")) if text else ""


def dlt_column_type(hint: Any) -> str:
    """Return the column type of a column hint."""
    return _TYPES.get(str(hint.get("data_type")) if isinstance(hint, Mapping) else "", "string")
