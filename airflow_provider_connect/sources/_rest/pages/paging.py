"""Declares how to request the next page, and how to detect the last one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.values.json.paths import FieldPath

_RULE_NAMES = ("empty_page", "no_token", "short_page")


class EmptyPage(Declared):
    """A page without records follows the last page."""

    rule: Literal["empty_page"] = "empty_page"


class NoToken(Declared):
    """The last page has no token or link, or a null, false or empty one."""

    rule: Literal["no_token"] = "no_token"


class ShortPage(Declared):
    """The last page has fewer records than a full page, or none.

    Wrong for an API that filters records after cutting pages.
    """

    rule: Literal["short_page"] = "short_page"
    serves: int | None = Field(
        default=None,
        ge=1,
        description="Number of records on a full page as served, not as requested. By default the size of the largest "
        "page so far, or the requested size if that is smaller. Without a requested size, the first page is the last "
        "one only if it is empty.",
    )


class Flag(Declared):
    """A field of the answer, such as has_more, marks the last page."""

    rule: Literal["flag"] = "flag"
    at: FieldPath = Field(description="Location in the body, such as has_more or /meta/end_of_stream.")
    last: str | bool | int | None = Field(
        description="Value on the last page: False for has_more, True for end_of_stream."
    )


class Total(Declared):
    """The answer holds the total number of records or pages."""

    rule: Literal["total"] = "total"
    at: FieldPath | None = Field(default=None, description="Location in the body, such as /meta/total.")
    header: str | None = Field(default=None, description="Header with the total, such as X-WP-Total.")
    of: Literal["records", "pages"] = Field(default="records", description="Unit of the total.")

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("set either at or header")
        return self


def _expand_rule_name(value: Any) -> Any:
    return {"rule": value} if isinstance(value, str) and value in _RULE_NAMES else value


def _read_field(name: str) -> Callable[[Any], Any]:
    return lambda value: value.get(name) if isinstance(value, dict) else getattr(value, name, None)


_Rules = Annotated[
    Annotated[EmptyPage, Tag("empty_page")]
    | Annotated[NoToken, Tag("no_token")]
    | Annotated[ShortPage, Tag("short_page")]
    | Annotated[Flag, Tag("flag")]
    | Annotated[Total, Tag("total")],
    Discriminator(
        _read_field("rule"),
        custom_error_type="end_rule",
        custom_error_message="declare the end rule: 'empty_page', 'no_token', 'short_page', Flag(at=…, last=…) or "
        "Total(at=…). In a file {rule: flag, at: …, last: …} or {rule: total, at: …}",
    ),
]
Ends = Annotated[
    _Rules,
    BeforeValidator(_expand_rule_name, json_schema_input_type=Literal["empty_page", "no_token", "short_page"] | _Rules),
]


_COUNTED_END_RULES = ("empty_page", "short_page", "flag", "total")
_TOKEN_END_RULES = ("no_token", "empty_page", "flag", "total")
_MAX_PAGES = Field(
    default=100_000, ge=1, description="Largest number of pages of a poll. A poll with more pages fails."
)
_STABLE = Field(
    default=True,
    description="Whether a failed page may be requested again alone. Set False if its token is valid only once. The "
    "day then starts again at the first page.",
)
_UNIQUE = Field(
    default=False,
    description="Whether no two records share the field's value, though the field is not records.key. By default the "
    "last record must come again after the edge, and otherwise the day fails.",
)
_KEEP_HOST = Field(
    default=False,
    description="Whether to request links at the host of the first page, with credentials. For a service whose links "
    "name it by another host.",
)
_PUT = Field(
    default=None,
    description="Location of the value in the POST body or form, instead of a query parameter. A number in a body.",
)
_FIRST_VALUE = Field(default="", description="Text for {page.value} in the request of the first page.")
_ENDS = Field(description="Rule that detects the last page.")


class _Paged(Declared):
    end_rules: ClassVar[tuple[str, ...]]
    ends: Ends = _ENDS
    max_pages: int = _MAX_PAGES
    stable: bool = _STABLE

    @model_validator(mode="after")
    def _has_a_fitting_end(self) -> Self:
        if self.ends.rule not in self.end_rules:
            raise ValueError(f"ends: {self.ends.rule!r} does not fit this paging. Use one of {self.end_rules}")
        return self


class Single(Declared):
    """One answer holds all records."""

    kind: Literal["single"] = "single"


class Cap(Declared):
    """Number of records after which the API ends a listing silently."""

    records: int = Field(ge=1, description="Largest number of records in a listing.")
    param: str | None = Field(
        default=None,
        min_length=1,
        description="Query parameter for the start of a listing. At the cap, the next listing starts at the last "
        "record's field. It must include that value unless the field is unique, and repeated records are loaded once. "
        "By default a day that reaches the cap fails.",
    )
    field: FieldPath | None = Field(
        default=None, description="Location of that value in the record. The listing must be sorted by it, ascending."
    )
    unique: bool = _UNIQUE

    @model_validator(mode="after")
    def _restart_is_complete(self) -> Self:
        if (self.param is None) != (self.field is None):
            raise ValueError("set both param and field, or neither")
        return self


class _Listing(_Paged):
    cap: Cap | None = Field(
        default=None, description="Size at which the API ends a listing silently. By default there is none."
    )


class LinkHeader(_Listing):
    """The header Link names the next page (RFC 8288)."""

    end_rules = ("no_token", "empty_page", "flag", "total")
    kind: Literal["link_header"] = "link_header"
    rel: str = Field(default="next", description="Relation of the link to follow.")
    keep_host: bool = _KEEP_HOST


class NextLink(_Listing):
    """A field of the body holds the address of the next page, full or relative."""

    end_rules = _TOKEN_END_RULES
    kind: Literal["next_link"] = "next_link"
    at: FieldPath = Field(description="Location of the address, such as @odata.nextLink or /links/next.")
    keep_host: bool = _KEEP_HOST


class Cursor(_Listing):
    """The answer holds a token. The next request sends it in the query, a header or the body."""

    end_rules = _TOKEN_END_RULES
    kind: Literal["cursor"] = "cursor"
    at: FieldPath | None = Field(default=None, description="Location of the token in the body, such as /meta/next.")
    header: str | None = Field(default=None, description="Header with the token.")
    param: str | None = Field(default=None, description="Query parameter for the token.")
    send_header: str | None = Field(default=None, description="Request header for the token.")
    put: FieldPath | None = Field(
        default=None, description="Location of the token in the POST body or form. The first page's body has none."
    )
    first_value: str = _FIRST_VALUE

    @model_validator(mode="after")
    def _has_origin_and_destination(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("set either 'at' or 'header': the place of the token in the answer")
        if sum(destination is not None for destination in (self.param, self.send_header, self.put)) > 1:
            raise ValueError("set one of 'param', 'send_header' and 'put': the place of the token in the next request")
        return self


class _Numbered(_Listing):
    end_rules = _COUNTED_END_RULES
    size_fields: ClassVar[tuple[str, str]]
    put: FieldPath | None = _PUT
    """The two fields that declare the size parameter and its value."""

    @property
    def size_params(self) -> list[tuple[str, str]]:
        """The query parameter for the page size and its value, if declared."""
        name, page_size = (getattr(self, field) for field in self.size_fields)
        return [(name, str(page_size))] if name is not None else []

    @model_validator(mode="after")
    def _sizes_together(self) -> Self:
        param_field, size_field = self.size_fields
        has_param, has_size = (getattr(self, name) is not None for name in (param_field, size_field))
        if has_param and not has_size:
            raise ValueError(f"set both {param_field} and {size_field}, or neither")
        return self


class Offset(_Numbered):
    """The next request names the number of records received so far, of each page at most ``limit``."""

    size_fields = ("limit_param", "limit")
    kind: Literal["offset"] = "offset"
    param: str = Field(default="offset", min_length=1, description="Query parameter for the offset.")
    first: int = Field(default=0, ge=0, description="Offset of the first record.")
    limit_param: str | None = Field(default=None, description="Query parameter for the page size.")
    limit: int | None = Field(
        default=None, ge=1, description="Requested page size. With put, the body of the request may hold it."
    )


class PageNumber(_Numbered):
    """Each request names a page number."""

    size_fields = ("size_param", "size")
    kind: Literal["page_number"] = "page_number"
    param: str = Field(default="page", min_length=1, description="Query parameter for the page number.")
    first: int = Field(default=1, ge=0, description="Number of the first page.")
    size_param: str | None = Field(default=None, description="Query parameter for the page size.")
    size: int | None = Field(
        default=None, ge=1, description="Requested page size. With put, the body of the request may hold it."
    )


class LastKey(_Paged):
    """The next request sends a field of the last record."""

    end_rules = ("flag", "empty_page", "short_page", "total")
    kind: Literal["last_key"] = "last_key"
    param: str | None = Field(default=None, min_length=1, description="Query parameter, such as starting_after.")
    put: FieldPath | None = _PUT
    first_value: str = _FIRST_VALUE
    field: FieldPath = Field(default="id", description="Location of the value in the record.")
    unique: bool = _UNIQUE

    @model_validator(mode="after")
    def _has_one_destination(self) -> Self:
        if self.param is not None and self.put is not None:
            raise ValueError("set either 'param' or 'put': the place of the value in the next request")
        return self


def sends_value(paging: Paging) -> bool:
    """Return True if requests of pages differ by a value."""
    return isinstance(paging, Offset | PageNumber | Cursor | LastKey)


def destinations(paging: Paging) -> list[str]:
    """Return the names of the options, without defaults, that say where a request has the value of its page."""
    fields = type(paging).model_fields
    return [
        name
        for name in ("param", "put", "send_header")
        if name in fields and getattr(paging, name) not in (None, fields[name].default)
    ]


def value_paths(paging: Paging) -> list[str]:
    """Return the paths of the values in a page's body that the paging uses."""
    if isinstance(paging, Single):
        return []
    paths = [paging.at] if isinstance(paging, NextLink | Cursor) else []
    if isinstance(paging.ends, Flag | Total):
        paths.append(paging.ends.at)
    return [path for path in paths if path is not None]


