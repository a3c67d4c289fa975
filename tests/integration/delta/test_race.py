"""Many processes publish into one table; run as a script, this file is one of them."""

from __future__ import annotations

import datetime as dt
import json
import random
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile, data_file
from airflow_provider_connect.window import Day
from tests.equipment.processes import at_once

KEY = StreamKey(connector="lab", stream="race")
FIRST = dt.date(2026, 5, 1)
PARTS = 3
LOCAL = pa.schema([("order", pa.int64()), ("local", pa.timestamp("us"))])

pytestmark = pytest.mark.slow


def publish_of(root: Path, date: dt.date, token: str, order: int, attempt: str) -> Publish:
    """Stage a day of three files, each row carrying the order; every seventh order brings a column of its own."""
    schema = LOCAL
    seen = seen_publish(DeltaSink(path=str(root)).open(KEY, {}).ledger.newest(date, "day"))
    if order % 7 == 0:
        schema = schema.append(pa.field(f"extra_{order}", pa.string()))
    files = []
    for part in range(PARTS if order % 5 else 0):  # an order of 5 has an empty day
        path = data_file(Day(date=date), attempt, part, "0")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(schema.empty_table(), root / path)
        files.append(StagedFile(path=path, rows=order, size_bytes=(root / path).stat().st_size))
    polled = PollResult(files=tuple(files))
    manifest = Manifest(day=Day(date=date), attempt=attempt, fingerprint="f", polled=polled, seen=seen)
    intent = Intent(token=token, run=f"lab/{token}")
    return Publish(key=KEY, day=Day(date=date), intent=intent, manifest=manifest, schema=schema, stage=str(root))


def worker(root: Path, number: int, mode: str, count: int, size: int) -> None:
    """Publish until done, and print one line for each publish: generation, order, token.

    :param count: of the workers, who share the work.
    :param size: how many days there are, or how many intents for the one day.
    """
    print("ready", flush=True)
    sys.stdin.readline()
    if mode == "tables":
        make_tables(root, number, count, size)
        return
    sink = DeltaSink(path=str(root))
    assert sink.open(KEY, {}).preflight(LOCAL, (), "day") == []
    if mode == "days":
        half = count // 2  # so that a day is another worker's in the second round
        mine, others = range(number, size, count), range(number + half, size + half, count)
        plan = [(FIRST + dt.timedelta(days=i), f"t{i}", 1) for i in mine]
        plan += [(FIRST + dt.timedelta(days=i % (size - 2)), f"u{i}", 2) for i in others]
    elif mode == "token":
        plan = [(FIRST, "same", 3)]
    else:
        plan = [(FIRST, f"t{order}", order) for order in range(number + 1, size + 1, count)]
    for date, token, order in plan:
        row, polls = publish_until_it_lands(sink, root, date, token, order, number)
        print(json.dumps([str(date), row.generation, order, token, polls]), flush=True)


def make_tables(root: Path, number: int, count: int, size: int) -> None:
    """Make tables, each at the same instant as the other workers."""
    for table in range(size):
        (root / f"{table}-{number}").touch()
        deadline = time.monotonic() + 60
        while len(list(root.glob(f"{table}-*"))) < count:
            assert time.monotonic() < deadline, "another worker is gone: its error is above"
            time.sleep(0.001)
        assert DeltaSink(path=str(root / f"t{table}")).open(KEY, {}).preflight(LOCAL, (), "day") == []


def publish_until_it_lands(
    sink: DeltaSink, root: Path, date: dt.date, token: str, order: int, number: int
) -> tuple[LedgerRow, int]:
    """Do as the driver does: poll again for each other intent that published meanwhile."""
    overtaken_by: set[str] = set()
    while True:
        attempt = f"{token}-{number}{'r' * len(overtaken_by)}-{date}"
        publish = publish_of(root, date, token, order, attempt)
        try:
            return sink.open(KEY, {}).commit(publish, None, []), len(overtaken_by) + 1
        except OvertakenError as error:
            if error.by in (*overtaken_by, token):
                raise
            overtaken_by.add(error.by)


def workers(root: Path, mode: str, count: int, size: int = 1) -> AbstractContextManager[list[subprocess.Popen[str]]]:
    """Start workers that go at the same instant; none outlives the block."""
    command = [sys.executable, "-W", "error", __file__, str(root)]
    return at_once([[*command, str(i), mode, str(count), str(size)] for i in range(count)])


def state(root: Path) -> dict[dt.date, list[int]]:
    """Return, for each day in the newest version, the orders of its files."""
    days: dict[dt.date, list[int]] = {}
    if DeltaTable.is_deltatable(str(root)):
        for action in pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist():
            days.setdefault(action["partition.day"], []).append(action["num_records"])
    return days


