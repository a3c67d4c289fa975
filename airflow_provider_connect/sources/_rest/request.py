"""What is asked, with places for the day's bounds and a parent's values; and where a count of the day stands."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.values.json.paths import FieldPath

Value = Annotated[str | bool | int | float, Field(union_mode="left_to_right")]
Method = Literal["GET", "POST"]


class Request(Declared):
    """One request; what is asked page by page differs in what the paging adds."""

    path: str = Field(
        min_length=1, description="Path under the connection's host, such as /v1/events or /repos/{parent.name}/issues."
    )
    method: Method = Field(default="GET", description="GET, or POST with a body.")
    params: dict[str, Value | tuple[Value, ...]] = Field(
        default_factory=dict, description="Of the query. A list sends its name once for each value."
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="Beside those of the credentials, which stand in the connection alone."
    )
    body: Any = Field(default=None, description="Sent as JSON; only of a POST.")
    form: dict[str, str] | None = Field(default=None, description="Sent as a form in place of a body; only of a POST.")

    @model_validator(mode="after")
    def _fits_its_method(self) -> Self:
        bodies = [body for body in (self.body, self.form) if body is not None]
        conflicts = {
            "path: give the path alone; the connection names the host": re.search("://|^//", self.path),
            "path: what comes after a '?' stands in params": re.search("[?#]", self.path),
            "body and form belong to method='POST'": bodies and self.method == "GET",
            "give either body or form": len(bodies) > 1,
        }
        if problems := [problem for problem, applies in conflicts.items() if applies]:
            raise ValueError("; ".join(problems))
        return self


Snapshot = Literal["replace", "daily"]


class Count(Declared):
    """A request whose answer tells how many records a day has."""

    request: Request | None = Field(
        default=None, description="What is asked; by default the first page, whose answer tells the total, too."
    )
    at: FieldPath | None = Field(default=None, description="Where the number stands, such as /meta/total.")
    header: str | None = Field(default=None, description="The header that holds it, such as X-Total-Count.")
    is_least: bool = Field(
        default=False, description="Whether a day may rightly have more records than the API counts."
    )

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("give either at or header")
        return self
