"""How the last page is known. It is said, never guessed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.values.json.places import Place

_WORDS = ("empty_page", "no_token", "short_page")


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
    at: Place = Field(description="Where it stands, such as has_more or /meta/end_of_stream.")
    last: str | bool | int | None = Field(
        description="Its value on the last page: False for has_more, True for end_of_stream."
    )


class Total(Declared):
    """The answer says how many records, or pages, there are in all."""

    rule: Literal["total"] = "total"
    at: Place | None = Field(default=None, description="Where it stands in the body, such as /meta/total.")
    header: str | None = Field(default=None, description="The header that says it, such as X-WP-Total.")
    of: Literal["records", "pages"] = Field(default="records", description="What is counted.")

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("give either at or header")
        return self


def _spelled_out(value: Any) -> Any:
    return {"rule": value} if isinstance(value, str) and value in _WORDS else value


def _rule(value: Any) -> Any:
    return value.get("rule") if isinstance(value, dict) else getattr(value, "rule", None)


_Rules = Annotated[
    Annotated[EmptyPage, Tag("empty_page")]
    | Annotated[NoToken, Tag("no_token")]
    | Annotated[ShortPage, Tag("short_page")]
    | Annotated[Flag, Tag("flag")]
    | Annotated[Total, Tag("total")],
    Discriminator(
        _rule,
        custom_error_type="end_rule",
        custom_error_message="say how the last page is known: 'empty_page', 'no_token', 'short_page', Flag(at=…, "
        "last=…) or Total(at=…); in a file {rule: flag, at: …, last: …} or {rule: total, at: …}",
    ),
]
Ends = Annotated[
    _Rules,
    BeforeValidator(_spelled_out, json_schema_input_type=Literal["empty_page", "no_token", "short_page"] | _Rules),
]
