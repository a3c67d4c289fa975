"""What shapes drop or mask is on no disk: not in stage, table or rejects, nor in Spark's folders and its log."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from tests.equipment.waiting import wait_until
from tests.standins.mixpanel import faults
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

DAY = "2026-10-05"
CANARY = "canary-of-somebody@example.com"
BAD = f'{{"event":"Bad Line","properties":{{"distinct_id":"{CANARY}","time":\n'.encode()
KEY = Connection(conn_id="mask_key", conn_type="generic", password="k" * 40)
SHAPE = (
    {"mask": {"columns": ["distinct_id"], "conn_id": "mask_key"}},
    {"drop": {"columns": ["properties", "insert_id"]}},
)


@pytest.fixture
def people(submit: Any) -> set[str]:
    """Return what must not be seen: the ids of a day's people, and their devices."""
    found: set[str] = {CANARY}
    for row in submit.standin.project.expected_rows(dt.date.fromisoformat(DAY)):
        found |= {row["properties"][name] for name in ("distinct_id", "$device_id") if row["properties"].get(name)}
    return found


def test_what_is_masked_or_dropped_is_on_no_disk(
    submit: Any, people: set[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(faults._INSERTED, "bad_line", BAD)
    submit.sink_connections = {"mask_key": KEY}
    events, local, scratch = (tmp_path / name for name in ("events", "local", "scratch"))
    for folder in (events, local, scratch):
        folder.mkdir()
    submit.conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    submit.conf |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    submit.conf |= {"spark.local.dir": str(local)}
    source = {"errors_tolerance": "all", "retry_budget_seconds": 60}
    options: dict[str, Any] = {"source": source, "shape": SHAPE, "rejects_keep": "digest"}

    slow = Fault.from_json({"kind": "slow", "date": DAY, "seconds": 0.05, "size_bytes": 4096, "times": 9})
    submit.standin.faults.replace([slow])
    killed = submit.start([DAY], env={"TMPDIR": str(scratch)}, **options)
    wait_until(lambda: list(submit.table.glob("_connect/attempts/*/progress-*")))
    wait_until(lambda: list(submit.table.rglob("*.parquet")), seconds=20)
    killed.process.kill()
    killed.wait(60)
    assert seen_in(tmp_path, people) == []

    lines = [Fault.from_json({"kind": kind, "date": DAY}) for kind in ("cut_gzip", "bad_line")]
    submit.standin.faults.replace(lines)
    ended = submit.run([DAY], env={"TMPDIR": str(scratch)}, **options)
    assert ended.process.returncode == 0, ended.output
    (report,) = ended.report.days
    assert (report.rows_written, report.rejected, report.retries) == (2000, 1, 1)
    ids = [
        row["properties"].get("distinct_id") for row in submit.standin.project.expected_rows(dt.date.fromisoformat(DAY))
    ]
    assert report.counts["shape_0_mask"] == len(list(filter(None, ids)))
    assert seen_in(tmp_path, people) == []
    assert not [person for person in people if person in ended.output + killed.output]
    table = DeltaTable(str(submit.table)).to_pyarrow_table()
    assert {"properties", "insert_id"}.isdisjoint(table.column_names)
    hashes = set(table["distinct_id"].to_pylist())
    assert len(hashes) == len(set(ids))
    (reject,) = pq.read_table(submit.table / report.rejects[0]).to_pylist()
    assert (reject["record"], bool(reject["reason"]), len(reject["digest"])) == (None, True, 32)
    assert KEY.password is not None
    assert seen_in(tmp_path, {KEY.password.get_secret_value()}) == []


def test_what_does_not_fit_is_told_before_anything_is_asked_for(submit: Any) -> None:
    submit.sink_connections = {"mask_key": KEY.model_copy(update={"password": None})}
    ended = submit.here([DAY], shape=SHAPE)
    assert ended.report.failure.type == "ConfigError"
    assert "shape[0] (mask): conn_id: the password of connection 'mask_key'" in ended.report.failure.message
    ended = submit.here([DAY], shape=({"drop": {"columns": ["propertis"]}},))
    assert "did you mean 'properties'?" in ended.report.failure.message
    assert submit.standin.stats["requests"] == {}


def test_the_canary_is_found_without_shapes(submit: Any, people: set[str], tmp_path: Path) -> None:
    """Shows that the search above finds what there is."""
    ended = submit.here([DAY])
    assert ended.report.exit_code == 0, ended.output
    assert seen_in(tmp_path, people) != []


def seen_in(folder: Path, people: set[str]) -> list[str]:
    """Return the files in which one of these is, whether they are packed or not."""
    wanted = {person.encode() for person in people}
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        if any(any(person in text for person in wanted) for text in texts_of(path)):
            found.append(str(path.relative_to(folder)))
    return found


def texts_of(path: Path) -> Iterator[bytes]:
    """Yield a file as it is, and unpacked."""
    data = path.read_bytes()
    yield data
    if data[:4] == b"PAR1" == data[-4:] and len(data) > 8:
        for row in pq.read_table(path, partitioning=None).to_pylist():
            yield json.dumps(row, default=str).encode()
