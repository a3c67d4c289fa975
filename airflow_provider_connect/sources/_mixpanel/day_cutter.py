"""Cuts an export into the days it was asked for, by the rule by which the request names them."""

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
    """Return what makes rows of the records of one request.

    :param names: of the records' fields.
    :param keys: of all the request's days: a key has the time in it, so no two days share one.
    """
    regime, covers_more = partition.params["timestamps"], _with_more_than_their_own(partition)
    makers = [
        EventRowMaker(
            options,
            day,
            regime,
            field_names=field_names,
            keys=keys,
            tally=tally.for_day(day),
            drops_other_days=day in covers_more,
        )
        for day in partition.days
    ]
    if len(makers) == 1:
        return makers[0]
    return DayCutter(partition, makers, field_names.index("time"), tally.for_day(partition.days[0]))


class DayCutter:
    """Turns records of several days, in any order, into rows of each day.

    A row belongs to the day that its time names, as the server reads dates: by the project's clock as exported, or by
    UTC. One outside all of them goes to the nearest, whose rules say whether it stays. One without a time is a reject:
    the answer does not say which of its days it was found for.
    """

    def __init__(
        self, partition: InputPartition, makers: list[EventRowMaker], time_index: int, stray_tally: Tally
    ) -> None:
        """Prepare to cut.

        :param makers: one for each day.
        :param time: where the time is among the records' fields.
        :param stray: counts records without a time.
        """
        import numpy as np

        self._days = partition.days
        self._makers = makers
        self._time = time_index
        self._stray = stray_tally
        is_local = partition.params["timestamps"] == "project_local"
        firsts = [_midnight(day.date) if is_local else day.start for day in partition.days]
        self._starts = np.array([(first - _EPOCH) // _MICROSECOND for first in firsts], dtype=np.int64)

    def rows_by_day(self, records: RecordColumns) -> tuple[list[tuple[Day, pa.RecordBatch]], list[Reject]]:
        """Return the rows to keep, by day, and the rejects."""
        import numpy as np

        found: list[tuple[Day, pa.RecordBatch]] = []
        rejects: list[Reject] = []
        at = self._day_numbers(records)
        for number in np.unique(at).tolist():
            rows = np.flatnonzero(at == number).tolist()
            of_day = records if len(rows) == len(records) else records.select_rows(rows)
            if number == _NO_DAY:
                rejects += self._without_day(of_day)
                continue
            placed, more = self._makers[number].placed(of_day)
            found += placed
            rejects += more
        return found, sorted(rejects, key=lambda reject: reject.position)

    def _day_numbers(self, records: RecordColumns) -> Any:
        """Return for each record the number of its day."""
        import numpy as np
        import pyarrow.compute as pc

        _, micros = parse_times(records.field_values[self._time])
        at = np.searchsorted(self._starts, pc.fill_null(micros, 0).to_numpy(), side="right") - 1
        at = at.clip(0, len(self._days) - 1)
        at[micros.is_null().to_numpy(zero_copy_only=False)] = _NO_DAY
        return at

    def _without_day(self, records: RecordColumns) -> list[Reject]:
        self._stray.rows += len(records)
        self._stray.counts["time_unreadable"] += len(records)
        return reject_undated(records, list(range(len(records))))


def _with_more_than_their_own(part: InputPartition) -> set[Day]:
    """Return the days beside which the request covers parts of others, which can only be at its two ends."""
    first, last = (dt.date.fromisoformat(part.params[name]) for name in ("from_date", "to_date"))
    found: set[Day] = set()
    if part.params["timestamps"] == "utc":
        found |= {part.days[0]} if part.days[0].start != _midnight(first) else set()
        found |= {part.days[-1]} if part.days[-1].end != _midnight(last + dt.timedelta(days=1)) else set()
    return found


def _midnight(date: dt.date) -> dt.datetime:
    return dt.datetime.combine(date, dt.time(), tzinfo=dt.UTC)
