"""How one page leads to the next, and how the last one is known. It is said, never guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.values.json.paths import FieldPath

_RULE_NAMES = ("empty_page", "no_token", "short_page")


class EmptyPage(Declared):
    """The page after the last one has no records."""

    rule: Literal["empty_page"] = "empty_page"


class NoToken(Declared):
    """The last page names no next one: the token is missing, null, false or empty."""

    rule: Literal["no_token"] = "no_token"


class ShortPage(Declared):
    """The last page has fewer records than the API serves on a full one, or none.

    Only for an API that never filters after it has cut its pages.
    """

    rule: Literal["short_page"] = "short_page"
    serves: int | None = Field(
        default=None,
        ge=1,
        description="How many records the API serves on a full page: not what it is asked for. By default the largest "
        "page so far says it; then the first page is never taken for the last one, unless it is empty.",
    )


class Flag(Declared):
    """A field of the answer says whether there are more."""

    rule: Literal["flag"] = "flag"
    at: FieldPath = Field(description="Where it stands, such as has_more or /meta/end_of_stream.")
    last: str | bool | int | None = Field(
        description="Its value on the last page: False for has_more, True for end_of_stream."
    )


class Total(Declared):
    """The answer says how many records, or pages, there are in all."""

    rule: Literal["total"] = "total"
    at: FieldPath | None = Field(default=None, description="Where it stands in the body, such as /meta/total.")
    header: str | None = Field(default=None, description="The header that says it, such as X-WP-Total.")
    of: Literal["records", "pages"] = Field(default="records", description="What is counted.")

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("give either at or header")
        return self


def _expand_rule_name(value: Any) -> Any:
    return {"rule": value} if isinstance(value, str) and value in _RULE_NAMES else value


def _read_field(name: str) -> Callable[[Any], Any]:
    """Return what tells kinds apart: what they say under this name."""
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
        custom_error_message="say how the last page is known: 'empty_page', 'no_token', 'short_page', Flag(at=…, "
        "last=…) or Total(at=…); in a file {rule: flag, at: …, last: …} or {rule: total, at: …}",
    ),
]
Ends = Annotated[
    _Rules,
    BeforeValidator(_expand_rule_name, json_schema_input_type=Literal["empty_page", "no_token", "short_page"] | _Rules),
]


_COUNTED_END_RULES = ("empty_page", "short_page", "flag", "total")
_TOKEN_END_RULES = ("no_token", "empty_page", "flag", "total")
_MAX_PAGES = Field(
    default=100_000, ge=1, description="A poll that has read so many pages fails: nothing is ever read without end."
)
_STABLE = Field(
    default=True,
    description="Whether a page that failed may be asked for again alone. If its token is good for one request only, "
    "say False: then the day is read again from its first page.",
)
_ENDS = Field(description="How the last page is known: it is said, never guessed.")


class _Paged(Declared):
    """What all kinds have that read more than one page."""

    end_rules: ClassVar[tuple[str, ...]]
    ends: Ends = _ENDS
    max_pages: int = _MAX_PAGES
    stable: bool = _STABLE

    @model_validator(mode="after")
    def _has_a_fitting_end(self) -> Self:
        if self.ends.rule not in self.end_rules:
            raise ValueError(f"ends: {self.ends.rule!r} tells nothing about this paging; use one of {self.end_rules}")
        return self


class Single(Declared):
    """The answer is all there is."""

    kind: Literal["single"] = "single"


class Cap(Declared):
    """How many records the API lists at the most: there its pages end as if there were no more, as Pardot's do."""

    records: int = Field(ge=1, description="How many records a listing has at the most, whatever there is.")
    param: str | None = Field(
        default=None,
        min_length=1,
        description="Name in the query of where the listing begins. At the cap it is asked for again, from the last "
        "record's field on. Unless that is unique, what lies exactly there has to come again; it is loaded once. By "
        "default a day that reaches the cap fails.",
    )
    field: FieldPath | None = Field(
        default=None, description="Where that value stands in the record; the listing has to be sorted by it, rising."
    )

    @model_validator(mode="after")
    def _restart_is_complete(self) -> Self:
        if (self.param is None) != (self.field is None):
            raise ValueError("param and field go together")
        return self


