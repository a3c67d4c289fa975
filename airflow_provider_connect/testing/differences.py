"""Conformance case of sinks that count the differences of a reload."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.capabilities.publisher import CommitCountsDifferences, TellsDifferences
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.testing.bench import DAYS, MONDAY, SCHEMA, Bench

_KEYED = SCHEMA.append(pa.field(RECORD_KEY, pa.string(), nullable=False))


class DifferencesCases:
    """Reloads of a day with keyed rows, on the fixture ``bench``."""

    def test_what_a_reload_changes_is_counted_and_nothing_is_changed_by_that(self, bench: Bench) -> None:
        """Users choose the lookback by these counts."""
        counts_before_publish = isinstance(bench.publisher, TellsDifferences)
        counts_in_commit = isinstance(bench.publisher, CommitCountsDifferences)
        if not (counts_before_publish or counts_in_commit):
            pytest.skip("the sink does not count the differences of a reload")
        expected = Differences(added=2, changed=1, vanished=1)
        assert bench.publisher.preflight(_KEYED, DAYS, "day") == []
        first = bench.publish(_keyed(bench, {1: "stays", 2: "is changed", 3: "vanishes"}, 1))
        assert not {*first.counts} & {*Differences.model_fields}
        reload = _keyed(bench, {2: "was changed", 4: "new", 1: "stays", 5: "new too"}, 2)
        state_before = bench.state()
        for _ in range(2 * counts_before_publish):
            with bench.another_process() as other_publisher:
                assert isinstance(other_publisher, TellsDifferences)
                assert other_publisher.differences(reload) == expected
        assert bench.state() == state_before
        row = bench.publish(reload)
        assert row.generation == 2
        if counts_in_commit:
            assert {name: row.counts.get(name) for name in Differences.model_fields} == expected.model_dump()


def _keyed(bench: Bench, rows: Mapping[int, str], number: int) -> Publish:
    staged = bench.stage(MONDAY, list(rows.values()), number)
    keys = {event: key for key, event in rows.items()}
    files = []
    for file in staged.manifest.polled.files:  # a table template spreads the rows over several files
        path = bench.root / file.path
        table = pq.ParquetFile(path).read()
        row_keys = [keys[event] for event in table.column("event").to_pylist()]
        amounts, record_keys = pa.array([float(key) for key in row_keys]), pa.array([f"{key:032x}" for key in row_keys])
        table = table.set_column(2, SCHEMA.field(2), amounts).append_column(_KEYED.field(RECORD_KEY), record_keys)
        pq.write_table(table, path)
        files.append(file.model_copy(update={"size_bytes": path.stat().st_size}))
    polled = staged.manifest.polled.model_copy(update={"files": tuple(files)})
    manifest = staged.manifest.model_copy(update={"polled": polled})
    return dataclasses.replace(staged, manifest=manifest, schema=_KEYED)
