"""What a notebook reads is checked as a job's days are, and closing undoes no read; without a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from airflow_provider_connect import registry
from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.spark.datasource import SourceReader
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.spark.lab import CONNECTION, DAY, Lab

NEXT = Day(date=DAY.date + ONE_DAY)
SECRET = "hush-hush"


def reader(lab: Lab, *days: Day, **options: Any) -> tuple[SourceReader, type[Poller]]:
    source = registry.source_class("tiny").from_options({"folder": str(lab.root), "together": 2, **options})
    poller = source.open(CONNECTION, PollContext())
    return SourceReader(source, list(days), CONNECTION, from_arrow_schema(poller.schema())), type(poller)


def rows(made: SourceReader) -> int:
    return sum(batch.num_rows for part in made.partitions() for batch in made.read(part))


def planning(*parts: InputPartition) -> Any:
    def plan(poller: Poller, days: Sequence[Day]) -> list[InputPartition]:
        return list(parts)

    return plan


def failing(*_: Any) -> Any:
    raise RuntimeError(f"logout refused for {SECRET}")


def test_rows_of_several_days_are_read(lab: Lab) -> None:
    assert rows(reader(lab, DAY, NEXT)[0]) == 6


def test_an_error_while_closing_fails_no_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, poller = reader(lab, DAY)
    monkeypatch.setattr(poller, "close", failing)
    assert rows(made) == 3
    said = capsys.readouterr().err
    assert "TinyPoller could not be closed: unexpected RuntimeError" in said
    assert SECRET not in said


def test_a_day_that_a_plan_of_several_forgets_is_no_empty_day(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made, poller = reader(lab, DAY, NEXT)
    monkeypatch.setattr(poller, "plan", planning(InputPartition(days=(DAY,))))
    with pytest.raises(ConnectError, match=f"planned no partition for {NEXT}, but the job requested"):
        made.partitions()


def test_rows_of_a_day_that_was_not_requested_are_the_sources_error(lab: Lab) -> None:
    made, _ = reader(lab, DAY, stray=NEXT)
    with pytest.raises(ConnectError, match=f"sent rows of day {NEXT}, which its partition does not name"):
        rows(made)


@pytest.mark.parametrize("step", ["plan", "poll"])
def test_a_foreign_error_is_told_without_its_text(lab: Lab, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    made, poller = reader(lab, DAY)
    monkeypatch.setattr(poller, step, failing)
    with pytest.raises(ConnectError, match="unexpected RuntimeError") as caught:
        rows(made)
    assert SECRET not in str(caught.value)


def test_a_poller_is_told_that_it_is_closed_before_its_partitions_are_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it held open for them, such as a snapshot that they share, would be gone."""
    told: list[bool] = []
    made, poller = reader(lab, DAY)
    plan = poller.plan

    def telling(self: Poller, days: Sequence[Day]) -> list[InputPartition]:
        told.append(self.context.is_closed_before_polls)
        return plan(self, days)

    monkeypatch.setattr(poller, "plan", telling)
    assert (rows(made), told) == (3, [True])
