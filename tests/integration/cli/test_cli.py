"""A person at a shell, with a real Airflow database, a real source, a real table and a real Spark."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = pytest.mark.slow

DAG = """
import datetime as dt
from airflow.sdk import DAG
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource

with DAG("shop", start_date=dt.datetime(2026, 10, 1, tzinfo=dt.UTC), schedule=None):
    for name in ("orders", "gone"):
        ConnectOperator(
            task_id=name,
            source=SqlSource(conn_id="shop_db", table=name, key=["id"], day_column="made", zone="UTC"),
            sink=DeltaSink(path="{lake}/" + name),
            conn_id="spark_local",
        )
"""
SECRET = "correct horse"


# Airflow takes seconds to start: one process runs all commands. What is logged goes to its standard error.
SHELL = """
import contextlib, io, json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from airflow_provider_connect.cli.entry import main
for line in sys.stdin:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(json.loads(line))
        except SystemExit as ended:
            code = ended.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)
"""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Ended]]:
    """Return what runs a command of ``python -m airflow_provider_connect``."""
    home = tmp_path_factory.mktemp("home")
    (home / "dags").mkdir()
    (home / "lake").mkdir()
    (home / "dags/shop.py").write_text(DAG.replace("{lake}", f"{home}/lake"))
    database = home / "shop.db"
    with sqlite3.connect(database) as shop:
        shop.execute("CREATE TABLE orders (id integer primary key, made timestamp NOT NULL, what text)")
        rows = [(number, f"2026-10-{1 + number % 5:02d} 10:00:00", f"thing {number}") for number in range(50)]
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    shop.close()
    env = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SHOP_DB": json.dumps({"conn_type": "sqlite", "host": str(database), "password": SECRET}),
        "AIRFLOW_CONN_SPARK_LOCAL": json.dumps({"conn_type": "spark", "host": "local[1]"}),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }
    subprocess.run(["airflow", "db", "migrate"], env=env, capture_output=True, timeout=200, check=True)
    with (
        (home / "shell.log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", SHELL], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as shell,
    ):
        stdin, stdout = shell.stdin, shell.stdout
        assert stdin is not None
        assert stdout is not None

        def called(*arguments: str) -> Ended:
            stdin.write(json.dumps(arguments) + "\n")
            stdin.flush()
            ended = Ended(*json.loads(stdout.readline()))
            assert SECRET not in ended.out + ended.err
            return ended

        yield called
        stdin.close()
        assert shell.wait(60) == 0
    assert SECRET not in (home / "shell.log").read_text()


def rows(ended: Ended) -> list[dict[str, Any]]:
    """Return what a command printed as JSON."""
    found: list[dict[str, Any]] = json.loads(ended.out)
    return found


def test_from_a_check_to_a_gap_that_is_found(run: Callable[..., Ended]) -> None:
    looked = run("check", "shop", "orders", "-o", "json")
    assert (looked.code, {row["result"] for row in rows(looked)}) == (0, {"ok"}), looked
    broken = run("check", "shop", "-o", "json")
    assert broken.code == 1, broken
    (problem,) = [row for row in rows(broken) if row["result"] == "failed"]
    assert problem["task"] == "shop/gone"
    assert "'gone'" in problem["problem"]

    shown = run("preview", "shop", "orders", "--day", "2026-10-02", "--rows", "3", "-o", "json")
    assert [row["what"] for row in rows(shown)] == ["thing 1", "thing 6", "thing 11"]

    for days in ("2026-10-01", "2026-10-03..2026-10-04"):
        moved = run("run", "shop", "orders", "--days", days, "-o", "json")
        assert moved.code == 0, moved
        assert [row["rows_written"] for row in rows(moved)] == [10] * len(rows(moved))

    ledger = run("ledger", "shop", "orders", "--days", "2026-10-01..2026-10-02", "-o", "json")
    first, second = rows(ledger)
    assert (ledger.code, first["generation"], first["rows"], second["generation"]) == (1, 1, 10, None)
    assert first["run"].startswith("shop/cli__")

    gaps = run("offsets", "gaps", "shop", "orders", "-o", "json")
    assert (gaps.code, [(row["first"], row["last"]) for row in rows(gaps)]) == (1, [("2026-10-02", "2026-10-02")])
    assert run("run", "shop", "orders", "--days", "2026-10-02").code == 0
    mended = run("offsets", "gaps", "shop", "orders")
    assert (mended.code, mended.err.strip().splitlines()[-1]) == (0, "no day is missing")

    planned = run("plan", "shop", "orders", "--days", "2026-10-01..2026-10-30", "-o", "json")
    (plan,) = rows(planned)
    assert (plan["days"], plan["requests"], plan["rows_a_day"], plan["rows"]) == (30, 30, 10, 300)

    assert run("offsets", "reset", "shop", "orders", "--yes").code == 0
    assert rows(run("offsets", "list", "-o", "json")) == []


def test_what_cannot_be_done_is_told_with_its_exit_code(run: Callable[..., Ended]) -> None:
    nobody = run("check", "shap")
    assert (nobody.code, "there is no DAG 'shap'" in nobody.err) == (78, True)
    ahead = run("run", "shop", "orders", "--days", "2099-01-01")
    assert (ahead.code, "lie ahead" in ahead.err) == (78, True), ahead
    several = run("preview", "shop")
    assert (several.code, "name one of 'orders', 'gone'" in several.err) == (78, True)
