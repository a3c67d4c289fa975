"""Makes names that BigQuery accepts: columns, suffixes of table names, job ids, labels.

The vendor's rules: https://cloud.google.com/bigquery/docs/schemas#column_names, …/schemas#flexible-column-names,
…/labels-intro (2026-11).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.aliases import RESERVED
from airflow_provider_connect.values.hashed_names import HASH_SUFFIX_CHARS, has_hash, name_hash, name_with_hash

DAY = "day"
POSITION_COLUMN = "connect_position"
SINK_COLUMNS = frozenset({DAY, POSITION_COLUMN, *RESERVED})
"""Columns that the sink adds, and names in its SQL."""

TABLE_COLUMN = name_with_hash("connect_table", name_hash("connect_table"))
"""Staging column for the name of a row's table."""

MAX_NAME = 300
MAX_LABEL = 63
MAX_LABELS = 64
MAX_JOB_ID = 1000
"""Of 1,024 characters (https://cloud.google.com/bigquery/docs/reference/rest/v2/JobReference), to leave room for a
number.
"""
_MAX_SUFFIX = 200  # of the 1,024 bytes of a table's name
_IN_LABELS = "a-z0-9_-"
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,299}")
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
    names: Sequence[str], existing: Collection[str] = (), reserved: Collection[str] = SINK_COLUMNS
) -> dict[str, str]:
    """Return the legal column name of each source name, unique without regard to case.

    The order of ``names`` does not matter. Of names equal in all but case or encoding, the table's stays, else the
    first in code point order. The others get a hash.

    :param existing: the table's columns, in their own case.
    :raises DataError: a name is repeated, or two hashes are equal.
    """
    if repeated := sorted({repr(name) for name in names if names.count(name) > 1}):
        raise DataError(f"columns of the same name: {', '.join(repeated)}: rename them in the source")
    kept_names = {name for name in names if _is_free(name, reserved) and (name in existing or _is_legal(name))}
    owners = {_fold(name): name for name in existing}
    for name in sorted(kept_names):
        # A name whose hashed column exists keeps that one, even if the plain name is free now.
        if _fold(_hashed(name)) not in owners:
            owners.setdefault(_fold(name), name)
    result = {
        name: name if name in kept_names and (name in existing or owners.get(_fold(name)) == name) else _hashed(name)
        for name in names
    }
    if len({column.lower() for column in result.values()}) < len(result):
        raise DataError("two columns have equal hashes, and would become one: rename one of them in the source")
    return result


def staged_name(name: str) -> str:
    """Return a column's ASCII name in the staging table, which every load method accepts."""
    return name if _LEGAL.fullmatch(name) else _hashed(name)


def _fold(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _is_legal(name: str) -> bool:
    if name.isascii():
        return _LEGAL.fullmatch(name) is not None
    kinds = [unicodedata.category(character)[0] if character != "_" else "L" for character in name]
    return kinds[0] == "L" and {*kinds} <= {*"LMN"} and len(name) <= MAX_NAME and unicodedata.is_normalized("NFC", name)


def _is_free(name: str, reserved: Collection[str]) -> bool:
    lower = name.lower()
    return (
        not lower.startswith(_RESERVED)
        and lower not in reserved
        and not has_hash(name, any_case=True)  # otherwise a source could use another name's hashed name
    )


def _hashed(name: str) -> str:
    part = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not part or part[0].isdigit():
        part = f"_{part}"
    if part.lower().startswith(_RESERVED):
        part = f"x{part}"
    return name_with_hash(part, name_hash(name), max_chars=MAX_NAME - HASH_SUFFIX_CHARS)


def legal_table_suffix(text: str) -> str:
    """Return ``text`` as a unique suffix of a table's name.

    Any other than letters, digits and ``-`` (which becomes ``_``) gives a hash.
    """
    if re.fullmatch(rf"[A-Za-z0-9-]{{1,{_MAX_SUFFIX}}}", text):
        return text.replace("-", "_")
    return name_with_hash(text, name_hash(text), max_chars=_MAX_SUFFIX)


def legal_job_id(text: str) -> str:
    """Return ``text`` as a job's id: ASCII letters, digits, ``_`` and ``-``. Other texts get a hash."""
    if re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_JOB_ID}}}", text) and not has_hash(text, any_case=True):
        return text
    return name_with_hash(text, name_hash(text), legal_chars="A-Za-z0-9_-", max_chars=MAX_JOB_ID - HASH_SUFFIX_CHARS)


def label(text: str) -> str:
    """Return ``text`` as a label's value: ``a-z0-9_-``, at most 63 characters. A longer text is cut and gets a hash."""
    legal = re.sub(rf"[^{_IN_LABELS}]", "_", text.lower())
    return legal if len(legal) <= MAX_LABEL else _marked_label(legal, text)


def distinct_label(text: str) -> str:
    """Return a label's value that no other text has. A changed text gets a hash."""
    legal = label(text)
    return legal if legal == text else _marked_label(legal, text)


def labels(texts: Mapping[str, str]) -> dict[str, str]:
    """Return legal labels for a job or table. Keys that would become equal get hashes.

    :raises ConfigError: more labels than BigQuery allows.
    """
    if len(texts) > MAX_LABELS:
        raise ConfigError(f"{len(texts)} labels: BigQuery allows {MAX_LABELS} on one resource: leave some out")
    keys = {key: _label_key(key) for key in texts}
    legal = list(keys.values())
    return {
        _marked_label(short, key) if legal.count(short) > 1 else short: label(texts[key]) for key, short in keys.items()
    }


def _label_key(key: str) -> str:
    legal = label(key)
    return legal if legal[:1].isalpha() else label(f"x{legal}")


def _marked_label(legal: str, text: str) -> str:
    return name_with_hash(legal, name_hash(text), legal_chars=_IN_LABELS, max_chars=MAX_LABEL - HASH_SUFFIX_CHARS)
