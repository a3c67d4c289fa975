"""Where an API tells how many records a day has, for the operator's ``reconcile``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.sources._rest.declared.request import Request
from airflow_provider_connect.values.json.places import Place

Snapshot = Literal["replace", "daily"]


class Count(Declared):
    """A request whose answer tells how many records a day has."""

    request: Request | None = Field(
        default=None, description="What is asked; by default the first page, whose answer tells the total, too."
    )
    at: Place | None = Field(default=None, description="Where the number stands, such as /meta/total.")
    header: str | None = Field(default=None, description="The header that holds it, such as X-Total-Count.")
    is_least: bool = Field(
        default=False, description="Whether a day may rightly have more records than the API counts."
    )

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if (self.at is None) == (self.header is None):
            raise ValueError("give either at or header")
        return self
