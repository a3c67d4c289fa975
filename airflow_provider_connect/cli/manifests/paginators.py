"""Translates a manifest's paginator to a paging with its end rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.cli.manifests.columns import pointer
from airflow_provider_connect.cli.manifests.expressions import NextNumber, Reference, read_condition, read_whole
from airflow_provider_connect.cli.manifests.remarks import UntranslatableError
from airflow_provider_connect.cli.manifests.requests import RequestDraft, option_place
from airflow_provider_connect.cli.manifests.texts import LeftOutError, Scope, SecretError

_OPEN_END = "the manifest names no end, so the page after the last one is requested, too"


def translate_paging(paginator: Any, request: RequestDraft, scope: Scope) -> dict[str, Any]:
    """Return the paging. Adds the page size to the request if the paging has no field for it.

    :raises UntranslatableError: the paginator has no counterpart.
    """
    if not isinstance(paginator, Mapping) or not paginator or paginator.get("type") == "NoPagination":
        return {"kind": "single"}
    if paginator.get("type", "DefaultPaginator") != "DefaultPaginator":
        raise UntranslatableError(f"pages are requested by {paginator.get('class_name') or paginator.get('type')!r}")
    return _Paging(paginator, request, scope).translate()


class _Paging:
    def __init__(self, paginator: Mapping[str, Any], request: RequestDraft, scope: Scope) -> None:
        self._strategy: Mapping[str, Any] = paginator.get("pagination_strategy") or {}
        self._token_option: Mapping[str, Any] | None = paginator.get("page_token_option") or None
        self._size_option: Mapping[str, Any] | None = paginator.get("page_size_option") or None
        self._request = request
        self._scope = scope

    def translate(self) -> dict[str, Any]:
        kind = str(self._strategy.get("type"))
        if kind == "CursorPagination":
            self._request_size()
            return self._by_cursor()
        if kind not in ("OffsetIncrement", "PageIncrement"):
            raise UntranslatableError(f"pages are requested by {self._strategy.get('class_name') or kind!r}")
        if self._token_option is None:
            self._request_size()
            self._scope.remarks.check("paging", "the manifest requests one page only")
            return {"kind": "single"}
        paging = {"kind": "offset" if kind == "OffsetIncrement" else "page_number"}
        first = self._number(self._strategy.get("start_from_page")) if kind == "PageIncrement" else None
        return self._counted(paging, first if first is not None else 0, self._token_option)

    def _counted(self, paging: dict[str, Any], first: int, option: Mapping[str, Any]) -> dict[str, Any]:
        is_offset = paging["kind"] == "offset"
        destination = self._destination(option)
        paging |= destination
        if not is_offset:
            paging["first"] = first
        size, size_option = self._number(self._strategy.get("page_size")), self._size_option
        name, number = ("limit_param", "limit") if is_offset else ("size_param", "size")
        is_param = size_option is not None and size_option.get("inject_into") == "request_parameter"
        if size is not None and size_option is not None and is_param and "param" in destination:
            _, steps = option_place(size_option)
            self._request.params.pop(steps[0], None)
            paging |= {name: steps[0], number: size}
        else:
            self._request_size()
            if size is not None and "put" in destination:
                paging[number] = size
        self._scope.remarks.check("paging", f"{_OPEN_END}. Declare a total or a flag if the answer has one")
        return paging | {"ends": "empty_page"}

    def _destination(self, option: Mapping[str, Any]) -> dict[str, Any]:
        part, steps = option_place(option)
        steps = tuple(self._scope.write_text(step, "paging") for step in steps)
        if part == "params":
            self._request.params.pop(steps[0], None)
            return {"param": steps[0]}
        if part == "form" and self._request.form is None and self._request.method == "POST":
            self._request.form = {}
        if part in ("body", "form"):
            return {"put": pointer(steps)}
        raise UntranslatableError("the page is sent in a header")

    def _by_cursor(self) -> dict[str, Any]:
        value = read_whole(str(self._strategy.get("cursor_value") or ""))
        option = self._token_option
        if option is None:
            raise UntranslatableError("the token of the next page has no place in the request")
        is_link = option.get("type") == "RequestPath" or option.get("inject_into") == "path"
        if isinstance(value, NextNumber) and not is_link:
            self._scope.remarks.check("paging", "the manifest computes the next page's number from the answer")
            return self._counted({"kind": "page_number"}, 1, option)
        if not isinstance(value, Reference):
            raise UntranslatableError("the next page's token is computed by an expression without counterpart")
        if value.root == "headers":
            return self._by_header(value, option, is_link=is_link)
        if value.root == "last_record" and not is_link:
            self._scope.remarks.check("paging", f"{_OPEN_END}. The last record of each page needs this field")
            field = {"field": pointer(value.steps), "unique": True}
            return {"kind": "last_key"} | self._destination(option) | field | {"ends": "empty_page"}
        if value.root != "response" or not value.steps:
            raise UntranslatableError("the next page's token is no field of the answer")
        at = pointer(value.steps)
        if is_link:
            at = self._longer_stop_path(value) or at
            return {"kind": "next_link", "at": at, "ends": self._ends(value)}
        part, steps = option_place(option)
        if part == "headers":
            return {"kind": "cursor", "at": at, "send_header": steps[0], "ends": self._ends(value)}
        return {"kind": "cursor", "at": at} | self._destination(option) | {"ends": self._ends(value)}

    def _by_header(self, value: Reference, option: Mapping[str, Any], *, is_link: bool) -> dict[str, Any]:
        steps = tuple(step.lower() for step in value.steps)
        if steps[:1] == ("link",) and len(steps) > 1:
            return {"kind": "link_header", "ends": "no_token"} | ({"rel": steps[1]} if steps[1] != "next" else {})
        if is_link or len(steps) != 1:
            raise UntranslatableError("the next page's address is in a header other than Link")
        return {"kind": "cursor", "header": value.steps[0]} | self._destination(option) | {"ends": "no_token"}

    def _longer_stop_path(self, value: Reference) -> str | None:
        """Return the path of the stop condition if it leads to a field inside the cursor's."""
        tested = read_condition(str(self._strategy.get("stop_condition") or ""))
        is_inside = tested is not None and tested[0].steps[: len(value.steps)] == value.steps
        return pointer(tested[0].steps) if tested is not None and is_inside else None

    def _ends(self, cursor: Reference) -> Any:
        condition = self._strategy.get("stop_condition")
        if condition in (None, "", False):
            self._scope.remarks.check("paging", "the manifest ends at a page without token")
            return "no_token"
        tested = read_condition(str(condition))
        if tested is not None and tested[0].root == "response" and tested[0].steps:
            reference, value = tested
            if reference.steps[: len(cursor.steps)] == cursor.steps and value in (None, False):
                return "no_token"
            if value is None or isinstance(value, bool | str | int):
                self._scope.remarks.check("paging", f"the last page has {value!r} at {pointer(reference.steps)!r}")
                return {"rule": "flag", "at": pointer(reference.steps), "last": value}
        self._scope.remarks.check("paging", f"confirm the end. The manifest ends at {condition}")
        return "no_token"

    def _request_size(self) -> None:
        """Add the page size to the request."""
        size = self._number(self._strategy.get("page_size"))
        if self._size_option is not None and size is not None:
            self._request.put(self._size_option, size)

    def _number(self, value: Any) -> int | None:
        try:
            written = self._scope.write(value, "paging")
        except (LeftOutError, SecretError):
            return None
        text = str(written).strip()
        return int(text) if text.isdecimal() else None
