from __future__ import annotations

import datetime as dt
import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG

from airflow_provider_connect import offsets
from airflow_provider_connect.cli.dag_files import DagFiles
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import DaySet
from tests.equipment.airflow.connectors import TinySink, TinySource

SOURCE = TinySource(conn_id="c")
FIRST = dt.date(2026, 10, 1)
Run = Callable[..., tuple[int, str, str]]


def days(*numbers: int) -> list[dt.date]:
    return [FIRST + dt.timedelta(days=number) for number in numbers]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables in memory."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(variables, "read", kept.get)
    monkeypatch.setattr(variables, "write", lambda key, text, _: kept.__setitem__(key, text))
    monkeypatch.setattr(variables, "delete", lambda key: kept.pop(key, None))
    monkeypatch.setattr(variables, "keys", lambda prefix: sorted(key for key in kept if key.startswith(prefix)))
    return kept


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call a command as Airflow's own parser does; the audit log has no database here."""
    monkeypatch.setattr("airflow.utils.cli_action_loggers.on_pre_execution", lambda **_: None)
    monkeypatch.setattr("airflow.utils.cli_action_loggers.on_post_execution", lambda **_: None)

    def called(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["airflow", "connect", *arguments])
        args = get_parser().parse_args(["connect", *arguments])
        with pytest.raises(SystemExit) as ended:
            args.func(args)
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err  # type: ignore[return-value]  # a number

    return called


def made(table: str, done: list[dt.date], origin: dt.date | None = None) -> str:
    sink = TinySink(table=table)
    Offset.set(SOURCE, sink, done, origin=origin)
    return offsets.variable_key(SOURCE, sink).removeprefix(offsets.PREFIX)


@pytest.mark.parametrize(
    ("done", "origin", "missing"),
    [
        ([], None, []),
        ([], 0, []),
        ([0, 1], None, []),
        ([0, 2, 3, 6], None, [1, 4, 5]),
        ([3], 0, [0, 1, 2]),
        ([0, 1, 3], 2, [2]),
        ([0, 3], 5, []),  # nothing is done of what is wanted
        ([0, 5], 2, [2, 3, 4]),
    ],
)
def test_gaps_are_what_is_missing_between_the_origin_and_the_last_done_day(
    done: list[int], origin: int | None, missing: list[int]
) -> None:
    first = None if origin is None else days(origin)[0]
    offset = Offset.from_published(SOURCE, TinySink(), DaySet.from_dates(days(*done)), first)
    assert [*offset.settled.gaps] == days(*missing)


def test_a_list_has_a_line_for_each_offset_also_one_that_cannot_be_read(store: dict[str, str], run: Run) -> None:
    good = made("a", days(0, 1, 3))
    store[f"{offsets.PREFIX}broken"] = "[red]secret[/red]"
    code, out, _ = run("offsets", "list", "--output", "json")
    found = {line["offset"]: line for line in json.loads(out)}
    assert code == 0
    assert (found[good]["position"], found[good]["done"], found[good]["gaps"]) == ("2026-10-02", "3", "1")
    assert found["broken"]["target"].startswith("not an offset. Reset it")
    assert "secret" not in out


def test_a_table_shows_what_rich_would_take_for_a_tag_as_it_is(store: dict[str, str], run: Run) -> None:
    made("a[/b]\x1b[31m[red]", days(0))
    code, out, _ = run("offsets", "list")
    assert code == 0
    assert "a[/b]\\x1b[31m[red]" in "".join(out.split())


def test_gaps_end_with_one(store: dict[str, str], run: Run) -> None:
    name = made("a", days(0, 3))
    made("b", days(0, 1))
    assert run("offsets", "gaps", "-o", "json")[:2] == (
        1, json.dumps([{"offset": name, "from": "2026-10-02", "to": "2026-10-03", "days": "2"}]) + "\n",
    )  # fmt: skip
    assert run("offsets", "gaps", name)[1].count("2026-10-02") == 1
    store.clear()
    assert run("offsets", "gaps") == (0, "", "no gaps: no stream has a settled day yet\n")
    made("b", days(0, 1))
    assert run("offsets", "gaps")[1:] == ("", "no gaps in 1 stream, 2026-10-01 to 2026-10-02\n")


