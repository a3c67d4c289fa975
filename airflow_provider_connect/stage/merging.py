"""Options of sinks that merge rows by key, the same in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEY_HELP = "Source columns that identify a row. Only for write_mode='merge'."
NEWEST_BY_HELP = (
    "Source column whose highest value wins among rows with the same key, also across days. "
    "Without it the later day wins, and within a day the later row. For increments by default the column that the "
    "source follows. For write_mode='merge'."
)
DELETE_WHERE_HELP = "Boolean source column. Where it is true, the key is deleted. For write_mode='merge'."
INCREMENTS_NEED_ORDER = (
    "increments need not come in the order of their days, so write_mode='merge' cannot tell which of two rows is "
    "newer. Name the column that decides in newest_by"
)


def merge_problem(write_mode: str, merge_options: Mapping[str, Any]) -> str | None:
    """Return a problem if a merge has no key, or another write mode has options of a merge."""
    if write_mode == "merge":
        return None if merge_options["key"] else "write_mode='merge' needs key=[…], the columns that identify a row"
    names = [name for name, value in merge_options.items() if value]
    return f"{', '.join(names)}: only with write_mode='merge'" if names else None


def order_of_increments(key: tuple[str, ...], columns: tuple[str, ...]) -> str | None:
    """Return the column that decides which of two rows with the same key is newer, or None if it takes several.

    :param key: columns that identify a row.
    :param columns: see :attr:`.Source.order_columns`.
    """
    deciding = [column for column in columns if column not in key]  # others are equal in both rows
    if len(deciding) > 1:
        return None
    return deciding[0] if deciding else next(iter(columns), None)
