"""Assigns records to days, for an export of several days."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.records import RecordColumns
from airflow_provider_connect.sources._mixpanel.rows import EventRowMaker, parse_times, reject_undated
from airflow_provider_connect.stage.rejects import Reject
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_NO_DAY = -1


def row_maker_for(
    partition: InputPartition, options: MixpanelOptions, field_names: tuple[str, ...], keys: KeySet, tally: Tally
) -> EventRowMaker | DayCutter:
    """Return the converter of a request's records to rows."""
    regime, edge_days = partition.params["timestamps"], _days_at_wider_edges(partition)
    makers = [
        EventRowMaker(
            options,
            day,
            regime,
            field_names=field_names,
            keys=keys,
            tally=tally.for_day(day),
            drops_other_days=day in edge_days,
        )
        for day in partition.days
    ]
    if len(makers) == 1:
        return makers[0]
    return DayCutter(partition, makers, field_names.index("time"), tally.for_day(partition.days[0]))


class DayCutter:
    """Converter of records, in any order, into the days of their times, in UTC or on the project's clock.

    A record without a time is rejected.
    """

    def __init__(
        self, partition: InputPartition, makers: list[EventRowMaker], time_index: int, stray_tally: Tally
    ) -> None:
        import numpy as np

        self._days = partition.days
        self._makers = makers
        self._time_index = time_index
        self._stray_tally = stray_tally
        is_local = partition.params["timestamps"] == "project_local"
        firsts = [_midnight(day.date) if is_local else day.start for day in partition.days]
        self._starts = np.array([(first - _EPOCH) // _MICROSECOND for first in firsts], dtype=np.int64)

    def rows_by_day(self, records: RecordColumns) -> tuple[list[tuple[Day, pa.RecordBatch]], list[Reject]]:
        import numpy as np

        batches: list[tuple[Day, pa.RecordBatch]] = []
        rejects: list[Reject] = []
        day_numbers = self._day_numbers(records)
        for number in np.unique(day_numbers).tolist():
            rows = np.flatnonzero(day_numbers == number).tolist()
            day_records = records if len(rows) == len(records) else records.select_rows(rows)
            if number == _NO_DAY:
                rejects += self._reject_without_day(day_records)
                continue
            day_batches, day_rejects = self._makers[number].rows_by_day(day_records)
            batches += day_batches
            rejects += day_rejects
        return batches, sorted(rejects, key=lambda reject: reject.position)

    def _day_numbers(self, records: RecordColumns) -> Any:
        import numpy as np
        import pyarrow.compute as pc

        _, micros = parse_times(records.field_values[self._time_index])
        day_numbers = np.searchsorted(self._starts, pc.fill_null(micros, 0).to_numpy(), side="right") - 1
        day_numbers = day_numbers.clip(0, len(self._days) - 1)
        day_numbers[micros.is_null().to_numpy(zero_copy_only=False)] = _NO_DAY
        return day_numbers

    def _reject_without_day(self, records: RecordColumns) -> list[Reject]:
        self._stray_tally.rows += len(records)
        self._stray_tally.counts["time_unreadable"] += len(records)
        return reject_undated(records, list(range(len(records))))


def _days_at_wider_edges(partition: InputPartition) -> set[Day]:
    first, last = (dt.date.fromisoformat(partition.params[name]) for name in ("from_date", "to_date"))
    edge_days: set[Day] = set()
    if partition.params["timestamps"] == "utc":
        edge_days |= {partition.days[0]} if partition.days[0].start != _midnight(first) else set()
        edge_days |= {partition.days[-1]} if partition.days[-1].end != _midnight(last + dt.timedelta(days=1)) else set()
    return edge_days


def _midnight(date: dt.date) -> dt.datetime:
    return dt.datetime.combine(date, dt.time(), tzinfo=dt.UTC)
