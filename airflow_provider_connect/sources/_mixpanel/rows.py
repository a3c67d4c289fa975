"""Converts records to rows with keys. Drops duplicates and rows of other days."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import keys_as_hex
from airflow_provider_connect.polling.late import count_late
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.columns import Regime, schema
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.promoted_values import PromotedColumns
from airflow_provider_connect.sources._mixpanel.records import RecordColumns
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.values.json.typed import fits_bigint
from airflow_provider_connect.values.walltime import instants
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

MIN_SECONDS = -62_135_596_800 + 2 * 86_400
MAX_SECONDS = 253_402_300_799 - 2 * 86_400
"""Readable times: years 1 to 9999 without two days at each end."""

_SEPARATOR = b"\xff"
_FALLBACK_MARK = b"\xfe"
_MILLION = 1_000_000


class EventRowMaker:
    """Converter of records to one day's rows.

    :param keys: record keys of earlier rows, to drop duplicates.
    :param drops_other_days: the answer covers more than the day.
    """

    def __init__(
        self,
        options: MixpanelOptions,
        day: Day,
        regime: Regime,
        *,
        field_names: tuple[str, ...],
        keys: KeySet,
        tally: Tally,
        drops_other_days: bool = False,
    ) -> None:
        self._options = options
        self._day = day
        self._regime = regime
        self._drops_other_days = drops_other_days
        self._index = {name: index for index, name in enumerate(field_names)}
        self._keys = keys
        self._tally = tally
        self._schema = schema(options.promoted)
        self._promoted = PromotedColumns(options.promoted, options.null_texts, self._count)

    def make_batch(self, records: RecordColumns) -> tuple[pa.RecordBatch, list[Reject]]:
        import numpy as np
        import pyarrow as pa

        value = {name: records.field_values[index] for name, index in self._index.items()}
        identifiers = {name: self._identifier(name, records, value) for name in ("distinct_id", "$insert_id")}
        too_deep = sorted({row for _, rows in identifiers.values() for row in rows})
        if too_deep:
            return self._batch_without(too_deep, records)
        seconds, micros = self._times(value["time"])
        columns = self._time_columns(micros)
        columns["event"] = records.events
        columns["distinct_id"] = identifiers["distinct_id"][0]
        columns["insert_id"] = identifiers["$insert_id"][0]
        columns["processing_time"] = self._processing_time(value["mp_processing_time_ms"])
        key_bytes, is_vendor = _make_keys(records, columns["distinct_id"], columns["insert_id"], seconds)
        columns["record_key"] = keys_as_hex(key_bytes)
        columns["key_origin"] = pa.array(["fallback", "vendor"]).take(pa.array(is_vendor.astype(np.int8)))
        columns |= self._promoted.build(value, records)
        self._count("fallback_keys", len(records) - int(is_vendor.sum()))
        self._tally.rows += len(records)
        keep, rejects = self._rows_to_keep(records, columns["time"])
        keep = self._drop_duplicates(key_bytes, keep)
        if not keep.all():
            columns = {name: column.filter(pa.array(keep)) for name, column in columns.items()}
        columns["properties"] = records.properties_of_rows(np.flatnonzero(keep))
        self._widen_span(columns["time"])
        count_late(self._tally, self._day, columns["processing_time"])
        return pa.RecordBatch.from_arrays([columns[field.name] for field in self._schema], schema=self._schema), rejects

    def rows_by_day(self, records: RecordColumns) -> tuple[list[tuple[Day, pa.RecordBatch]], list[Reject]]:
        """Return the rows with their day, and the rejects."""
        batch, rejects = self.make_batch(records)
        return [(self._day, batch)] if batch.num_rows else [], rejects

    def _batch_without(self, rows: list[int], records: RecordColumns) -> tuple[pa.RecordBatch, list[Reject]]:
        import pyarrow as pa

        reason = "it is nested too deep to read the digits of an identifier"
        rejects = [Reject(int(records.positions[row]), reason, _encode_line(records, row)) for row in rows]
        other_rows = sorted(set(range(len(records))) - set(rows))
        if not other_rows:
            return pa.RecordBatch.from_pylist([], schema=self._schema), rejects
        batch, other_rejects = self.make_batch(records.select_rows(other_rows))
        return batch, sorted([*rejects, *other_rejects], key=lambda reject: reject.position)

    def _count(self, name: str, number: int) -> None:
        if number:
            self._tally.counts[name] += number

    def _times(self, values: list[Any]) -> tuple[pa.Array, pa.Array]:
        seconds, micros = parse_times(values)
        self._count("time_unreadable", micros.null_count)
        return seconds, micros

    def _time_columns(self, micros: pa.Array) -> dict[str, pa.Array]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._regime == "utc":
            return {
                "time": micros.cast(pa.timestamp("us", tz="UTC")),
                "time_local": pa.nulls(len(micros), pa.timestamp("us")),
            }
        is_readable = micros.is_valid().to_numpy(zero_copy_only=False)
        wall_micros = pc.fill_null(micros, 0).to_numpy()
        seconds, microseconds = np.divmod(wall_micros, _MILLION)
        utc_times = instants(seconds, self._options.zone)
        self._count("ambiguous_time", int((utc_times.ambiguous & is_readable).sum()))
        self._count("nonexistent_time", int((utc_times.nonexistent & is_readable).sum()))
        utc = pa.array(utc_times.seconds * _MILLION + microseconds, pa.int64(), mask=~is_readable)
        return {"time": utc.cast(pa.timestamp("us", tz="UTC")), "time_local": micros.cast(pa.timestamp("us"))}

    def _identifier(
        self, name: str, records: RecordColumns, value: dict[str, list[Any]]
    ) -> tuple[pa.StringArray, list[int]]:
        import pyarrow as pa

        try:
            return pa.array(value[name], pa.string()), []
        except pa.ArrowException:
            texts: list[str | None] = []
            too_deep = []
            for row, identifier in enumerate(value[name]):
                try:
                    is_text = identifier is None or isinstance(identifier, str)
                    texts.append(
                        identifier if is_text else _number_text(identifier, records.properties_of_row(row), name)
                    )
                except RecursionError:
                    texts.append(None)
                    too_deep.append(row)
            return pa.array(texts, pa.string()), too_deep

    def _processing_time(self, values: list[Any]) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        millis = _as_integers(values)
        if millis is None:
            millis = pa.array(
                [milliseconds if fits_bigint(milliseconds) else None for milliseconds in values], pa.int64()
            )
        is_in_calendar = _is_within(millis, MIN_SECONDS * 1000, MAX_SECONDS * 1000)
        read_millis = pc.if_else(is_in_calendar, millis, None)
        self._count("processing_time_unreadable", read_millis.null_count - values.count(None))
        return pc.multiply(read_millis, 1000).cast(pa.timestamp("us", tz="UTC"))

    def _rows_to_keep(self, records: RecordColumns, time: pa.Array) -> tuple[Any, list[Reject]]:
        import numpy as np
        import pyarrow.compute as pc

        day = self._day
        is_inside = _is_within(time, day.start, day.end - dt.timedelta(microseconds=1))
        is_inside = pc.fill_null(is_inside, fill_value=False).to_numpy(zero_copy_only=False)
        is_readable = time.is_valid().to_numpy(zero_copy_only=False)
        rows_outside = int((is_readable & ~is_inside).sum())
        if not self._drops_other_days:
            self._count("outside_day", rows_outside)
            return np.ones(len(time), dtype=bool), []
        self._count("other_day", rows_outside)
        return is_inside, reject_undated(records, np.flatnonzero(~is_readable).tolist())

    def _drop_duplicates(self, key_bytes: bytes, keep: Any) -> Any:
        if self._options.deduplicate == "off":
            return keep
        is_first = self._keys.add_keys(key_bytes, keep)
        self._count("duplicates", int((~is_first).sum()))
        keep = keep.copy()
        keep[keep] = is_first
        return keep

    def _widen_span(self, time: pa.Array) -> None:
        import pyarrow.compute as pc

        span = pc.min_max(time).as_py()
        if span["min"] is not None:
            self._tally.widen_span(span["min"], span["max"])


def parse_times(values: list[Any]) -> tuple[pa.Array, pa.Array]:
    """Return times as whole seconds, for the key, and as microseconds. Null if unreadable."""
    import pyarrow as pa
    import pyarrow.compute as pc

    integers = _as_integers(values)
    if integers is not None:
        seconds = pc.if_else(_is_within(integers, MIN_SECONDS, MAX_SECONDS), integers, None)
        return seconds, pc.multiply(seconds, _MILLION)
    parsed = [_seconds(value) for value in values]
    seconds = pa.array([second_count if isinstance(second_count, int) else None for second_count in parsed], pa.int64())
    return seconds, pa.array(
        [None if second_count is None else round(second_count * _MILLION) for second_count in parsed], pa.int64()
    )


def reject_undated(records: RecordColumns, rows: list[int]) -> list[Reject]:
    """Return rejects for rows without a usable time."""
    reason = "it has no usable time, so its day is unknown"
    return [Reject(int(records.positions[row]), reason, _encode_line(records, row)) for row in rows]


def _as_integers(values: list[Any]) -> pa.Array | None:
    """Return an integer array, or None. pyarrow would silently truncate floats."""
    import pyarrow as pa

    if set(map(type, values)) <= {int, type(None)}:
        with suppress(pa.ArrowException, OverflowError):
            return pa.array(values, pa.int64())
    return None


def _seconds(value: Any) -> int | float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not MIN_SECONDS <= value <= MAX_SECONDS:  # also false for NaN
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number_text(value: Any, properties: str, name: str) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(json.loads(properties, parse_int=str, parse_float=str)[name])


def _is_within(values: pa.Array, low: Any, high: Any) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.and_(
        pc.greater_equal(values, pa.scalar(low, values.type)), pc.less_equal(values, pa.scalar(high, values.type))
    )


def _make_keys(
    records: RecordColumns, distinct_id: pa.Array, insert_id: pa.Array, seconds: pa.Array
) -> tuple[bytes, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from xxhash import xxh3_128_digest

    binary = pa.binary()
    nonempty_id = pc.if_else(pc.equal(insert_id, ""), None, insert_id)
    fields = [records.events, distinct_id, seconds.cast(pa.string()), nonempty_id]
    key_texts = pc.binary_join_element_wise(*(field.cast(binary) for field in fields), _SEPARATOR)
    is_vendor = key_texts.is_valid().to_numpy(zero_copy_only=False)
    texts = key_texts.to_pylist()
    for row in (~is_vendor).nonzero()[0].tolist():
        event, properties = records.events[row].as_py(), records.properties_of_row(row)
        texts[row] = _FALLBACK_MARK + event.encode() + _SEPARATOR + properties.encode()
    return b"".join(map(xxh3_128_digest, texts)), is_vendor


def _encode_line(records: RecordColumns, row: int) -> bytes:
    event = json.dumps(records.events[row].as_py(), ensure_ascii=False)
    return f'{{"event":{event},"properties":{records.properties_of_row(row)}}}'.encode()