def test_a_wide_table_is_printed_record_by_record(
    store: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("a_table_of_a_long_name", days(0, 1))
    monkeypatch.setenv("COLUMNS", "80")
    _, narrow, _ = run("offsets", "list")
    assert all(len(line) <= 80 for line in narrow.splitlines())
    assert "position" in narrow.splitlines()[6] + narrow.splitlines()[7] + narrow.splitlines()[5]
    monkeypatch.setenv("COLUMNS", "300")
    _, wide, _ = run("offsets", "list")
    assert wide.splitlines()[0].split("|")[0].strip() == "offset"


def test_an_offset_is_found_by_its_dag(store: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made("a", days(0, 3))
    with DAG("shop_daily", schedule=None, start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC)) as dag:
        for task_id, table in (("orders", "a"), ("customers", "b")):
            ConnectOperator(task_id=task_id, source=SOURCE, sink=TinySink(table=table))
    files = DagFiles(dags={"shop_daily": dag})
    monkeypatch.setattr("airflow_provider_connect.cli.tasks.read_dag_files", lambda *_: files)
    assert json.loads(run("offsets", "gaps", "shop_daily", "orders", "-o", "json")[1])[0]["from"] == "2026-10-02"
    assert (
        "task shop_daily.customers has no offset. It has published no day into"
        in run("offsets", "show", "shop_daily", "customers")[2]
    )
    assert "Name one of orders, customers" in run("offsets", "show", "shop_daily")[2]
    assert "no DAG 'shop_dayly'; did you mean 'shop_daily'?" in run("offsets", "show", "shop_dayly")[2]


def test_superseded_days_of_a_snapshot_are_no_gaps(store: dict[str, str], run: Run) -> None:
    customers = SqlSource(conn_id="shop_db", table="customers", snapshot="replace")
    Offset.set(customers, DeltaSink(path="/lake/customers"), days(0, 5))
    assert run("offsets", "gaps")[0] == 0
    code, out, _ = run("offsets", "list", "-o", "json")
    (line,) = json.loads(out)
    assert (code, line["position"], line["done"], line["gaps"]) == (0, "2026-10-06", "6", "0")


def test_show_names_the_nearest_offset(store: dict[str, str], run: Run) -> None:
    name = made("a", days(0, 1, 3))
    code, out, _ = run("offsets", "show", name, "-o", "yaml")
    assert (code, "2026-10-01..2026-10-02" in out) == (0, True)
    code, out, err = run("offsets", "show", name[:-1])
    assert (code, out) == (78, "")
    assert f"did you mean {name!r}?" in err


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("no\n", 1), ("", 1)])
def test_a_reset_asks_first(
    store: dict[str, str], run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    name = made("a", days(0))
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert run("offsets", "reset", name)[0] == code
    assert bool(store) == bool(code)


def test_an_unreadable_offset_is_reset_with_yes(store: dict[str, str], run: Run) -> None:
    store[f"{offsets.PREFIX}broken"] = "?"
    assert run("offsets", "reset", "--yes", f"{offsets.PREFIX}broken")[0] == 0
    assert not store


def test_an_export_is_read_back_as_the_same_offsets(store: dict[str, str], run: Run) -> None:
    made("a", days(0, 3), origin=FIRST)
    before = offsets.stored_offsets()
    _, out, _ = run("offsets", "export")
    store.clear()
    store.update({key: json.dumps(value) for key, value in json.loads(out).items()})  # as 'airflow variables import'
    assert offsets.stored_offsets() == before


def test_an_unforeseen_error_shows_its_place_and_not_its_text(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(prefix: str) -> Any:
        raise ValueError("password=hunter2")

    monkeypatch.setattr(variables, "keys", fail)
    code, out, err = run("offsets", "list")
    assert code == 70
    assert "hunter2" not in out + err
    assert "ValueError" in err
