"""Results of a transform are frozen, published, found again and refused as polled days are."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.spark import context
from airflow_provider_connect.spark.transform.results import sweep
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import POLLED_PATH
from airflow_provider_connect.window import Day
from tests.equipment.spark.lab import DAY, Lab, moved
from tests.equipment.spark.transforming import transforming


def doubled(table: pa.Table) -> pa.Table:
    return pa.concat_tables([table, table])


def files(stage: Path) -> list[str]:
    return sorted(str(path.relative_to(stage)) for path in stage.rglob("*.parquet"))


def test_a_result_is_published_and_tells_what_it_was_made_of(lab: Lab) -> None:
    days, here = transforming(lab.days(), doubled)
    report = moved(days)
    assert (report.status, report.rows_read, report.rows_written) == ("published", 3, 6)
    assert report.counts["rows_polled"] == 3
    assert report.transform_seconds is not None
    assert report.polled_contents != report.result_contents
    manifest = Manifest.model_validate_json(lab.manifest().read_bytes())
    assert report.result_contents == manifest.polled.contents
    assert report.digest == manifest.polled.digest
    assert [path for path in files(lab.stage) if POLLED_PATH in path] == []
    assert len(files(lab.stage)) == 2, "two tasks, two files"
    assert lab.ledger.row(DAY.date).counts["rows_polled"] == 3
    assert (lab.polls, here.calls) == (1, 1)


def test_the_same_rows_have_the_same_digests_whatever_made_them(lab: Lab) -> None:
    first = moved(transforming(lab.days(), lambda table: table)[0])
    second = moved(transforming(lab.days(token="bbbb"), lambda table: table.take([2, 1, 0]))[0])
    assert first.polled_contents == first.result_contents == second.result_contents
    assert second.rows_before == 3


def test_after_a_crash_in_between_nothing_is_polled_again_also_with_a_mended_transform(lab: Lab) -> None:
    def fails(table: pa.Table) -> pa.Table:
        raise RetriableError("the executor is gone")

    failed = moved(transforming(lab.days(), fails)[0])
    assert (failed.status, failed.failure and failed.failure.message) == ("failed", "the executor is gone")
    days, here = transforming(lab.days(attempt="2"), doubled, digest="another")
    report = moved(days)
    assert (report.status, report.rows_written, report.poll_seconds, lab.polls) == ("published", 6, 0.0, 1)
    assert here.calls == 1
    assert [path for path in files(lab.stage) if POLLED_PATH in path] == []


def test_a_retry_of_the_publish_neither_polls_nor_transforms(lab: Lab) -> None:
    failed = moved(transforming(lab.days(sink=("begin:RetriableError",)), doubled)[0])
    assert failed.status == "failed"
    days, here = transforming(lab.days(attempt="2"), doubled)
    assert moved(days).status == "published"
    assert (lab.polls, here.calls) == (1, 0)


def test_another_transform_or_other_columns_are_another_result(lab: Lab) -> None:
    moved(transforming(lab.days(sink=("begin:RetriableError",)), doubled)[0])
    days, here = transforming(lab.days(attempt="2"), lambda table: table, digest="another")
    assert (moved(days).rows_written, here.calls, lab.polls) == (3, 1, 2)


def test_rules_compare_what_was_polled(lab: Lab) -> None:
    rules = Rules(on_shrink="fail", shrink_percent=10)
    assert moved(transforming(lab.days(rules=rules), doubled)[0]).rows_written == 6
    # Fewer rows are published than before, but as many were polled.
    again = moved(transforming(lab.days(token="bbbb", rules=rules), lambda table: table.slice(0, 1))[0])
    assert (again.status, again.rows_written) == ("published", 1)
    days, _ = transforming(lab.days(token="cccc", rules=rules, source={"rows": 2}), doubled)
    refused = moved(days)
    assert refused.failure is not None
    assert "with 2 rows, and 3 were polled for 2026-10-05 (generation 2)" in refused.failure.message
    polls = lab.polls
    days, _ = transforming(lab.days(token="cccc", attempt="2", rules=rules), doubled)
    assert moved(days).status == "published"
    assert lab.polls == polls + 1, "a refused answer is polled again"


def test_a_result_without_rows_does_not_empty_a_day_unless_that_is_accepted(lab: Lab) -> None:
    moved(transforming(lab.days(), doubled)[0])
    nothing = transforming(lab.days(token="bbbb"), lambda table: table.slice(0, 0))[0]
    refused = moved(nothing)
    assert refused.failure is not None
    assert "the transform made no row of the 3 that were polled, and would delete the 6" in refused.failure.message
    days, _ = transforming(lab.days(token="cccc", on_empty="accept"), lambda table: table.slice(0, 0))
    assert (moved(days).status, lab.ledger.row(DAY.date).rows) == ("published", 0)


def test_a_result_without_rows_is_warned_of_until_the_stream_has_a_row_and_never_refuses_it(lab: Lab) -> None:
    (warning,) = moved(transforming(lab.days(), lambda table: table.slice(0, 0))[0]).warnings
    assert "the transform made no row of the 3 that were polled, and no published day of this stream has a" in warning
    refused = moved(transforming(lab.days(token="bbbb", on_empty="never"), lambda table: table.slice(0, 0))[0])
    assert refused.failure is not None
    assert "the transform made no row of the 3 that were polled, and on_empty='never'" in refused.failure.message


def test_a_day_without_rows_may_have_a_result(lab: Lab) -> None:
    def calendar(table: pa.Table) -> pa.Table:
        assert table.num_rows == 0
        made = {field.name: pa.nulls(1, field.type) for field in table.schema} | {"record_key": [f"{1:032x}"]}
        return pa.table(made, schema=table.schema)

    report = moved(transforming(lab.days(source={"rows": 0}), calendar)[0])
    assert (report.counts["rows_polled"], report.rows_written) == (0, 1)


def test_the_erase_list_counts_for_a_result_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    erased = EraseList().with_values("who", ["bob"])
    days = lab.days()
    schema = days.context.outlet.published_schema.append(pa.field("who", pa.string()))

    def joined(table: pa.Table) -> pa.Table:
        return table.append_column(schema.field("who"), pa.array(["ann", "bob", None]))

    monkeypatch.setattr(type(days.context.outlet.publisher.ledger), "erased", lambda self: erased)
    report = moved(transforming(days, joined, schema=schema)[0])
    assert (report.rows_written, report.counts["rows_polled"], report.counts["erased_from_result"]) == (2, 3, 1)
    # A result that does not say whose its rows are is refused before the source is asked.
    polls = lab.polls
    refused = moved(transforming(lab.days(token="bbbb"), doubled)[0])
    assert refused.failure is not None
    assert (refused.failure.type, lab.polls) == ("ConfigError", polls)


def test_rejects_of_the_poll_stay_with_the_result(lab: Lab) -> None:
    report = moved(transforming(lab.days(source={"rejects": 2}), doubled)[0])
    assert report.rejected == 2
    (path,) = report.rejects
    assert path.startswith("_connect/attempts/aaaa-1-20261005/rejects-")
    assert (lab.stage / path).exists()


@pytest.mark.parametrize(
    ("column", "make", "message"),
    [
        ("record_key", lambda keys: pa.nulls(len(keys), pa.string()), "is NULL in some rows"),
        (
            "record_key",
            lambda keys: pa.array(["x"] * len(keys)),
            "not a key. Make each value a string of 32 hex digits",
        ),
    ],
)
def test_an_invalid_row_key_in_a_result_is_refused(lab: Lab, column: str, make: Any, message: str) -> None:
    def wrong(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(column)
        return table.set_column(at, pa.field(column, pa.string()), make(table[column]))

    failed = moved(transforming(lab.days(), wrong)[0])
    assert failed.failure is not None
    assert failed.failure.type == "DataError"
    assert message in failed.failure.message


def test_of_days_that_were_polled_together_a_bad_one_fails_alone(lab: Lab) -> None:
    window = tuple(Day(date=DAY.date.replace(day=5 + n)) for n in range(3))
    seen: list[int] = []

    def second_fails(table: pa.Table) -> pa.Table:
        seen.append(table.num_rows)
        if len(seen) == 2:
            raise RetriableError("no room")
        return table

    days, _ = transforming(lab.days(window=window, source={"together": 3}), second_fails)
    assert [report.status for report in days.run(window)] == ["published", "failed", "published"]
    days, here = transforming(lab.days(window=window, source={"together": 3}, attempt="2"), doubled)
    assert [report.status for report in days.run(window)] == ["already_published", "published", "already_published"]
    assert (here.calls, lab.polls) == (1, 1)


def test_an_overtaken_day_is_polled_and_transformed_again(lab: Lab) -> None:
    def overtaken(table: pa.Table) -> pa.Table:
        if not lab.ledger.row(DAY.date):
            moved(lab.days(token="bbbb"))
        return doubled(table)

    days, here = transforming(lab.days(), overtaken)
    report = moved(days)
    assert (report.status, report.generation, report.rows_written, here.calls) == ("published", 2, 6, 2)


def test_polled_days_of_dead_attempts_are_swept(lab: Lab) -> None:
    def fails(table: pa.Table) -> pa.Table:
        raise RetriableError("the executor is gone")

    moved(transforming(lab.days(), fails)[0])
    root = Folder(str(lab.stage))
    assert sweep(root) == 0
    for path in lab.stage.rglob("*"):
        os.utime(path, (time.time() - 90_000,) * 2)
    assert sweep(root) > 0
    assert files(lab.stage) == []


def test_a_stage_that_is_not_kept_is_left_empty(lab: Lab) -> None:
    days, _ = transforming(lab.days(keeps_stage=False), doubled)
    assert moved(days).status == "published"
    assert [path for path in lab.stage.rglob("*") if path.is_file()] == []


def test_a_sink_s_own_form_of_the_stage_is_the_result_s_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    days = lab.days()
    monkeypatch.setattr(context, "stages_marks", lambda sink, kind: True)
    seen: list[list[str]] = []

    def look(table: pa.Table) -> pa.Table:
        seen.append(table.schema.names)
        return table

    days, _ = transforming(dataclasses.replace(days), look)
    moved(days)
    assert "__deleted" not in seen[0]
    (path, *_) = files(lab.stage)
    import pyarrow.parquet as pq

    assert "__deleted" in pq.read_schema(lab.stage / path).names
