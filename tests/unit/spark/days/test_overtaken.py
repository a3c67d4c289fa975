"""Two intents want one day: the newest answer is published, and nobody asks the source more than need be."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.source import Source
from airflow_provider_connect.spark.days.runner import DayRunner
from tests.equipment.spark.lab import DAY, Lab, moved, poll_parts_of, polling, rewired

RUN = "d/r/t"


def publishes(lab: Lab, token: str, *, run: str = "d/other/t", clear_number: int = 0) -> None:
    """Let somebody else publish the day."""
    newest = lab.ledger.row(DAY.date)
    row = LedgerRow(
        day=DAY.date,
        generation=newest.generation + 1 if newest else 1,
        token=token,
        run=run,
        clear_number=clear_number,
        rows=7,
    )
    with lab.ledger.path.open("a") as file:
        file.write(row.model_dump_json() + "\n")


def overtaken(lab: Lab, *tokens: str, run: str = "d/other/t", clear_number: int = 0, **options: Any) -> DayReport:
    """Move the day while others publish it, one of them during each poll: ``run`` and ``clear_number`` are theirs."""
    mine = {"clear_number": options.pop("own_clear_number", 0)}
    days, waiting = lab.days(**mine, **options), list(tokens)

    def poll_parts(tasks: list[str]) -> list[str]:
        answers = poll_parts_of(days)(tasks)
        if waiting:
            publishes(lab, waiting.pop(0), run=run, clear_number=clear_number)
        return answers

    return moved(polling(days, poll_parts))


def test_a_run_that_waited_polls_later_and_so_its_answer_is_the_newer_one(lab: Lab) -> None:
    waiting: DayRunner = lab.days(token="aaaa")
    publishes(lab, "bbbb")
    report = moved(waiting)
    assert (report.status, report.generation, lab.polls) == ("published", 2, 1)


def test_a_day_overtaken_while_polling_is_polled_again_and_published(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    report = overtaken(lab, "bbbb")
    assert (report.status, report.generation, lab.polls) == ("published", 2, 2)
    assert lab.ledger.row(DAY.date).attempt == "aaaa-1r-20261005", "the second poll has an attempt of its own"
    assert "d/other/t has published generation 1" in capsys.readouterr().err


def test_each_other_intent_costs_one_poll_more(lab: Lab) -> None:
    report = overtaken(lab, "bbbb", "cccc", "dddd")
    assert (report.status, report.generation, lab.polls) == ("published", 4, 4)


def test_an_intent_that_overtakes_twice_ends_the_try_for_airflow_to_repeat(lab: Lab) -> None:
    report = overtaken(lab, "bbbb", "bbbb")
    assert (report.status, report.failure and report.failure.type, lab.polls) == ("failed", "OvertakenError", 2)
    assert lab.move(attempt="2").status == "published"


def test_a_driver_whose_task_is_gone_does_not_poll_again(lab: Lab) -> None:
    report = overtaken(lab, "bbbb", task_lives=False)
    assert (report.status, report.failure and report.failure.type, lab.polls) == ("failed", "OvertakenError", 1)
    assert lab.ledger.row(DAY.date).token == "bbbb"


def test_a_driver_overtaken_by_a_later_clear_of_its_run_does_not_poll_again_and_fails(lab: Lab) -> None:
    report = overtaken(lab, "bbbb", run=RUN, clear_number=1)
    assert (report.status, report.failure and report.failure.type, lab.polls) == ("failed", "OvertakenError", 1)


def test_a_driver_overtaken_by_an_earlier_clear_of_its_run_polls_again(lab: Lab) -> None:
    report = overtaken(lab, "bbbb", run=RUN, clear_number=1, own_clear_number=2)
    assert (report.status, report.generation, lab.polls) == ("published", 2, 2)


def test_a_manifest_that_the_ledger_has_passed_is_stale(lab: Lab) -> None:
    lab.move(sink=["begin:RetriableError"])
    publishes(lab, "bbbb")
    report = lab.move(attempt="2")
    assert (report.status, report.generation, lab.polls) == ("published", 2, 2)


def test_another_target_on_the_same_stage_polls_for_itself(lab: Lab) -> None:
    lab.move(sink=["begin:RetriableError"])
    other = lab.root / "other"
    other.mkdir()
    report = lab.move(attempt="2", target=str(other))
    assert (report.status, report.rows_written, lab.polls) == ("published", 3, 2)


def test_a_connection_that_leads_to_another_project_polls_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "connection_fields", ("project_id",))
    lab.move(sink=["begin:RetriableError"])
    days = lab.days(attempt="2")
    project = Connection(conn_id="tiny", extra={"project_id": "2", "note": "changed"})
    intake = dataclasses.replace(days.context.intake, connection=project)
    days = rewired(days, context=dataclasses.replace(days.context, intake=intake))
    assert moved(days).status == "published"
    assert lab.polls == 2


def test_a_retry_after_a_reload_by_hand_publishes_nothing(lab: Lab) -> None:
    lab.move()
    publishes(lab, "bbbb")
    report = lab.move(attempt="2")
    assert (report.status, report.generation, lab.polls) == ("already_published", 1, 1)
    assert lab.ledger.row(DAY.date).token == "bbbb"


def test_an_overtaken_attempt_leaves_nothing_in_a_stage_that_is_not_kept(lab: Lab) -> None:
    assert overtaken(lab, "bbbb", keeps_stage=False).status == "published"
    assert [path for path in lab.stage.rglob("*") if path.is_file()] == []
