"""Erase lists: people whose rows a target must not hold, kept in the sink's ledger.

A list holds keyed digests, for every stream of the target.

A commit is refused if the list changed after the attempt's poll began.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, refuse_text
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ERASED = 50_000
"""The most ids of a list, which then takes 2 MB."""

_DIGEST_BYTES = 16
_INTEGER = re.compile(r"-?[1-9][0-9]*|0")

PersonId = str | int | Decimal | UUID
"""Id of a person: a value of the column, or its text."""
ShapingDigest = Callable[[str, str], str]
"""Function of column and salt. Returns the digest of the shapes that make the column, or "" without any."""


def no_shaping(column: str, context: str) -> str:
    """Return "": no shape makes the column."""
    return ""


def erase_run(version: int) -> str:
    """Return an erase's value of the ledger's column ``run``."""
    return f"erase/{version}"


def is_erase_run(run: str | None) -> bool:
    """Return whether a value of the ledger's column ``run`` names an erase."""
    return re.fullmatch(r"erase/[0-9]+", run or "") is not None


def id_texts(values: Iterable[PersonId]) -> tuple[str, ...]:
    """Return ids as texts without duplicates. 17, ``Decimal("17")`` and "17" have the same text.

    :raises ConfigError: a single text, or an empty or unsuitable id.
    """
    refuse_text("values", values)
    texts: dict[str, None] = {}
    for position, value in enumerate(values):
        text = _text_of(value)
        if not text:
            kind = "an empty text" if isinstance(value, str) else f"a {type(value).__name__}"
            raise ConfigError(
                f"values[{position}] is {kind}. Give ids as texts, integers, decimals without a fraction or UUIDs"
            )
        texts[text] = None
    if not texts:
        raise ConfigError("values: give at least one id")
    return tuple(texts)


def _text_of(value: object) -> str | None:
    if isinstance(value, (str, UUID)) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return str(int(value))
    return None


def id_type_problem(kind: pa.DataType) -> str | None:
    """Return why a column's type cannot hold ids. None for texts, UUIDs, integers and decimals of scale 0."""
    from airflow_provider_connect.values.arrow import plain_type, type_group  # noqa: PLC0415  # not for the contracts

    shape, plain = type_group(kind), plain_type(kind)
    if shape in ("text", "integer") or (shape == "decimal" and plain.scale == 0):
        return None
    return f"is {kind}, not a text, an integer or a decimal of scale 0"


def require_integers(values: Iterable[str], column: str, kind: str) -> None:
    """Refuse ids for an integer column that are not integers."""
    bad_values = sum(_INTEGER.fullmatch(value) is None for value in values)
    if bad_values:
        raise ConfigError(
            f"column {column!r} is {kind}, and {bad_values:,} of the values are not integers in its form, such as 17"
        )


