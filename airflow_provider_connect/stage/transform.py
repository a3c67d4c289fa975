"""The value of ``transform=``: Spark SQL, or a function from DataFrame to DataFrame."""

from __future__ import annotations

import hashlib
import re

from airflow_provider_connect.config import has_template
from airflow_provider_connect.wire import Wire

POLLED_VIEW = "polled"
"""Name of the view with the day's rows in SQL."""
ROWS_POLLED = "rows_polled"
"""Count of rows before a transform."""
ERASED_FROM_RESULT = "erased_from_result"
"""Count of rows that an erase list removed from a transform's result."""

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_EXAMPLE = "SELECT * FROM polled"
_COMMENTS = re.compile(r"/\*.*?\*/|--[^\n]*(\n|$)", re.DOTALL)
_BEGINNINGS = ("select", "with", "from", "values", "table")


class Transform(Wire):
    """A transform of a staged day before its publish. Exactly one field is set.

    :param sql: one query.
    :param reference: ``package.module:function``.
    """

    sql: str | None = None
    reference: str | None = None

    @property
    def digest(self) -> str:
        """Digest of the SQL or the function's name."""
        return hashlib.sha256(f"{self.reference or ''} {self.sql or ''}".encode()).hexdigest()

    def __str__(self) -> str:
        return "SQL" if self.reference is None else f"{self.reference}()"


def parse_transform(text: str) -> Transform:
    """Parse the text of ``transform=``."""
    return Transform(reference=text) if _REFERENCE.fullmatch(text.strip()) else Transform(sql=text)


def transform_problem(value: object) -> str | None:
    """Return why a value of ``transform=`` is invalid, or None. Does not parse SQL."""
    if value is None:
        return None
    if not isinstance(value, str):
        remedy = (
            ". Put the function into a module that Spark's driver can import, such as a file in py_files=, and name it"
            if callable(value)
            else ""
        )
        return f"must be SQL or the name of a function, 'package.module:function', not a {type(value).__name__}{remedy}"
    if _REFERENCE.fullmatch(value.strip()) or has_template(value):
        return None
    words = _COMMENTS.sub(" ", value).replace("(", " ").split()
    if words and words[0].lower() in _BEGINNINGS:
        return None
    return (
        f"must be one query, such as {_EXAMPLE!r}, or the name of a function, 'package.module:function', but begins "
        f"with {words[0][:20]!r}"
        if words
        else f"is empty. Leave it out, or give a query, such as {_EXAMPLE!r}"
    )