class _Listing(_Paged):
    """What all kinds have whose pages belong to one listing."""

    cap: Cap | None = Field(
        default=None, description="Where the API ends a listing without a word; by default it does not."
    )


class LinkHeader(_Listing):
    """The header Link names the next page (RFC 8288), as GitHub's does."""

    end_rules = ("no_token", "empty_page", "flag", "total")
    kind: Literal["link_header"] = "link_header"
    rel: str = Field(default="next", description="Relation of the link that is followed.")


class NextLink(_Listing):
    """A field of the body holds the address of the next page, whole or relative."""

    end_rules = _TOKEN_END_RULES
    kind: Literal["next_link"] = "next_link"
    at: FieldPath = Field(description="Where the address stands, such as @odata.nextLink or /links/next.")


class Cursor(_Listing):
    """The answer holds a token, which the next request sends in its query, as a header or in its body."""

    end_rules = _TOKEN_END_RULES
    kind: Literal["cursor"] = "cursor"
    at: FieldPath | None = Field(default=None, description="Where the token stands in the body, such as /meta/next.")
    header: str | None = Field(default=None, description="The header that holds the token.")
    param: str | None = Field(default=None, description="Name in the query under which it is sent.")
    send_header: str | None = Field(default=None, description="Header in which it is sent.")
    put: FieldPath | None = Field(
        default=None, description="Where it is put into the body of a POST; the first page's has none there."
    )

    @model_validator(mode="after")
    def _has_origin_and_destination(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("give either at or header, where the token comes from")
        if sum(destination is not None for destination in (self.param, self.send_header, self.put)) != 1:
            raise ValueError("give one of param, send_header and put, where the token goes")
        return self


class _Numbered(_Listing):
    """What kinds have whose pages follow from a count."""

    end_rules = _COUNTED_END_RULES
    size_fields: ClassVar[tuple[str, str]]
    """Names of the fields that say in which parameter which size is asked for."""

    @property
    def size_params(self) -> list[tuple[str, str]]:
        """The parameter that asks for pages of a size; none if none is declared."""
        name, most = (getattr(self, field) for field in self.size_fields)
        return [(name, str(most))] if name is not None else []

    @model_validator(mode="after")
    def _sizes_together(self) -> Self:
        name, most = self.size_fields
        if (getattr(self, name) is None) != (getattr(self, most) is None):
            raise ValueError(f"{name} and {most} go together")
        return self


class Offset(_Numbered):
    """The next page begins after as many records as have come: those served, not those asked for."""

    size_fields = ("limit_param", "limit")
    kind: Literal["offset"] = "offset"
    param: str = Field(default="offset", min_length=1, description="Name in the query of the offset.")
    first: int = Field(default=0, ge=0, description="Offset of the first record.")
    limit_param: str | None = Field(default=None, description="Name in the query of the page's size.")
    limit: int | None = Field(default=None, ge=1, description="How many records to ask for.")


class PageNumber(_Numbered):
    """Pages have numbers."""

    size_fields = ("size_param", "size")
    kind: Literal["page_number"] = "page_number"
    param: str = Field(default="page", min_length=1, description="Name in the query of the page's number.")
    first: int = Field(default=1, ge=0, description="Number of the first page.")
    size_param: str | None = Field(default=None, description="Name in the query of the page's size.")
    size: int | None = Field(default=None, ge=1, description="How many records to ask for.")


class LastKey(_Paged):
    """The next page is asked for by a field of the last record, as Stripe's is."""

    end_rules = ("flag", "empty_page", "short_page", "total")
    kind: Literal["last_key"] = "last_key"
    param: str = Field(min_length=1, description="Name in the query, such as starting_after.")
    field: FieldPath = Field(default="id", description="Where the value stands in the record.")


def last_record_place(paging: Paging) -> str | None:
    """Return the place in a page's last record that decides how to go on; None if none does."""
    if isinstance(paging, LastKey):
        return paging.field
    cap = None if isinstance(paging, Single) else paging.cap
    return None if cap is None else cap.field


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
        custom_error_message="say how pages follow each other: Single(), LinkHeader(…), NextLink(…), Cursor(…), "
        "Offset(…), PageNumber(…) or LastKey(…); in a file by kind: single, link_header, next_link, cursor, offset, "
        "page_number, last_key",
    ),
]
