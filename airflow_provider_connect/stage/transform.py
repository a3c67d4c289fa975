"""What ``transform=`` is: Spark SQL, or a function from a DataFrame to a DataFrame, over the frozen day.

It comes as SQL text, as the name of a function that the driver can import (``package.module:function``), or as the
function itself. The last one travels pickled, for a DAG file is no module that the driver could import.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from pydantic import Field

from airflow_provider_connect.config import has_template
from airflow_provider_connect.wire import Wire

Function = Callable[..., Any]
"""Takes the day as a DataFrame, and the day's date if it has a second parameter; returns a DataFrame."""

VIEW = "polled"
"""What SQL calls the rows of the day."""
PARAMETERS = ("day", "start", "end")
"""What SQL may name with a colon: the day's date, its first instant, and the first one after it."""

ROWS_POLLED = "rows_polled"
"""Name of the count of rows before a transform, in report and ledger."""
ERASED_FROM_RESULT = "erased_from_result"
"""Name of the count of rows that an erase list took out of a transform's result."""

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_EXAMPLE = "SELECT * FROM polled"
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*(\n|$)", re.DOTALL)
_BEGINNINGS = ("select", "with", "from", "values", "table")


class PickledFunction(Wire):
    """A function on its way to the driver.

    :param name: for people.
    :param python: the version whose bytecode it is, such as ``3.12``.
    :param digest: the same for the same function, whichever process has pickled it.
    :param pickle: in base64. What the function closes over is in it.
    """

    name: str
    python: str
    digest: str
    pickle: str = Field(repr=False)


class Transform(Wire):
    """What happens to a frozen day before it is published; one of three.

    :param sql: one query.
    :param reference: ``package.module:function``.
    :param function: the function itself.
    """

    sql: str | None = None
    reference: str | None = None
    function: PickledFunction | None = None

    @property
    def digest(self) -> str:
        """Digest of what it does; of a function that is imported, of its name alone."""
        if self.function is not None:
            return self.function.digest
        return hashlib.sha256(f"{self.reference or ''} {self.sql or ''}".encode()).hexdigest()

    def __str__(self) -> str:
        """Return what people call it."""
        if self.function is not None:
            return f"{self.function.name}()"
        return "SQL" if self.reference is None else f"{self.reference}()"


class Given:
    """A function as the operator's attribute: Airflow would call a bare one, where it renders templates."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def serialize(self) -> str:
        """Return what Airflow's pages show: the same whenever the DAG file is read."""
        return f"{getattr(self.function, '__qualname__', type(self.function).__qualname__)}()"

    __str__ = __repr__ = serialize


def held(value: str | Function | None) -> str | Given | None:
    """Return ``transform=`` as the operator's attribute."""
    return value if value is None or isinstance(value, str) else Given(value)


def of_text(text: str) -> Transform:
    """Return the transform that a text stands for."""
    return Transform(reference=text) if _REFERENCE.fullmatch(text.strip()) else Transform(sql=text)


def problem(value: object) -> str | None:
    """Say what is wrong with ``transform=``; None if nothing can be told before Spark sees it."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return None
    if not isinstance(value, str):
        return (
            "must be SQL, a function that takes a DataFrame and returns one, or its name as 'package.module:function', "
            f"not a {type(value).__name__}"
        )
    if _REFERENCE.fullmatch(value.strip()) or has_template(value):
        return None
    words = _COMMENTS.sub(" ", value).replace("(", " ").split()
    if words and words[0].lower() in _BEGINNINGS:
        return None
    return (
        f"is to be one query, such as {_EXAMPLE!r}, or the name of a function, 'package.module:function'; it begins "
        f"with {words[0][:20]!r}"
        if words
        else f"is empty: leave it out, or give a query, such as {_EXAMPLE!r}"
    )