class EraseList(Wire):
    """The people who are erased from a target.

    :param version: number of erases that extended the list.
    :param salt: key of the digests, in hex.
    :param digests: BLAKE2b of the ids as text, in hex, sorted.
    :param shaping: digest of the shapes that made the ids, with their keys. None in a list from an earlier version of
        this package.
    :param others: older lists of the same target.
    """

    version: int = 0
    column: str = ""
    salt: str = ""
    digests: tuple[str, ...] = ()
    shaping: str | None = None
    others: tuple[EraseList, ...] = ()

    @property
    def parts(self) -> tuple[EraseList, ...]:
        """The list and its ``others``, or () if no one is erased."""
        return (self, *self.others) if self.version else ()

    @property
    def without_others(self) -> EraseList:
        """A copy without ``others``."""
        return self.model_copy(update={"others": ()})

    def with_values(self, column: str, values: Iterable[str], shaping: ShapingDigest = no_shaping) -> EraseList:
        """Return the list with more ids, or itself if it has them all.

        :param shaping: of the current shapes.
        :raises ConfigError: another column or shapes, or too many ids.
        """
        if self.version and self.column != column:
            raise ConfigError(
                f"rows of this target are erased by column {self.column!r}, and a target has one erase list. Erase by "
                f"that column, not by {column!r}"
            )
        if (problem := self.shape_problem(shaping)) is not None:
            raise ConfigError(problem)
        refuse_text("values", values)
        texts = set(values)
        salt, old_digests = self.salt or secrets.token_hex(_DIGEST_BYTES), self.digests
        new_shaping, other_lists = shaping(column, salt), self.others
        if self.version and new_shaping != (self.shaping or ""):
            # The list has the people's ids from the source. The target's rows now have other ids for them.
            other_lists, old_digests = (self.without_others, *self.others), ()
            salt = secrets.token_hex(_DIGEST_BYTES)
            new_shaping = shaping(column, salt)
        digests = {*old_digests, *(_digest(salt, value) for value in texts)}
        if (total := len(digests) + sum(len(part.digests) for part in other_lists)) > MAX_ERASED:
            raise ConfigError(
                f"the erase list would have {total:,} entries, and {MAX_ERASED:,} is the most. Let the source "
                "delete these people, and load the days again into a new target"
            )
        if len(digests) == len(old_digests):
            return self
        keeps_unknown_shaping = self.version > 0 and salt == self.salt and self.shaping is None
        return EraseList(
            version=self.version + 1,
            column=column,
            salt=salt,
            digests=tuple(sorted(digests)),
            shaping=None if keeps_unknown_shaping else new_shaping,
            others=other_lists,
        )

    @classmethod
    def join(cls, lists: Sequence[EraseList], version: int) -> EraseList:
        """Join lists of one target. Later ids go to the last list."""
        parts = [part.without_others for erase_list in lists for part in reversed(erase_list.parts)]
        if not parts:
            return cls()
        *others, newest = parts
        return newest.model_copy(update={"version": version, "others": tuple(reversed(others))})

    def for_columns(self, columns: Collection[str]) -> EraseList:
        """Return only the ids of these columns."""
        parts = [part for part in self.parts if part.column in columns]
        return EraseList.join([part.without_others for part in reversed(parts)], self.version)

    def column_problem(self, columns: Collection[str]) -> str | None:
        """Return why rows with these columns cannot be loaded, or None."""
        column = next((part.column for part in self.parts if part.column not in columns), None)
        if column is None:
            return None
        return (
            f"rows are erased by column {column!r}, which the source's rows do not have "
            f"({suggest_nearest(column, columns)}). Without it, erased rows would come back. Let the source return "
            "that column again. If no person must stay erased, empty the erase list"
        )

    def shape_problem(self, shaping: ShapingDigest) -> str | None:
        """Return why rows with these shapes and mask keys cannot be loaded, or None."""
        for part in self.parts:
            if part.shaping and shaping(part.column, part.salt) != part.shaping:
                return (
                    f"the erase list holds column {part.column!r} as the task's earlier shapes made it. The task "
                    "now has other shapes, or another mask key, so erased rows would come back. Give the task its "
                    "earlier shapes and key, or load into a new target. If no person must stay erased, empty the "
                    "erase list"
                )
        return None

    def require_same_shapes(self, shaping: ShapingDigest, target: str) -> EraseList:
        """Return the list itself.

        :raises ConfigError: other shapes or mask keys made the ids.
        """
        if (problem := self.shape_problem(shaping)) is not None:
            raise ConfigError(f"{target}: {problem}, see 'Deleting people' in 'airflow connect docs usage'")
        return self

    def matches(self, values: Iterable[str | None]) -> list[bool]:
        """Return for each value of the column whether it is listed."""
        digest_sets = [(part.salt, set(part.digests)) for part in self.parts if part.column == self.column]
        return [
            value is not None and any(_digest(salt, value) in digests for salt, digests in digest_sets)
            for value in values
        ]


