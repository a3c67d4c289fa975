"""The work of a task with many streams grows with their number, and not faster. Work is counted, not timed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pytest

from airflow_provider_connect.clients.sql.sqlite import SQLite
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.stage.storage import Folder
from tests.equipment.airflow.streams_task import StreamsTask, Variables
from tests.equipment.sql.shop_file import ShopFile

_COUNTED = (
    (SQLite, "open"),
    (SQLite, "rows"),
    (Variables, "send"),
    (deltalake.DeltaTable, "__init__"),
    (Folder, "files"),
    (Folder, "read"),
    (Folder, "write"),
)
_PAGE = 1000
"""Keys that Airflow 3.3 asks for at once."""


def counting(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of functions that read and write."""
    calls: Counter[str] = Counter()
    lock = threading.Lock()  # offsets are written in several threads

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            with lock:
                calls[name] += 1
            return function(*args, **options)

        return call

    for owner, name in _COUNTED:
        counted_function: Any = counted(f"{owner.__name__}.{name}", getattr(owner, name))
        patch.setattr(owner, name, staticmethod(counted_function) if name == "open" else counted_function)
    return calls


@pytest.fixture
def calls_of_loads(tmp_path: Path) -> Callable[[int], list[Counter[str]]]:
    """Load tables twice into a lake of their own. Returns the calls of each load."""

    def load(tables: int) -> list[Counter[str]]:
        folder = tmp_path / str(tables)
        folder.mkdir()
        loads = []
        with pytest.MonkeyPatch.context() as patch:
            shop = ShopFile(folder / "shop.db", patch)
            shop.make(*(f"t{number}" for number in range(tables)), rows=1)
            task = StreamsTask(folder)
            calls = counting(patch)
            for day in (5, 6):
                calls.clear()
                task.run(task.operator(["*"], parallel_streams=1), day=day)
                loads.append(Counter(calls))
        return loads

    return load


def test_each_more_stream_costs_as_much_as_the_one_before(
    calls_of_loads: Callable[[int], list[Counter[str]]],
) -> None:
    for few, some, many in zip(*map(calls_of_loads, (2, 5, 8)), strict=True):
        assert {name: some[name] - few[name] for name in some} == {name: many[name] - some[name] for name in many}


def test_the_keys_of_more_variables_than_a_page_are_read_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = StreamsTask(tmp_path)
    task.variables.values = {f"connect_offset/sql/{number:04}": "" for number in range(2 * _PAGE)}
    messages = []

    def send(msg: Any) -> Any:
        assert len(messages) < 10, "the pages have no end"
        messages.append(msg)
        return Variables.send(task.variables, msg)

    monkeypatch.setattr(task.variables, "send", send)
    with task.supervised(task.operator("orders")):
        assert variables.keys("connect_offset/") == sorted(task.variables.values)
    assert [msg.offset for msg in messages] == [0, _PAGE, 2 * _PAGE]