def assert_whole(days: dict[dt.date, list[int]]) -> None:
    for date, orders in days.items():
        assert len(orders) == PARTS, f"part of {date} is visible: {orders}"
        assert len(set(orders)) == 1, f"{date} is of two publishes: {orders}"


def run(root: Path, mode: str, count: int, size: int = 1) -> list[list[object]]:
    """Run workers to their end, watching the table all along."""
    with workers(root, mode, count, size) as running:
        while any(process.poll() is None for process in running):
            assert_whole(state(root))
        lines = [line for process in running if process.stdout for line in process.stdout]
        assert [process.returncode for process in running] == [0] * count
    assert_whole(state(root))
    return [json.loads(line) for line in lines]


def test_a_table_that_many_processes_make_at_once_is_made_once(tmp_path: Path) -> None:
    """A second one above the first has another id: every run of the stream would take the log for a lost one."""
    with workers(tmp_path, "tables", 4, 20) as running:
        assert [process.wait(120) for process in running] == [0] * 4
    for log in tmp_path.glob("t*/_delta_log"):
        assert sum('"metaData"' in path.read_text() for path in log.glob("*.json")) == 1
    assert len(list(tmp_path.glob("t*/_delta_log"))) == 20


MANY = [(4, 16), pytest.param(8, 48, marks=pytest.mark.campaign)]


@pytest.mark.parametrize(("count", "size"), MANY)
def test_one_day_by_many_processes_ends_with_the_newest_generation_of_all(
    tmp_path: Path, count: int, size: int
) -> None:
    found = run(tmp_path / "t", "orders", count, size)
    generations = sorted(int(str(generation)) for _, generation, _, _, _ in found)
    assert generations == list(range(1, size + 1)), "no generation is given twice or left out, and each intent lands"
    order, token = next((order, token) for _, generation, order, token, _ in found if generation == size)
    row = DeltaSink(path=str(tmp_path / "t")).open(KEY, {}).ledger.row(FIRST)
    assert row is not None
    assert (row.token, row.run, row.generation) == (token, f"lab/{token}", size)
    assert state(tmp_path / "t") == ({FIRST: [order] * PARTS} if int(str(order)) % 5 else {})


def test_one_token_by_four_processes_is_published_once(tmp_path: Path) -> None:
    found = run(tmp_path / "t", "token", count=4)
    assert [line[:4] for line in found] == [[str(FIRST), 1, 3, "same"]] * 4
    publishes = [c for c in DeltaTable(str(tmp_path / "t")).history() if "connect.day" in c]
    assert len(publishes) == 1


@pytest.mark.parametrize(("count", "size"), MANY)
def test_many_days_by_many_processes_are_all_there(tmp_path: Path, count: int, size: int) -> None:
    found = run(tmp_path / "t", "days", count, size)
    assert len(found) == 2 * size
    ledger = DeltaSink(path=str(tmp_path / "t")).open(KEY, {}).ledger
    assert len(ledger.days()) == size
    assert set(state(tmp_path / "t")) == set(ledger.days())
    per_day: dict[str, list[int]] = {}
    for date, generation, *_ in found:
        per_day.setdefault(str(date), []).append(int(str(generation)))
    for generations in per_day.values():
        given = sorted(g for g in generations if g)
        assert given == list(range(1, len(given) + 1))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 8))])
def test_a_killed_publisher_leaves_the_old_or_the_new(tmp_path: Path, seed: int) -> None:
    root, chance = tmp_path / "t", random.Random(seed)
    with workers(root, "orders", count=2, size=48) as running:
        time.sleep(chance.uniform(0.01, 0.35))
        for process in running:
            process.send_signal(signal.SIGKILL)
    days = state(root)
    assert_whole(days)
    ledger = DeltaSink(path=str(root)).open(KEY, {}).ledger
    row = ledger.row(FIRST)
    order = int(row.token[1:]) if row is not None else 0
    assert days.get(FIRST, []) == [order] * (PARTS if order % 5 else 0), "ledger and files are of one commit"
    DeltaSink(path=str(root)).open(KEY, {}).preflight(LOCAL, (), "day")
    publish = publish_of(root, FIRST, "after", 99, f"after-{FIRST}")
    again = DeltaSink(path=str(root)).open(KEY, {}).commit(publish, None, [])
    assert again.generation == (row.generation if row else 0) + 1
    assert state(root) == {FIRST: [99] * PARTS}


if __name__ == "__main__":
    worker(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
