"""Days whose rows pass shapes in the poll: what is counted, compared, kept and tried again."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.completeness import RowBounds, Rules
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.stage.manifest import Manifest
from tests.equipment.spark.lab import DAY, Lab, moved


def below(number: int) -> dict[str, Any]:
    """Return the shape that keeps rows whose ``n`` is below a number."""
    return {"filter": {"where": {"column": "n", "operator": "less_than", "value": number}}}


DROP = {"drop": {"columns": ["event"]}}


def test_what_is_staged_is_shaped_and_each_shape_is_counted_in_report_and_ledger(lab: Lab) -> None:
    report = lab.move(source={"rows": 10}, shape=(below(4), DROP))
    assert (report.status, report.rows_read, report.rows_written) == ("published", 10, 4)
    counts = {"shape_0_filter": 6, "shape_1_drop": 4, "shape_filtered": 6}
    assert report.counts.items() >= counts.items()
    assert lab.ledger.row(DAY.date).counts.items() >= counts.items()
    (file,) = lab.stage.rglob("*.parquet")
    assert pq.read_table(file, partitioning=None).column_names == ["n", "record_key"]


def test_an_answer_is_as_large_as_before_its_shapes(lab: Lab) -> None:
    lab.move(source={"rows": 100})
    narrower = lab.move(token="bbbb", source={"rows": 100}, shape=(below(1),), rules=Rules())
    assert (narrower.status, narrower.rows_written, narrower.warnings) == ("published", 1, ())
    cut = lab.move(token="cccc", source={"rows": 40}, shape=(below(1),), rules=Rules())
    assert cut.failure is not None
    assert "40 rows, and 100 are published" in cut.failure.message


def test_a_day_that_shapes_leave_empty_is_no_empty_answer(lab: Lab) -> None:
    lab.move(source={"rows": 100})
    report = lab.move(token="bbbb", source={"rows": 100}, shape=(below(0),), rules=Rules())
    assert (report.status, report.rows_written) == ("published", 0)
    empty = lab.move(token="cccc", source={"rows": 0}, shape=(below(0),), rules=Rules())
    assert empty.failure is not None
    assert (
        "0 rows, and 100 are published of 2026-10-05 (generation 2, with those that shapes leave out)"
        in empty.failure.message
    )


def test_a_sink_that_looks_for_itself_is_told_that_a_day_is_meant_to_be_empty(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = lab.days(source={"rows": 3}, shape=(below(0),))
    told = []
    begin = type(days.context.outlet.publisher).begin
    monkeypatch.setattr(
        type(days.context.outlet.publisher),
        "begin",
        lambda self, publish: told.append(publish.on_empty) or begin(self, publish),
    )
    assert moved(days).status == "published"
    moved(lab.days(token="bbbb", source={"rows": 0}, shape=(below(0),)))
    assert told == ["accept", "fail"]


def test_bounds_compare_what_came_before_the_shapes(lab: Lab) -> None:
    bounds = Rules(row_bounds=RowBounds(over_days=1))
    before = type(DAY)(date=DAY.date.replace(day=4))
    lab.days(source={"rows": 100}, window=(before,), shape=(below(10),)).run((before,))
    assert lab.move(source={"rows": 100}, shape=(below(90),), rules=bounds).status == "published"
    report = lab.move(token="bbbb", source={"rows": 10}, rules=bounds)
    assert report.failure is not None
    assert "90 % fewer than the mean 100" in report.failure.message


def test_a_vendor_s_count_is_compared_with_what_came(lab: Lab) -> None:
    class Counted:
        def compare(self, day: Any, rows: int) -> None:
            VendorCount(rows=rows)
            found.append(rows)

    found: list[int] = []
    days = lab.days(source={"rows": 10}, shape=(below(4),))
    object.__setattr__(days.checker, "counter", Counted())
    assert moved(days).status == "published"
    assert found == [10]


def test_a_stage_is_not_published_under_other_shapes(lab: Lab) -> None:
    assert lab.move(sink=("commit",), shape=(below(2),)).status == "failed"
    assert lab.move(attempt="2", sink=("commit",), shape=(below(2),)).status == "failed"
    assert lab.polls == 1, "the same shapes: the first try's stage"
    assert lab.move(attempt="3", shape=(below(1),)).rows_written == 1
    assert lab.polls == 2


@pytest.mark.parametrize(("keep", "record"), [("record", b"zzz"), ("digest", None)])
def test_rejects_keep_their_record_or_a_digest_alone(lab: Lab, keep: Any, record: bytes | None) -> None:
    lab.move(source={"rejects": 1}, rejects_keep=keep)
    manifest = Manifest.model_validate_json(lab.manifest().read_text())
    (reject,) = pq.read_table(lab.stage / manifest.polled.rejects[0].path).to_pylist()
    assert reject["record"] == record
    assert (reject["position"], reject["reason"], len(reject["digest"])) == (0, "no record", 32)
