"""Options of connectors: typed once, all errors at once, never a value in a message."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from airflow_provider_connect.errors import ConfigError


class Options(BaseModel):
    """What a user may set on a connector, and what travels to Spark as JSON.

    A subclass declares its options as fields, each with ``Field(description=…)``: the only place where an
    option is documented. An option holds a reference to a secret (``conn_id``), never a secret.

    :raises ConfigError: on construction, naming every wrong option at once, with the nearest known name
        for an unknown one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise ConfigError(describe(type(self), error)) from None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Any:
        """Make an instance from decoded JSON, with the same errors as the constructor."""
        return cls(**options)

    def serialize(self) -> dict[str, Any]:
        """Return the options as plain JSON: what travels to Spark, and what Airflow shows as a rendered field."""
        return self.model_dump(mode="json")


def describe(model: type[BaseModel], error: ValidationError) -> str:
    """Say everything that is wrong with a model's options, a line each, without their values."""
    known = list(model.model_fields)
    lines = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        name = ".".join(str(part) for part in problem["loc"]) or "options"
        if problem["type"] == "extra_forbidden":
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(sorted(known))}"
            lines.append(f"{name}: unknown option; {hint}")
        elif problem["type"] == "missing":
            lines.append(f"{name}: required")
        else:
            lines.append(f"{name}: {problem['msg'].removeprefix('Value error, ')}")
    return f"{model.__name__}: " + "; ".join(lines)
