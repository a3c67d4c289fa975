"""Checks that a listing is sorted newest first, and detects where the day's records end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa


class OrderCheck:
    """The times of one listing's records so far.

    :param column: the column with a record's time or date.
    """

    def __init__(self, column: str, day: Day) -> None:
        self._column = column
        self._day = day
        self.start_listing()

    @classmethod
    def for_records(cls, records: Records, day: Day | None) -> OrderCheck | None:
        """Return a check. None if no order is declared."""
        if records.order != "newest_first" or records.day is None or day is None:
            return None
        return cls(records.day, day)

    def start_listing(self) -> None:
        """Forget the records of the last listing."""
        self._oldest: int | None = None
        self.is_past_day = False
        """True once a page has only records from before the day, which confirms that no newer record follows."""

    def add(self, times: pa.Array, label: str) -> None:
        """Check the times of a page's records. Records without one are skipped.

        :raises SetupError: a record is newer than one before it.
        """
        import pyarrow as pa

        known = times.drop_null()
        if not len(known):
            return
        is_date = pa.types.is_date(known.type)
        numbers = (known.cast(pa.int32()) if is_date else known).cast(pa.int64()).to_numpy(zero_copy_only=False)
        if (numbers[1:] > numbers[:-1]).any() or (self._oldest is not None and int(numbers[0]) > self._oldest):
            raise SetupError(
                f"{label}: a record is newer by {self._column!r} than one before it, though records.order says "
                "'newest_first'. Records of the day may follow after older ones. Sort by this field in the request, "
                "or remove records.order"
            )
        self._oldest = int(numbers[-1])
        start = pa.scalar(self._day.date if is_date else self._day.start, known.type)
        self.is_past_day = bool(known[0].as_py() < start.as_py())
