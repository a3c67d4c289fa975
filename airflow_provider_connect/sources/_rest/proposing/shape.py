"""What is known of an API before anything is declared: its parameters, and what an answer looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parameter:
    """One parameter of the query.

    :param type: as in JSON Schema: string, integer, number or boolean.
    :param format: as there, such as date or date-time; "" if there is none.
    :param most: the largest value that is allowed; None if nobody says.
    """

    name: str
    type: str = "string"
    format: str = ""
    most: int | None = None


@dataclass(frozen=True)
class Shape:
    """An answer, without any value of it.

    :param at: where the list of records stands, as a place.
    :param columns: the columns that scalar fields of a record could become: the field, and the column's type.
    :param beside: scalar fields of the answer beside that list: their places, and ``string``, ``link``, ``integer``,
        ``boolean``, ``null`` or ``number``.
    :param has_next_link: whether a header Link named a next page.
    """

    at: str
    columns: Mapping[str, str]
    beside: Mapping[str, str] = field(default_factory=dict)
    has_next_link: bool = False


def place(*names: str) -> str:
    """Return a path of names as a place: one name as it is, more as a JSON Pointer."""
    if len(names) == 1 and names[0] and not names[0].startswith("/"):
        return names[0]
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)
