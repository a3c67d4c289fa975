"""The ways to read a table: every option of every way, and the same tables on the page."""

from __future__ import annotations

import datetime as dt
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.arguments import require_reloadable
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources._sql.read_methods import (
    FOREIGN_NAMES,
    METHOD_OPTIONS,
    READ_METHODS,
    SNAPSHOT_MODES,
    ReadMethod,
    StartMode,
)
from airflow_provider_connect.sources.sql import SqlSource

PAGE = Path(__file__).parents[4] / "docs" / "sql.md"
VALUES: dict[str, Any] = {
    "timestamp_column": "changed_at",
    "incrementing_column": "id",
    "timestamp_delay_seconds": 60,
    "day_column_unit": "seconds",
    "db_timezone": "US/Pacific",
    "snapshot_mode": "when_needed",
    "start": "1",
    "end": "9",
    "nulls": "fail",
    "overlap": 1,
    "parallel_chunks": 2,
    "consistency": "chunk",
    "lookback_days": 1,
}
NUMBERS = {"start": "1", "end": "9", "overlap": 1}
TIMES = {"start": "2026-01-01", "end": "2026-02-01", "overlap": dt.timedelta(hours=1)}
MODES = [way for way in READ_METHODS if way.option == "mode"]


def options_of(method: ReadMethod) -> dict[str, Any]:
    """Return the required options of a way."""
    needed = {name: VALUES[name] for name in method.requires}
    return {"conn_id": "c", "table": "orders", method.option: method.value or "at"} | needed


def made(options: dict[str, Any]) -> str:
    """Return the problem of options, including the operator's. "" if they go together."""
    lookback = options.pop("lookback_days", 0)
    try:
        source = SqlSource(**options)
        if lookback:
            require_reloadable(source, DeltaSink(path="/tmp/table"), lookback)
    except ConfigError as error:
        return str(error).removeprefix("SqlSource: ")
    return ""


@pytest.mark.parametrize(("method", "option"), list(product(READ_METHODS, METHOD_OPTIONS)), ids=str)
def test_each_option_is_needed_allowed_or_refused_as_the_table_says(method: ReadMethod, option: str) -> None:
    options, cell = options_of(method), method.option_use(option)
    if cell == "needed":
        del options[option]
        assert made(options) == f"{option}: {method} needs it"
    else:
        values = VALUES | (TIMES if "timestamp" in method.value else NUMBERS)
        problem = made(options | {option: values[option]})
        assert (not problem) if cell == "yes" else problem.startswith(option)


@pytest.mark.parametrize(("first", "second"), list(product(READ_METHODS, READ_METHODS)), ids=str)
def test_two_ways_together_are_refused(first: ReadMethod, second: ReadMethod) -> None:
    if first.option == second.option:
        assert made(options_of(first)) == ""
    else:
        problem = made(options_of(first) | options_of(second))
        assert problem == "day_column: set one of day_column, snapshot and mode"


@pytest.mark.parametrize(("method", "mode", "chunks"), list(product(MODES, SNAPSHOT_MODES, (None, 2))), ids=str)
def test_every_mode_goes_with_every_snapshot_mode(method: ReadMethod, mode: str, chunks: int | None) -> None:
    problem = made(options_of(method) | {"snapshot_mode": mode, "parallel_chunks": chunks})
    expected = "parallel_chunks: snapshot_mode='no_data'" if (mode, chunks) == ("no_data", 2) else ""
    assert problem.startswith(expected)
    assert bool(problem) is bool(expected)


def test_one_error_names_all_options_that_do_not_go_with_a_way() -> None:
    problem = made(
        {"conn_id": "c", "table": "t", "snapshot": "daily"} | {name: VALUES[name] for name in METHOD_OPTIONS[:-1]}
    )
    assert [part.split(":")[0] for part in problem.split("; ")] == list(METHOD_OPTIONS[:10])


def cells(*texts: str) -> str:
    return f"| {' | '.join(texts)} |"


def quoted(text: str) -> str:
    return f"`{text}`".replace("'", '"')


def options_with(method: ReadMethod, use: str) -> str:
    """Return the options of a way that it needs, or those that it allows, as the page lists them."""
    return ", ".join(f"`{option}`" for option in METHOD_OPTIONS if method.option_use(option) == use)


def later(mode: StartMode) -> tuple[str, str]:
    if not mode.loads_new:
        return "nothing", "not checked"
    return "new rows", "all rows are read again" if mode.reloads_when_lost else "the run fails"


def test_the_page_has_the_same_tables() -> None:
    expected = [cells("way", "needs", "allows"), "|---|---|---|"]
    expected += [
        cells(quoted(str(method)), options_with(method, "needed"), options_with(method, "yes")).replace("|  |", "| |")
        for method in READ_METHODS
    ]
    modes = [
        cells(
            f'`"{name}"`' + " (default)" * (name == "initial"),
            "all rows" if mode.loads_existing else "nothing",
            *later(mode),
            "yes" if mode.loads_existing else "no",
        )
        for name, mode in SNAPSHOT_MODES.items()
    ]
    elsewhere = {
        cells(quoted(f"{option}={name!r}"), quoted(ours.split(",")[0]))
        for (option, name), ours in FOREIGN_NAMES.items()
    }
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(expected) + "\n\n" in page
    assert "\n".join(modes) + "\n\n" in page
    assert sorted(elsewhere - set(page.splitlines())) == []
