"""What crosses from one process to another: immutable values that are plain JSON on the way."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Wire(BaseModel):
    """Base of every value that is written here and read elsewhere; an unknown field is an error on arrival.

    Its validator is built at first use: a DAG file imports most of these classes and uses none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
