"""A table for each event, against the emulator: what a publish, a reload, a failure and a rival leave in all tables."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import create_table, drop_table, find_table
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError
from airflow_provider_connect.sinks._bigquery.columns.schema import DAY_FIELD
from airflow_provider_connect.sinks._bigquery.erasing import eraser
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, Bench, Target
from airflow_provider_connect.testing.definitions import DefinitionCases
from airflow_provider_connect.testing.differences import DifferencesCases
from airflow_provider_connect.window import ONE_DAY

pytestmark = pytest.mark.slow
TUESDAY = MONDAY + ONE_DAY
OLD = ["login", "login", "Sign Up", "x__ledger"]
NEW = ["login", "buy", "buy"]


class Lake:
    """A dataset with the tables of a template."""

    def __init__(self, connection: Connection, dataset: str, root: Path, **options: Any) -> None:
        self.connections = {"google_cloud_default": connection}
        self.sink = BigQuerySink(table=f"{dataset}.mp_{{event}}", **options)
        self.publisher: Any = self.sink.open(KEY, self.connections)
        root.mkdir(exist_ok=True)
        self.bench = Bench(Target(self.sink, self.rows, self.connections), self.publisher, root)
        self.dataset, self.root = dataset, root
        self.numbers = itertools.count(1)

    @property
    def api(self) -> BigQueryApi:
        api: BigQueryApi = self.publisher.api
        return api

    def table_of(self, event: str) -> str:
        assert self.sink.tables is not None
        return self.sink.tables.folder_name(event)

    def place(self, table: str) -> TableRef:
        return TableRef(self.api.project, self.dataset, table)

    def tables(self) -> list[str]:
        """Return the events' tables."""
        found = self.api.client.list_tables(f"{self.api.project}.{self.dataset}", timeout=30, retry=None)
        return sorted(item.table_id for item in found if not item.table_id.startswith("_connect_head"))

    def rows(self) -> list[Any]:
        """Return day and event of every row; each table has one event's."""
        rows = []
        for name in self.tables():
            sql = f"SELECT day, event FROM {self.place(name).sql}"
            found = [(row["day"], row["event"]) for row in self.query(sql)]
            assert len({event for _, event in found}) <= 1
            rows += found
        return rows

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.api.query(sql, action="reading", labels={"connect": "test"})[0]

    def shown(self, day: Any = MONDAY) -> Counter[str]:
        return Counter(event for date, event in self.rows() if date == day)

    def stage(self, rows: list[str], day: Any = MONDAY, **how: Any) -> Any:
        return self.bench.stage(day, rows, next(self.numbers), **how)

    def put(self, rows: list[str], day: Any = MONDAY, **how: Any) -> Any:
        return self.bench.publish(self.stage(rows, day, **how))


@pytest.fixture
def lake(google_connection: Connection, dataset: str, tmp_path: Path) -> Iterator[Lake]:
    made = Lake(google_connection, dataset, tmp_path / "stage")
    assert made.publisher.preflight(SCHEMA, DAYS, "day") == []
    yield made
    made.publisher.close()


def test_a_day_is_split_reloaded_and_emptied_under_one_row_of_the_ledger(lake: Lake) -> None:
    row = lake.put(OLD, files=2, rejected=1)
    assert (row.generation, row.rows, row.counts["rejected"]) == (1, 4, 1)
    assert lake.shown() == Counter(OLD)
    assert lake.tables() == sorted(["mp_login", lake.table_of("Sign Up"), lake.table_of("x__ledger")])
    lake.put(OLD, TUESDAY)
    assert lake.publisher.preflight(SCHEMA, DAYS, "day") == []
    row = lake.put(NEW, answer="a1")
    assert (row.generation, row.rows) == (2, 3)
    assert lake.bench.ledger.row(MONDAY) == row
    assert (lake.shown(), lake.shown(TUESDAY)) == (Counter(NEW), Counter(OLD))

    confirmed = lake.publisher.confirm(lake.stage(NEW, answer="a1"))
    assert (confirmed.generation, confirmed.checks) == (2, 1)
    assert lake.put([]).rows == 0
    assert (lake.shown(), lake.shown(TUESDAY)) == (Counter(), Counter(OLD))
    assert list(lake.bench.ledger.days()) == [MONDAY, TUESDAY]
    assert lake.bench.ledger.tables_with_rows(TUESDAY, 1) == {name: name != "mp_buy" for name in lake.tables()}


def test_a_failure_between_two_tables_changes_none_and_the_retry_changes_all(lake: Lake) -> None:
    lake.put(OLD)
    staged = lake.stage(["a new one", *NEW])
    token, receipts = lake.bench.send(staged)
    missing = lake.place("mp_buy")
    drop_table(lake.api, missing)
    before = lake.bench.state()
    with pytest.raises(ConnectError):
        lake.publisher.commit(staged, token, receipts)
    assert lake.bench.state() == before
    lake.publisher.abort(staged, token)

    with lake.bench.another_process() as retry:
        assert lake.bench.publish(staged, retry).generation == 2
        assert retry.commit(staged, token, receipts).generation == 2, "the dead try wakes up, and finds it done"
    assert lake.shown() == Counter(["a new one", *NEW])