class Eraser:
    """Remover of erased people's rows from batches.

    :raises ConfigError: no or an unsuitable column.
    """

    def __init__(self, erase_list: EraseList, schema: pa.Schema) -> None:
        _require_column(erase_list, schema.names)
        columns = {part.column for part in erase_list.parts}
        for name in columns:
            if (problem := id_type_problem(schema.field(name).type)) is not None:
                raise ConfigError(
                    f"rows are erased by column {name!r}, which {problem}, so its values cannot be compared with the "
                    "erase list. Give it its earlier type"
                )
        self._lists = [(schema.get_field_index(name), erase_list.for_columns([name])) for name in sorted(columns)]

    def remove_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without the rows of erased people."""
        if not self._lists or not batch.num_rows:
            return batch
        import pyarrow.compute as pc

        mask = self.erased_mask(batch)
        return batch.filter(pc.invert(mask)) if mask.true_count else batch

    def erased_mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it belongs to an erased person."""
        import pyarrow as pa
        import pyarrow.compute as pc

        mask = pa.repeat(pa.scalar(False), batch.num_rows)  # noqa: FBT003  # pyarrow's own positional
        for index, erase_list in self._lists:
            mask = pc.or_(mask, _matching_rows(erase_list, batch.column(index)))
        return mask


def _matching_rows(erase_list: EraseList, values: pa.Array) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    coded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    matches = pa.array(erase_list.matches(coded.dictionary.cast(pa.string()).to_pylist()), pa.bool_())
    return pc.fill_null(matches.take(coded.indices), False)  # noqa: FBT003  # pyarrow's own positional


def make_erasers(erase_list: EraseList, polled_schema: pa.Schema, shaped_schema: pa.Schema) -> tuple[Eraser, Eraser]:
    """Return an eraser for polled rows before their shapes, and one for shaped rows.

    Ids that shapes made are compared after the shapes, others on both sides.

    :raises ConfigError: neither side has the column.
    """
    if polled_schema is shaped_schema:
        return Eraser(EraseList(), polled_schema), Eraser(erase_list, polled_schema)
    for part in erase_list.parts:
        names = shaped_schema.names if part.shaping else [*polled_schema.names, *shaped_schema.names]
        _require_column(part.without_others, names)
    unshaped_parts = [part.without_others for part in erase_list.parts if not part.shaping]
    raw_list = EraseList.join(unshaped_parts, erase_list.version)
    return Eraser(raw_list.for_columns(polled_schema.names), polled_schema), Eraser(
        erase_list.for_columns(shaped_schema.names), shaped_schema
    )


def _require_column(erase_list: EraseList, columns: Sequence[str]) -> None:
    if (problem := erase_list.column_problem(columns)) is not None:
        raise ConfigError(f"{problem}, see 'Deleting people' in 'airflow connect docs usage'")


@dataclass(frozen=True)
class Erasure:
    """Result of a count or an erase.

    :param rows: counted or deleted rows by day.
    :param copies: places with such rows, with remedies.
    """

    target: str
    column: str
    values: int
    rows: Mapping[dt.date, int] = field(default_factory=dict)
    version: int | None = None
    copies: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the result as text, without ids."""
        if not self.copies:
            return self._summary
        return "\n- ".join([f"{self._summary} Not searched, and may still hold such rows:", *self.copies])

    @property
    def _summary(self) -> str:
        total = f"{sum(self.rows.values()):,} rows of {len(self.rows):,} days"
        condition = f"with {self.values:,} values of {self.column!r}"
        if self.version is None:
            return f"{self.target} has {total} {condition}. Nothing was changed."
        return (
            f"{total} {condition} are erased from {self.target}, and later loads leave them out (version "
            f"{self.version} of its erase list)."
        )


def _digest(salt: str, value: str) -> str:
    text = value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, key=bytes.fromhex(salt), digest_size=_DIGEST_BYTES).hexdigest()
