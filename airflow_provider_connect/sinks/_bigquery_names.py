"""Names that BigQuery accepts, made from any text: columns, ends of table names, labels.

A column keeps its name if that is legal and free; else it is ``<legal part>_x<10 hex digits of its hash>``, which
depends on nothing but the name itself. See "Names of columns" in ``docs/bigquery.md``; the vendor's rules are those of
https://cloud.google.com/bigquery/docs/schemas#column_names and …/labels-intro (2026-11).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence

from airflow_provider_connect.errors import ConfigError, DataError

DAY = "day"
POSITION = "connect_position"
OWN_COLUMNS = frozenset({DAY, POSITION})
"""Columns the sink adds itself; a source's column of such a name gets another one."""

MAX_NAME = 300
MAX_LABEL = 63
MAX_LABELS = 64
_MAX_SUFFIX = 200  # of the 1,024 bytes of a table's name
_HASH_DIGITS = 10
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
_HASHED = re.compile(rf".*_x[0-9a-f]{{{_HASH_DIGITS}}}", re.IGNORECASE)
_RESERVED = (
    "_table_",
    "_file_",
    "_partition",
    "_row_timestamp",
    "__root__",
    "_colidentifier",
    "_change_sequence_number",
    "_change_timestamp",
    "_change_type",
)


def legal_names(
    names: Sequence[str], taken: Collection[str] = (), reserved: Collection[str] = OWN_COLUMNS
) -> dict[str, str]:
    """Return each name's column: legal, and unique where BigQuery tells no case apart.

    Neither the order of ``names`` nor a name that must change itself decides about another. Names that differ in case
    alone: the one the table has keeps its column; if it has none, the first in code point order (capitals come first).

    :param taken: columns the table has already, in their own case: a name that has its column keeps it.
    :param reserved: lower-case names that are not free; nested fields have none.
    :raises DataError: a name stands twice, or two hashes are equal.
    """
    if repeated := sorted({repr(name) for name in names if names.count(name) > 1}):
        raise DataError(f"columns of the same name: {', '.join(repeated)}: rename them in the source")
    owners = {name.lower(): name for name in taken}
    for name in sorted(names):
        # One that got a hash while its sibling was here leaves the plain name to others, also when it comes alone.
        if _may_stay(name, reserved) and _hashed(name).lower() not in owners:
            owners.setdefault(name.lower(), name)
    result = {
        name: name if _may_stay(name, reserved) and owners.get(name.lower()) == name else _hashed(name)
        for name in names
    }
    if len({column.lower() for column in result.values()}) < len(result):
        raise DataError("two columns have equal hashes, and would become one: rename one of them in the source")
    return result


def _may_stay(name: str, reserved: Collection[str]) -> bool:
    """Tell whether a column may have this name, if no other has it."""
    lower = name.lower()
    return (
        _LEGAL.fullmatch(name) is not None
        and not lower.startswith(_RESERVED)
        and lower not in reserved
        and _HASHED.fullmatch(name) is None  # else a name could be written that is another one's hashed name
    )


def _hashed(name: str) -> str:
    """Return the name that depends on nothing but ``name``."""
    part = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not part or part[0].isdigit():
        part = f"_{part}"
    if part.lower().startswith(_RESERVED):
        part = f"x{part}"
    return f"{part[: MAX_NAME - _HASH_DIGITS - 2]}_x{_digest(name)}"


def legal_table_suffix(text: str) -> str:
    """Return ``text`` as the end of a table's name; different texts have different ends.

    Letters, digits and ``-`` (which becomes ``_``) are all that attempts' names have; any other text gets a hash.
    """
    if re.fullmatch(rf"[A-Za-z0-9-]{{1,{_MAX_SUFFIX}}}", text):
        return text.replace("-", "_")
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', text)[:_MAX_SUFFIX]}_x{_digest(text)}"


def label(text: str) -> str:
    """Return ``text`` as a label's value: at most 63 of ``a-z0-9_-``; a longer one ends in a hash of the whole."""
    legal = re.sub(r"[^a-z0-9_-]", "_", text.lower())
    return legal if len(legal) <= MAX_LABEL else f"{legal[: MAX_LABEL - _HASH_DIGITS - 2]}_x{_digest(text)}"


def labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return labels for a job or a table; keys begin with a letter, two that would become one get hashes.

    :raises ConfigError: more than BigQuery allows.
    """
    if len(texts) > MAX_LABELS:
        raise ConfigError(f"{len(texts)} labels: BigQuery allows {MAX_LABELS} on one resource: leave some out")
    keys = {key: _label_key(key) for key in texts}
    legal = list(keys.values())
    return {
        label(f"{short[: MAX_LABEL - _HASH_DIGITS - 2]}_x{_digest(key)}") if legal.count(short) > 1 else short: label(
            texts[key]
        )
        for key, short in keys.items()
    }


def _label_key(key: str) -> str:
    legal = label(key)
    return legal if legal[:1].isalpha() else label(f"x{legal}")


def _digest(text: str) -> str:
    """Return the hash that tells names apart; not for secrecy."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