def test_of_two_attempts_the_later_one_changes_no_table(lake: Lake) -> None:
    lake.put(OLD)
    older, newer = lake.stage(["login", "login", "seen by the older alone"]), lake.stage(NEW)
    sent = lake.bench.send(older)
    with lake.bench.another_process() as other:
        row = lake.bench.publish(newer, other)
    with pytest.raises(OvertakenError):
        lake.publisher.commit(older, *sent)
    assert lake.bench.ledger.row(MONDAY) == row
    assert lake.shown() == Counter(NEW)


def test_changes_of_a_reload_are_counted_over_all_tables(lake: Lake) -> None:
    DifferencesCases().test_what_a_reload_changes_is_counted_and_nothing_is_changed_by_that(lake.bench)


@pytest.mark.parametrize(
    "case",
    [
        DefinitionCases.test_a_published_day_keeps_the_definition_that_it_was_loaded_with,
        DefinitionCases.test_a_publish_that_did_not_see_the_definition_in_force_is_refused,
        DefinitionCases.test_an_erase_leaves_the_day_s_definition_and_the_one_in_force,
    ],
)
def test_the_ledger_of_the_head_keeps_definitions_of_days_in_all_tables(lake: Lake, case: Any) -> None:
    case(DefinitionCases(), lake.bench)


def test_people_are_erased_from_all_tables_and_the_next_publish_replaces_the_rest(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies between two days, and the next call does the rest."""
    lake.put(OLD)
    lake.put(["login", "buy"], TUESDAY)
    assert lake.publisher.find("event", ["login", "nobody"]) == {MONDAY: 2, TUESDAY: 1}
    stale = lake.stage(["login", "buy"], TUESDAY)
    monkeypatch.setattr(eraser, "MAX_DAYS_PER_TRANSACTION", 1)
    run, scripts = eraser.TableEraser._run, 0

    def dying(self: Any, script: Any, doing: str) -> Any:
        nonlocal scripts
        scripts += 1
        if scripts == 3:
            raise KeyboardInterrupt
        return run(self, script, doing)

    monkeypatch.setattr(eraser.TableEraser, "_run", dying)
    with pytest.raises(KeyboardInterrupt):
        lake.publisher.erase("event", ["login", "Sign Up"], "day")
    assert (lake.shown(), lake.shown(TUESDAY)) == (Counter(["x__ledger"]), Counter(["login", "buy"]))
    assert dict(lake.publisher.erase("event", ["login", "Sign Up"], "day").rows) == {TUESDAY: 1}
    rows = {row.day: row for row in lake.bench.ledger.between(MONDAY, TUESDAY)}
    assert [(row.generation, row.rows, row.counts["erased"]) for row in rows.values()] == [(2, 1, 3), (2, 1, 1)]
    assert {name for name, there in lake.bench.ledger.tables_with_rows(MONDAY, 2).items() if there} == {
        lake.table_of("x__ledger")
    }

    with pytest.raises(OvertakenError) as caught:
        lake.bench.publish(stale)
    assert caught.value.is_erase
    lake.put(["buy"])
    assert (lake.shown(), lake.shown(TUESDAY)) == (Counter(["buy"]), Counter(["buy"]))
    drop_table(lake.api, lake.place("mp_login"))
    with pytest.raises(ConfigError, match="mp_login is gone"):
        lake.publisher.find("event", ["login"])


def test_new_columns_reach_a_table_when_it_has_rows(lake: Lake) -> None:
    fewer = SCHEMA.remove(SCHEMA.get_field_index("amount"))
    lake.bench.publish(replace(lake.stage(OLD), schema=fewer))
    lake.put(NEW)
    found = lake.query(f"SELECT amount FROM {lake.place('mp_login').sql} WHERE day = DATE '{MONDAY}'")
    assert [row["amount"] for row in found] == [0.0]


def test_foreign_and_lost_tables_are_refused(lake: Lake) -> None:
    create_table(lake.api, lake.place("mp_buy"), [{"name": "event", "type": "STRING", "mode": "NULLABLE"}, DAY_FIELD])
    lake.query(f"INSERT INTO {lake.place('mp_buy').sql} (event, day) VALUES ('mine', DATE '{MONDAY}')")
    with pytest.raises(ConfigError, match=r"mp_buy is in the way: .*bq update --set_label connect_ledger:"):
        lake.put(NEW)
    assert lake.shown() == Counter(["mine"])
    lake.put(OLD)
    drop_table(lake.api, lake.place("mp_login"))
    (problem,) = lake.publisher.preflight(SCHEMA, DAYS, "day")
    assert re.search(r"mp_login is gone, but .*__ledger says that it held days", problem)
    with pytest.raises(ConfigError, match="mp_login is gone"):
        lake.put(["login"])
    assert find_table(lake.api, lake.place("mp_login")) is None


def test_limits_and_missing_columns_are_refused(lake: Lake) -> None:
    few = Lake(lake.connections["google_cloud_default"], lake.dataset, lake.root, max_tables=3)
    few.numbers = lake.numbers
    few.put(OLD)
    with pytest.raises(ConfigError, match=r"mp_\{event\}': 4 tables or more are needed.*max_tables=3"):
        few.put(NEW)
    assert few.shown() == Counter(OLD)
    (problem,) = few.publisher.preflight(SCHEMA.remove(0), DAYS, "day")
    assert "the source has no column 'event'" in problem
    (problem,) = few.publisher.preflight(SCHEMA, DAYS, "snapshot")
    assert "Set snapshot='daily'" in problem
    few.publisher.close()
