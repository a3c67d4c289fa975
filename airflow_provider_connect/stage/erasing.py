"""Whose rows a stream no longer holds: the list that an erase leaves in the sink's ledger, and what keeps to it.

The list holds keyed digests, not ids. Who can read the ledger can test an id against it, but not read ids from it.

An erase writes the list first, and then takes the rows out of every day that has some: a new generation of that day. A
publish is committed only under the list that its attempt saw before it polled, and a poll leaves out whom the list
names. So wherever an erase falls between another attempt's poll and its commit, that attempt polls again, and nobody
comes back: not with a retry from the stage, not with a reload, not with the lookback.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ERASED = 50_000
"""Every task that polls gets the list: so many digests take 2 MB."""

_DIGEST_BYTES = 16


def erase_run(version: int) -> str:
    """Return what the ledger names as the run of an erase's publishes."""
    return f"erase/{version}"


def is_erase_run(run: str | None) -> bool:
    """Tell whether the ledger names an erase: a task's run has three parts."""
    return re.fullmatch(r"erase/[0-9]+", run or "") is not None


class EraseList(Wire):
    """Who is erased from a stream.

    :param version: 0 as long as nobody is, one more with every erase.
    :param column: the rows' column that says whose they are.
    :param salt: the key of the digests, in hex.
    :param digests: in hex, sorted: BLAKE2b of the column's values as text.
    """

    version: int = 0
    column: str = ""
    salt: str = ""
    digests: tuple[str, ...] = ()

    def with_values(self, column: str, values: Iterable[str]) -> EraseList:
        """Return the list with more values on it; itself if it has them all.

        :raises ConfigError: it is of another column, or becomes too long.
        """
        if self.version and self.column != column:
            raise ConfigError(
                f"rows of this stream are erased by column {self.column!r}, and a stream has one erase list: erase by "
                f"that column, not by {column!r}"
            )
        salt = self.salt or secrets.token_hex(_DIGEST_BYTES)
        digests = {*self.digests, *(_digest(salt, value) for value in values)}
        if len(digests) > MAX_ERASED:
            raise ConfigError(
                f"the erase list would have {len(digests):,} entries, and {MAX_ERASED:,} is the most: have the source "
                "delete these people, and load the days again into a new target"
            )
        if len(digests) == len(self.digests):
            return self
        return EraseList(version=self.version + 1, column=column, salt=salt, digests=tuple(sorted(digests)))

    def problem(self, columns: Sequence[str]) -> str | None:
        """Say why rows with these columns cannot be loaded; None if they can.

        :param columns: the source's names.
        """
        if not self.version or self.column in columns:
            return None
        return (
            f"rows are erased by column {self.column!r}, which the source's rows do not have "
            f"({nearest(self.column, columns)}): without it erased rows would come back. Let the source bring that "
            "column again; or, if nobody need be kept out any more, empty the stream's erase list"
        )

    def names(self, values: Iterable[str | None]) -> list[bool]:
        """Tell for each value whether it is on the list."""
        known = set(self.digests)
        return [value is not None and _digest(self.salt, value) in known for value in values]


class Eraser:
    """Takes rows out of batches.

    :raises ConfigError: the rows do not say whose they are.
    """

    def __init__(self, erased: EraseList, schema: pa.Schema) -> None:
        self._erased = erased
        self._column = schema.get_field_index(erased.column) if erased.version else -1
        _require_known(erased, schema.names)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without the rows of the erased; itself if it has none."""
        if self._column < 0 or not batch.num_rows:
            return batch
        import pyarrow.compute as pc

        gone = self.gone(batch.column(self._column))
        return batch.filter(pc.invert(gone)) if gone.true_count else batch

    def gone(self, values: pa.Array) -> pa.BooleanArray:
        """Tell for each value of the column whether it is on the list."""
        import pyarrow as pa
        import pyarrow.compute as pc

        coded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
        named = pa.array(self._erased.names(coded.dictionary.cast(pa.string()).to_pylist()), pa.bool_())
        return pc.fill_null(named.take(coded.indices), False)  # noqa: FBT003  # pyarrow's own positional


def erasers(erased: EraseList, read: pa.Schema, shaped: pa.Schema) -> tuple[Eraser, Eraser]:
    """Return what takes rows out before their shapes, and what does so behind them.

    Both look, wherever the column is: the list may name people as the source does, from before a shape masked or
    dropped the column, or as the target does.

    :raises ConfigError: the rows say nowhere whose they are.
    """
    if read is shaped:
        return Eraser(EraseList(), read), Eraser(erased, read)
    _require_known(erased, [*read.names, *shaped.names])
    before, after = (erased if erased.column in schema.names else EraseList() for schema in (read, shaped))
    return Eraser(before, read), Eraser(after, shaped)


def _require_known(erased: EraseList, columns: Sequence[str]) -> None:
    if (problem := erased.problem(columns)) is not None:
        raise ConfigError(f"{problem}, as docs/usage.md says under 'Deleting people'")


@dataclass(frozen=True)
class Erasure:
    """What an erase would do, or has done.

    :param rows: how many rows it takes out, by day; days without any are not named.
    :param version: of the erase list; None if nothing was changed.
    :param not_searched: which records of the stream nobody looked into, and where; None if there are none.
    """

    target: str
    column: str
    values: int
    rows: Mapping[dt.date, int] = field(default_factory=dict)
    version: int | None = None
    not_searched: str | None = None

    def __str__(self) -> str:
        """Say it in words, without a value."""
        if self.not_searched is None:
            return self._done
        return f"{self._done} Not searched: {self.not_searched}; delete by hand what is theirs."

    @property
    def _done(self) -> str:
        total = f"{sum(self.rows.values()):,} rows of {len(self.rows):,} days"
        of_whom = f"with {self.values:,} values of {self.column!r}"
        if self.version is None:
            return f"{self.target} has {total} {of_whom}; nothing was changed."
        return (
            f"{total} {of_whom} are erased from {self.target}, and later loads leave them out (version {self.version} "
            "of its erase list)."
        )


def _digest(salt: str, value: str) -> str:
    text = value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=bytes.fromhex(salt), digest_size=_DIGEST_BYTES).hexdigest()
