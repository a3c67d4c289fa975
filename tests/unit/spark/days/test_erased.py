"""An erase beside a running job: what it polls next leaves the erased out, and what it has polled is not published."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.stage.erase_list import EraseList
from tests.equipment.spark.lab import DAY, Lab, moved, poll_parts_of, polling


def erase(lab: Lab, *values: str) -> None:
    path = lab.root / "erased"
    listed = EraseList.model_validate_json(path.read_text()) if path.exists() else EraseList()
    path.write_text(listed.with_values("n", values).model_dump_json())


def test_a_poll_leaves_the_erased_out_and_counts_them(lab: Lab) -> None:
    whole = lab.move()
    erase(lab, "1")
    report = lab.move(token="bbbb")
    assert (report.rows_read, report.rows_written, report.counts["erased"]) == (3, 2, 1)
    assert report.digest != whole.digest


def test_an_erase_during_the_poll_makes_it_poll_again(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    days = lab.days()

    def poll_parts(tasks: list[str]) -> list[str]:
        answers = poll_parts_of(days)(tasks)
        if not (lab.root / "erased").exists():
            erase(lab, "1")
        return answers

    report = moved(polling(days, poll_parts))
    assert (report.status, report.rows_written, lab.polls) == ("published", 2, 2)
    assert "rows were erased since this attempt began to poll" in capsys.readouterr().err


def test_a_lookback_day_is_polled_again_after_an_erase(lab: Lab) -> None:
    lab.move()
    days = lab.days(token="bbbb", window=(), lookback=(DAY,), source={"rows": 5})
    answers: list[int] = []

    def poll_parts(tasks: list[str]) -> list[str]:
        answers.append(1)
        found = poll_parts_of(days)(tasks)
        if len(answers) == 1:
            erase(lab, "1")
        elif len(answers) == 2:  # the erase comes to this day
            row = lab.ledger.row(DAY.date)
            lab.ledger.add(row.model_copy(update={"generation": 2, "token": "erase1-cafe", "run": "erase/1"}))
        return found

    report = moved(polling(days, poll_parts))
    assert (report.status, report.rows_written, report.generation) == ("published", 4, 3)


def test_a_stage_from_before_the_erase_is_not_used(lab: Lab) -> None:
    assert lab.move(sink=("begin:RetriableError",)).status == "failed"
    erase(lab, "1")
    report = lab.move(attempt="2")
    assert (report.status, report.rows_written, lab.polls) == ("published", 2, 2)
    assert lab.ledger.row(DAY.date).generation == 1


@pytest.mark.parametrize("left", [1, 0])
def test_a_reload_between_the_list_and_the_days_rewrite_has_not_shrunk(lab: Lab, left: int) -> None:
    assert lab.move().rows_written == 3
    erase(lab, *map(str, range(3 - left)))
    report = lab.move(token="bbbb", rules=Rules())
    assert (report.status, report.rows_written, report.warnings) == ("published", left, ())


@pytest.mark.parametrize(
    "shape",
    [
        ({"drop": {"columns": ["n"]}},),
        ({"mask": {"columns": ["n"], "mode": "redact"}},),
        ({"rename": {"columns": {"n": "number"}}},),
    ],
)
def test_who_was_erased_before_a_shape_hid_the_column_does_not_come_back(
    lab: Lab, shape: tuple[dict[str, Any]]
) -> None:
    lab.move()
    erase(lab, "1")
    report = lab.move(token="bbbb", shape=shape)
    assert (report.status, report.rows_written, report.counts["erased"]) == ("published", 2, 1)


def test_who_is_erased_by_what_the_target_holds_is_left_out_behind_the_shapes(lab: Lab) -> None:
    shape = ({"constant": {"column": "who", "value": "x"}},)
    lab.move(shape=shape)
    (lab.root / "erased").write_text(EraseList().with_values("who", ["x"]).model_dump_json())
    report = lab.move(token="bbbb", shape=shape)
    assert (report.rows_written, report.counts["erased"]) == (0, 3)
    report = lab.move(token="cccc")
    assert report.failure is not None
    assert "rows are erased by column 'who', which the source's rows do not have" in report.failure.message
