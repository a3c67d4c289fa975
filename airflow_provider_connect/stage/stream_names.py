"""Streams' names in a sink's target: ``{schema}`` and ``{table}`` in ``/data/lake/{schema}/{table}``.

With a source of many streams each of them gets its own plain target. With any other source such a target has a column
in its name (:mod:`.tables`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
TABLE = "table"
_NAMES = frozenset({"schema", TABLE})


def names_streams(target: str) -> bool:
    """Return True if all placeholders of a target may be streams' names, and ``{table}`` is one of them."""
    placeholders = set(_PLACEHOLDER.findall(target))
    return TABLE in placeholders and placeholders <= _NAMES


def with_stream_names(target: str, names: Mapping[str, str]) -> str:
    """Return the target with a stream's names in place of their placeholders.

    :param names: ``schema`` and ``table``.
    """
    return _PLACEHOLDER.sub(lambda match: names.get(match[1], match[0]), target)
