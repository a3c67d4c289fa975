"""What a person sees while ``airflow connect run`` works."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_connect.cli.run_log import RunLog, print_run
from tests.equipment.airflow.connectors import TinyLedger
from tests.unit.operators.conftest import Task


def texts(captured: str) -> list[str]:
    return [line.partition("] ")[2] for line in captured.splitlines()]


def test_the_jobs_lines_are_shown_and_sparks_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    hook = SimpleNamespace()
    operator = SimpleNamespace(_get_hook=lambda: hook)
    print_run(operator, RunLog())
    assert operator._get_hook() is hook
    hook._log.info("%s", "26/11/27 WARN NativeCodeLoader: Unable to load")
    hook._log.info("connect: day 2026-11-03: published, 1,000 rows")
    assert texts(capsys.readouterr().err) == ["Spark is starting", "day 2026-11-03: published, 1,000 rows"]


def test_an_operator_logs_to_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    operator = Task(TinyLedger(tmp_path / "ledger")).operator
    print_run(operator, RunLog())
    operator.log.info("Days %s in %s", "2026-11-03", "UTC")
    operator.log.warning("a warning")
    assert texts(capsys.readouterr().err) == ["Days 2026-11-03 in UTC", "a warning"]


def test_the_last_line_is_repeated_while_nothing_moves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("airflow_provider_connect.cli.run_log.SILENT_SECONDS", 0.2)
    log = RunLog()
    with log.signs_of_life():
        log.info("Spark is starting")
        time.sleep(1)
    first, *others = texts(capsys.readouterr().err)
    assert first == "Spark is starting"
    assert set(others) == {"still Spark is starting"}
    time.sleep(0.5)
    assert capsys.readouterr().err == ""
