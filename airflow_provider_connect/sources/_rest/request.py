"""Declares a request, and a request for a count."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.values.json.paths import FieldPath

Value = Annotated[str | bool | int | float, Field(union_mode="left_to_right")]
Method = Literal["GET", "POST"]


class Request(Declared):
    """One request. The paging adds the values that differ between pages."""

    path: str = Field(
        min_length=1,
        description="Path under the connection's host, such as /v1/events or /repos/{parent.name}/issues. "
        "{parent.url} alone takes an address on the host, or its path.",
    )
    method: Method = Field(default="GET", description="GET, or POST with a body.")
    params: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="Query parameters. A list repeats its name for each value."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="More headers. Credentials belong to the connection."
    )
    body: Any = Field(default=None, description="JSON body of a POST.")
    form: dict[str, str] | None = Field(default=None, description="Form fields of a POST, instead of a body.")
    public: tuple[str, ...] = Field(
        default=(),
        examples=[["key"]],
        description="Names of headers, params and fields that look like credentials and are none. By default a text or "
        "number there is refused.",
    )

    spaces: Literal["plus", "percent"] = Field(
        default="plus", description="How params are sent with a space: plus as a+b, percent as a%20b."
    )

    @model_serializer(mode="wrap")
    def _without_default_spaces(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the default, so that a request has the same digest in ledgers as before this field."""
        fields: dict[str, Any] = serialize(self)
        if self.spaces == "plus":
            fields.pop("spaces", None)
        return fields

    @model_validator(mode="after")
    def _fits_its_method(self) -> Self:
        bodies = [body for body in (self.body, self.form) if body is not None]
        conflicts = {
            "path: remove the host, which the connection names": re.search("://|^//", self.path),
            "path: move the query after '?' to params": re.search("[?#]", self.path),
            "body and form require method='POST'": bodies and self.method == "GET",
            "set either body or form": len(bodies) > 1,
        }
        if problems := [problem for problem, applies in conflicts.items() if applies]:
            raise ValueError("; ".join(problems))
        return self


Snapshot = Literal["replace", "daily"]


class Count(Declared):
    """Where the API reports the number of a day's records."""

    request: Request | None = Field(default=None, description="The request. By default that of the first page.")
    at: FieldPath | None = Field(default=None, description="Location of the number, such as /meta/total.")
    header: str | None = Field(default=None, description="Header with the number, such as X-Total-Count.")
    is_least: bool = Field(
        default=False, description="Whether a day may legitimately have more records than the API counts."
    )

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("set either at or header")
        return self
