"""``airflow connect erase``: ids come from a file or the standard input, and stand in no log."""

from __future__ import annotations

import datetime as dt
import io
import os
from collections import Counter
from pathlib import Path

import pytest
from airflow.models.log import Log
from airflow.utils.session import create_session
from deltalake import DeltaTable
from sqlalchemy import select

from airflow_provider_connect.shapes.mask import hmac_sha256
from airflow_provider_connect.stage.temporary import POLLED_PATH
from tests.integration.cli.conftest import CANARY, Run, lines

pytestmark = pytest.mark.slow

DAGS = """
import datetime as dt
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.shapes import Drop, Mask, Rename
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

SOURCE = dict(conn_id="cli_mixpanel", stream="export", zone="UTC")
start = dict(schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
with DAG("cli_plain", **start):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/plain"),
        asset=Asset("x-lake://plain"),
        conn_id="cli_spark",
    )
with DAG("cli_masked", **start):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/masked"),
        shape=[
            Mask(columns=["distinct_id"], conn_id="cli_key"),
            Drop(columns=["properties"]),
            Rename(columns={"distinct_id": "person"}),
        ],
        asset=Asset("x-lake://masked"),
        conn_id="cli_spark",
    )
"""
DAY = "2026-03-05"


def column(lake: Path, table: str, name: str) -> Counter[str]:
    return Counter(DeltaTable(str(lake / table)).to_pyarrow_table()[name].to_pylist())


def test_people_are_counted_then_erased_and_a_later_run_leaves_them_out(
    run: Run, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dag in ("cli_plain", "cli_masked"):
        code, _, err = run("run", dag, "--days", DAY, "-o", "json")
        assert code == 0, err
    (first, rows), (second, more) = column(lake, "plain", "distinct_id").most_common(2)
    assert first not in column(lake, "masked", "person")
    file = tmp_path / "people.txt"
    file.write_text(f"{first}\r\n\n{second}\n", encoding="utf-8-sig")

    monkeypatch.setattr("sys.stdin", io.StringIO(f"{first}\n"))
    code, out, err = run("erase", "cli_masked", "--column", "person", "-o", "json")
    [line] = lines(out)
    assert (code, line["rows"], line["days"], line["erase_list"]) == (0, str(rows), "1", None)
    assert line["rows_by_day"] == {DAY: str(rows)}
    assert "nothing was changed. --erase deletes these rows" in err
    assert "older versions of" in err

    code, out, err = run("erase", "cli_masked", "events", "--from", str(file), "--erase", "-o", "json")
    [line] = lines(out)
    assert (code, line["rows"], line["column"], line["values"]) == (0, str(rows + more), "person", "2"), err
    assert line["erase_list"] == "1"
    hashes = [hmac_sha256((CANARY * 3).encode())(each.encode()) for each in (first, second)]
    assert not {*hashes} & column(lake, "masked", "person").keys()

    code, out, err = run("run", "cli_masked", "--days", DAY, "-o", "json")
    assert (code, lines(out)[0]["generation"]) == (0, "3"), err
    assert not {*hashes} & column(lake, "masked", "person").keys()
    with create_session() as session:
        logged = [(entry.event, str(entry.extra)) for entry in session.scalars(select(Log))]
    assert "cli_erase" in [event for event, _ in logged] or "cli_erase_people" in [event for event, _ in logged]
    assert not [extra for _, extra in logged if first in extra or second in extra]
    assert first not in out + err


def test_ids_are_no_arguments(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("erase", "cli_plain", "events", "u-17")
    assert ended.value.code == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"\n\n", "give at least one id"),
    ],
)
def test_a_file_without_ids_is_refused(run: Run, tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "ids"
    if content is not None:
        file.write_bytes(content)
    code, out, err = run("erase", "cli_plain", "--from", str(file))
    assert (code, out) == (78, "")
    assert said in err


def test_a_sweep_sees_the_days_that_a_killed_transform_left(run: Run, lake: Path) -> None:
    """They hold rows as they were polled, also of people who are erased since."""
    name = "aaaa-1-20260306"
    left = [
        lake / "plain" / POLLED_PATH / f"day=2026-03-06/{name}-00000-ab12.parquet",
        lake / "plain" / POLLED_PATH / f"_connect/attempts/{name}/progress-00000.json",
    ]
    for file in left:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    assert lines(run("sweep", "cli_plain", "--dry-run", "-o", "json")[1]) == []  # it may still live
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(days=3)).timestamp()
    for file in left:
        os.utime(file, (long_ago, long_ago))
    listed = {line["left_over"] for line in lines(run("sweep", "cli_plain", "--dry-run", "-o", "json")[1])}
    assert listed == {str(file) for file in left}
    assert lines(run("sweep", "cli_plain", "-o", "json")[1])[0]["deleted"] == "2"
    assert not any(file.exists() for file in left)
