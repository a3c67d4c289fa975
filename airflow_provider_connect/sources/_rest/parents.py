"""Reads the parents of a source: rows of another source, and declared values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from typing import Any

from airflow_provider_connect.polling.counted import CountedApi
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._rest.building.version_spool import latest_versions
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.page_reader import PageReader
from airflow_provider_connect.sources._rest.placeholders import requested_parent_columns
from airflow_provider_connect.sources._rest.records import RECORD_KEY
from airflow_provider_connect.window import Day


class ParentFilter:
    """Applies ``parent_where`` and ``parent_without_value``."""

    def __init__(self, options: RestOptions) -> None:
        self._values = {
            name: values if isinstance(values, tuple) else (values,) for name, values in options.parent_where.items()
        }
        self._requested = requested_parent_columns(options.request) - options.parent_values.keys()
        self._skips_without_value = options.parent_without_value == "skip"
        copied = {column.parent_name for column in options.resolved_parent_columns} - options.parent_values.keys()
        self.columns = sorted(self._requested | self._values.keys() | copied)
        """Columns of the parent that the filter, the requests and the rows of the children need."""

    def skip_reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the name of the count for a skipped parent, or None if it is requested.

        A parent without a value that its request needs fails in :func:`.fill_request`, unless it is skipped here.
        """
        if any(row[name] not in values for name, values in self._values.items()):
            return "filtered_parents"
        if self._skips_without_value and any(row[name] in (None, "") for name in self._requested):
            return "parents_without_value"
        return None


class ParentReader:
    """Yields the parents of one source, page by page. Their parents are read in the same way.

    :param tally: counts bytes, requests, pages and parents.
    :param stack: closes the readers.
    :param open_api: opens the client of a level.
    """

    def __init__(
        self,
        options: RestOptions,
        day: Day,
        tally: Tally,
        stack: ExitStack,
        open_api: Callable[[RestOptions], CountedApi],
        *,
        row_tally: Tally | None = None,
    ) -> None:
        self._options = options
        self._day = day
        self._tally = tally
        self._row_tally = tally if row_tally is None else row_tally
        self._stack = stack
        self._open_api = open_api

    def share(self, number: int) -> Iterator[Mapping[str, Any]]:
        """Yield each parent of a partition once. Without parents, yield one empty mapping.

        Every partition reads all parent pages and keeps its share by hash of the key. So memory holds one page, and a
        parent stays in its share in each retry.
        """
        options = self._options
        if not options.has_parents:
            yield {}
            return
        combinations = list(_combinations(options.parent_values))
        for key, row in self._rows(number):
            for values_hash, values in combinations:
                if (key + values_hash) % options.partitions == number:
                    self._row_tally.counts["parents"] += 1
                    yield {**row, **values}

    def _rows(self, number: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield hash and columns of the parent source's rows. Without one, yield one empty row.

        :param number: of the share whose skipped parents are counted.
        """
        options = self._options
        parent = options.parent
        if parent is None:
            yield 0, {}
            return
        parent_filter = ParentFilter(options)
        parent_tally = Tally([self._day])
        api = self._stack.enter_context(self._open_api(parent))
        reader = PageReader(parent, self._day, api, stack=self._stack, tally=self._tally, row_tally=parent_tally)
        parents_of_parents = ParentReader(
            parent, self._day, self._tally, self._stack, self._open_api, row_tally=parent_tally
        ).share(0)
        batches = (batch for values in parents_of_parents for batch in reader.batches(values))
        for batch in latest_versions(batches, parent.records, parent_tally):
            keys = batch.column(RECORD_KEY).to_pylist()
            for key, row in zip(keys, batch.select(parent_filter.columns).to_pylist(), strict=True):
                if (reason := parent_filter.skip_reason(row)) is not None:
                    self._row_tally.counts[reason] += int(key, 16) % options.partitions == number
                    continue
                yield int(key, 16), row
        reader.require_present_columns()
        for name, count in parent_tally.counts.items():
            self._row_tally.counts[f"parent_{name}"] += count


def _combinations(values: Mapping[str, tuple[str | int, ...]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each combination of declared values with its hash, which is 0 without values."""
    from xxhash import xxh3_128_intdigest

    for combination in product(*values.values()):
        text = "\xff".join(map(str, combination))
        yield xxh3_128_intdigest(text.encode()) if combination else 0, dict(zip(values, combination, strict=True))