def last_record_path(paging: Paging) -> str | None:
    """Return the path of the last record's field that the paging sends, or None."""
    if isinstance(paging, LastKey):
        return paging.field
    cap = None if isinstance(paging, Single) else paging.cap
    return None if cap is None else cap.field


def names_unique_field(paging: Paging) -> bool:
    """Return True if the field of :func:`last_record_path` is declared unique."""
    if isinstance(paging, LastKey):
        return paging.unique
    cap = None if isinstance(paging, Single) else paging.cap
    return cap is not None and cap.unique


Paging = Annotated[
    Annotated[Single, Tag("single")]
    | Annotated[LinkHeader, Tag("link_header")]
    | Annotated[NextLink, Tag("next_link")]
    | Annotated[Cursor, Tag("cursor")]
    | Annotated[Offset, Tag("offset")]
    | Annotated[PageNumber, Tag("page_number")]
    | Annotated[LastKey, Tag("last_key")],
    Discriminator(
        _read_field("kind"),
        custom_error_type="paging_kind",
        custom_error_message="declare the paging: Single(), LinkHeader(…), NextLink(…), Cursor(…), Offset(…), "
        "PageNumber(…) or LastKey(…). In a file by kind: single, link_header, next_link, cursor, offset, page_number, "
        "last_key",
    ),
]
