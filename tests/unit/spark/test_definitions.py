"""A stream's definition is compared with the ledger before a poll: whole jobs, a real database and real tables."""

from __future__ import annotations

import datetime as dt
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import definition_of
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent, Ledger, Publisher, StreamKey
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.definitions import DefinitionGuard
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Resumption,
    acceptance_note,
    answers_before,
    newest_alarm,
    notes_of,
    resumption_note,
)
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.delta.lab import Lab, rows_of
from tests.equipment.spark.here import drive

MONDAY = dt.date(2026, 10, 5)
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY
KEY = StreamKey(connector="sql", stream="shop.orders")
BY_DAY = {"day_column": "at"}
FOLLOWED = {"mode": "incrementing", "incrementing_column": "id"}


class Shop:
    """A file of SQLite with orders, and the table that tasks load them into."""

    def __init__(self, root: Path) -> None:
        self.root, self.file, self.path = root, root / "shop.db", root / "table"
        self._runs = 0
        self.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, at TIMESTAMP NOT NULL)"
        )

    def execute(self, *statements: str) -> None:
        with sqlite3.connect(self.file) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    def order(self, date: dt.date, *events: str) -> None:
        self.execute(*(f"INSERT INTO orders (event, at) VALUES ('{event}', '{date} 12:00:00')" for event in events))

    def run(
        self, *dates: dt.date, task: str = "load", written: dict[str, Any] | None = None, **options: Any
    ) -> JobReport:
        """Run a job of a new intent of a task.

        :param written: the options as a DAG file has them, where they are templates there.
        """
        self._runs += 1
        source = SqlSource(conn_id="shop", table="orders", **options)
        connection = Connection(conn_id="shop", conn_type="sqlite", host=str(self.file))
        job = JobConfig(
            source_name="sql",
            source=source.serialize(),
            sink_name="delta",
            sink={"path": str(self.path)},
            days=tuple(Day(date=date) for date in dates),
            intent=Intent(token=f"{self._runs:032x}", run=f"dag/run-{self._runs}/{task}"),
            attempt=f"{self._runs:016x}-1",
            report=str(self.root / f"run-{self._runs}" / "report.json"),
            progress_seconds=1,
            definition=definition_of(source, source.serialize() | (written or {}), connection),
        )
        return drive(job, {"shop": connection})

    @property
    def publisher(self) -> Publisher:
        return DeltaSink(path=str(self.path)).open(KEY, {})

    @property
    def ledger(self) -> Ledger:
        return self.publisher.ledger

    def rows(self) -> list[str]:
        return rows_of(self.path)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    for date in (MONDAY, TUESDAY):
        shop.order(date, f"signup-{date.day}", f"view-{date.day}")
    return shop


def refusal(report: JobReport) -> str:
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    return report.failure.message


SIGNUPS, VIEWS = {"where": "event LIKE 'signup%'"}, {"where": "event LIKE 'view%'"}


def test_another_task_with_another_narrowing_is_refused_before_it_polls(shop: Shop) -> None:
    assert shop.run(MONDAY, task="signups", **BY_DAY, **SIGNUPS).failure is None
    said = refusal(shop.run(MONDAY, task="views", **BY_DAY, **VIEWS))
    assert "where was event LIKE … #" in said
    assert "dag/run-1/signups" in said
    assert "a target of its own" in said
    assert "airflow connect accept dag views" in said
    assert shop.rows() == ["signup-5"]


def test_a_refusal_names_nobody_rather_than_the_wrong_task(shop: Shop) -> None:
    shop.run(MONDAY, task="one", **BY_DAY)
    shop.run(TUESDAY, task="other", **BY_DAY)
    said = refusal(shop.run(WEDNESDAY, task="one", **BY_DAY, **SIGNUPS))
    assert "The target's days were loaded by another task" in said
    assert "/one" not in said


def test_mapped_tasks_are_tasks_of_their_own(shop: Shop) -> None:
    assert shop.run(MONDAY, task="load[0]", **BY_DAY, **SIGNUPS).failure is None
    said = refusal(shop.run(TUESDAY, task="load[1]", **BY_DAY, **VIEWS))
    assert "where was" in said
    # The command line refuses a mapped task: the way out names one that it can look at.
    assert "airflow connect accept dag load" not in said
    assert said.endswith(
        "airflow connect accept DAG TASK, where DAG TASK is a task that is not mapped, with the source and the sink of "
        "dag.load[1]"
    )


def test_a_task_that_changes_its_own_narrowing_goes_on_and_says_which_days_lack_it(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    shop.run(MONDAY, **BY_DAY, **SIGNUPS)
    report = shop.run(TUESDAY, **BY_DAY)
    assert report.failure is None
    (warning,) = report.warnings
    assert warning.startswith("where was event LIKE … #")
    assert "and is null. Loaded otherwise: 1 of 1 published days" in warning
    assert "airflow connect plan dag load --changed --days 2026-10-05..2026-10-05" in warning
    assert warning in capfd.readouterr().err
    assert report.totals()["warnings"] == [warning]
    assert shop.run(WEDNESDAY, **BY_DAY).warnings == ()  # told once: the newest day has the new one
    assert shop.rows() == ["signup-5", "signup-6", "view-6"]


def test_equal_definitions_go_on_whoever_runs(shop: Shop) -> None:
    assert shop.run(MONDAY, task="one", **BY_DAY).failure is None
    report = shop.run(TUESDAY, task="other", **BY_DAY)
    assert (report.failure, report.warnings) == (None, ())


def test_a_template_is_the_same_part_each_day(shop: Shop) -> None:
    written = {"where": "at < '{{ next_ds }}'"}
    for date in (MONDAY, TUESDAY):
        report = shop.run(date, **BY_DAY, where=f"at < '{date + ONE_DAY}'", written=written)
        assert (report.failure, report.warnings) == (None, ())
    assert len(notes_of(shop.ledger.notes(), "definition")) == 1


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (BY_DAY, BY_DAY | {"zone": "Asia/Tokyo"}, "zone was UTC, and is Asia/Tokyo"),
        (BY_DAY, BY_DAY | {"db_timezone": "US/Pacific"}, "db_timezone was UTC, and is US/Pacific"),
        ({"snapshot": "replace"}, FOLLOWED, "kind was snapshot, and is increment"),
        (FOLLOWED, {"mode": "timestamp", "timestamp_column": "at"}, "mode was incrementing, and is timestamp"),
        (BY_DAY, {"day_column": "changed_at"}, "day_column was at, and is changed_at"),
    ],
    ids=["zone", "clock", "kind", "cursor", "day column"],
)
def test_another_way_of_reading_waits_until_a_person_accepts_it(
    shop: Shop, before: dict[str, str], after: dict[str, str], part: str
) -> None:
    shop.execute("ALTER TABLE orders ADD COLUMN changed_at TIMESTAMP", "UPDATE orders SET changed_at = at")
    assert shop.run(MONDAY, **before).failure is None
    rows = shop.rows()
    said = refusal(shop.run(TUESDAY, **after))
    assert part in said
    assert "Set it as before, or give this task a target of its own" in said
    assert shop.rows() == rows
    source = SqlSource(conn_id="shop", table="orders", **after)
    connection = Connection(conn_id="shop", conn_type="sqlite", host=str(shop.file))
    in_force = shop.ledger.definition_in_force()
    assert in_force is not None
    accepted = definition_of(source, source.serialize(), connection).options_digest
    acceptance = acceptance_note(Acceptance(published=in_force.digest, accepted=accepted), "cli/host/person")
    shop.publisher.note(acceptance)
    report = shop.run(TUESDAY, **after)
    # A stream of another kind goes on with a ledger of another kind only in a target of its own: the sinks say so.
    if report.failure is None:
        assert part in "; ".join(report.warnings)
        assert part not in "; ".join(shop.run(WEDNESDAY, **after).warnings)
    else:
        assert part not in report.failure.message


def test_days_before_definitions_are_told_of_once(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.order(MONDAY, "a")
    shop.run(MONDAY, **BY_DAY)
    forget_definitions(shop)
    report = shop.run(TUESDAY, **BY_DAY, **SIGNUPS)
    assert report.failure is None
    assert report.warnings == (
        "days published before the ledger kept definitions: 1. Their options cannot be compared",
    )
    assert shop.run(WEDNESDAY, **BY_DAY, **SIGNUPS).warnings == ()


@pytest.mark.parametrize("identifies_by_key", [True, False])
def test_a_key_that_an_earlier_version_made_otherwise_is_refused_where_rows_are_kept_by_it(
    shop: Shop, identifies_by_key: bool
) -> None:
    shop.run(MONDAY, **BY_DAY)
    forget_definitions(shop)
    source = SqlSource(conn_id="shop", table="orders", **BY_DAY)
    now = StreamDefinition(key=("cust: n", "doc: t"))
    guard = DefinitionGuard(
        now,
        source,
        shop.publisher,
        Intent(token="t", run="dag/r/load"),
        identifies_by_key=identifies_by_key,
        earlier=now.model_copy(update={"key": ("cust: n",)}),
    )
    if not identifies_by_key:
        guard.admit()
        return
    with pytest.raises(ConfigError, match=r"the key was \(cust: n\), and is \(cust: n, doc: t\).*Set key= as before"):
        guard.admit()


def forget_definitions(shop: Shop) -> None:
    """Leave the table as an earlier version of this package would have left it."""
    log = shop.path / "_delta_log"
    for file in log.glob("*.json"):
        lines = [line for line in file.read_text().splitlines() if "/definition" not in line]
        file.write_text("\n".join(lines) + "\n")
    for note in (shop.path / "_connect" / "notes").iterdir():
        note.unlink()


def test_a_definition_outlives_the_logs_clean_up(shop: Shop) -> None:
    shop.run(MONDAY, task="signups", **BY_DAY, **SIGNUPS)
    Lab(shop.path).clean_log()
    assert "where was" in refusal(shop.run(TUESDAY, task="views", **BY_DAY, **VIEWS))
    assert shop.run(TUESDAY, task="signups", **BY_DAY, **VIEWS).warnings


def test_a_day_that_an_earlier_version_loaded_again_has_no_definition(shop: Shop) -> None:
    shop.run(MONDAY, **BY_DAY)
    day, generation = f"connect/{KEY}/{MONDAY}", 2
    DeltaTable(str(shop.path)).create_write_transaction(
        [],
        mode="append",
        schema=DeltaTable(str(shop.path)).schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction(day, generation)]),
    )
    (row,) = shop.ledger.between(MONDAY, MONDAY)
    assert (row.generation, row.definition) == (generation, None)


@pytest.mark.parametrize("text", [b"", b"{", b'{"kind": "rumour"}'], ids=["empty", "half", "of a later version"])
def test_a_file_that_is_no_note_is_named(shop: Shop, text: bytes) -> None:
    shop.run(MONDAY, **BY_DAY)
    notes = shop.path / "_connect" / "notes"
    (notes / "definition-000000000000000.json.7f.tmp").write_bytes(text)  # another writer's, under way
    shop.run(TUESDAY, **BY_DAY, **SIGNUPS)
    (notes / "definition-000000000000000.json").write_bytes(text)
    assert "definition-000000000000000.json is not a note of this version" in refusal(shop.run(WEDNESDAY, **BY_DAY))


def test_a_lost_note_is_told_and_not_passed_over(shop: Shop) -> None:
    shop.run(MONDAY, **BY_DAY)
    for note in (shop.path / "_connect" / "notes").iterdir():
        note.unlink()
    assert "its note is missing" in refusal(shop.run(TUESDAY, **BY_DAY, zone="Asia/Tokyo"))


@pytest.mark.parametrize("rest", ["", '{"kind": "defin'])
def test_a_driver_that_was_killed_while_it_wrote_a_note_stops_nobody(shop: Shop, rest: str) -> None:
    """A local file is written under another name first: what is left of it is no note."""
    shop.run(MONDAY, **BY_DAY)
    (note,) = (shop.path / "_connect" / "notes").iterdir()
    (note.parent / f"{note.name}.{'0' * 32}.tmp").write_text(rest)
    report = shop.run(TUESDAY, **BY_DAY, **SIGNUPS)
    assert report.failure is None
    assert report.warnings


def test_a_note_that_cannot_be_read_is_named(shop: Shop) -> None:
    shop.run(MONDAY, **BY_DAY)
    (note,) = (shop.path / "_connect" / "notes").iterdir()
    note.write_text("{}")
    said = refusal(shop.run(TUESDAY, **BY_DAY, **SIGNUPS))
    assert str(note) in said


def test_a_retry_of_a_published_day_is_compared_with_nothing(shop: Shop) -> None:
    shop.run(MONDAY, task="signups", **BY_DAY, **SIGNUPS)
    shop._runs = 0  # the very same intent
    report = shop.run(MONDAY, task="signups", **BY_DAY, **VIEWS)
    assert [day.status for day in report.days] == ["already_published"]


class TestAlarm:
    """A table that begins anew under a stream that follows it."""

    def begin_anew(self, shop: Shop) -> None:
        shop.run(MONDAY, **FOLLOWED)
        shop.execute("DELETE FROM orders", "DELETE FROM sqlite_sequence")

    def test_it_stands_while_the_table_grows_past_the_old_position(self, shop: Shop) -> None:
        self.begin_anew(shop)
        assert "cannot be followed any more" in refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        said = refusal(shop.run(WEDNESDAY, **FOLLOWED))
        assert "an alarm about lost rows stands" in said
        assert "airflow connect resume dag load --from now" in said
        assert len(shop.rows()) == 4
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        assert alarm.number == 1

    def test_it_is_raised_by_the_next_try_if_the_ledger_could_not_keep_it(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin_anew(shop)

        def away(*_: Any) -> None:
            raise RetriableError("the store is away")

        with monkeypatch.context() as patched:
            patched.setattr(DeltaPublisher, "note", away)
            report = shop.run(TUESDAY, **FOLLOWED)
        assert [day.failure.type for day in report.days if day.failure] == ["RetriableError"]
        assert "cannot be followed any more" in refusal(shop.run(TUESDAY, **FOLLOWED))
        assert newest_alarm(shop.ledger.notes()) is not None

    def test_when_needed_answers_it_and_loads_all_rows_again(self, shop: Shop) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        assert shop.run(WEDNESDAY, **FOLLOWED, snapshot_mode="when_needed").failure is None
        assert sum(row.startswith("new-") for row in shop.rows()) == 15
        shop.order(WEDNESDAY, "newer")
        assert shop.run(WEDNESDAY + ONE_DAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == 16

    @pytest.mark.parametrize(("position_of", "loaded"), [("the end", 1), ("the third row", 13)])
    def test_a_person_answers_it_with_a_position(self, shop: Shop, position_of: str, loaded: int) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        position = alarm.position.replace("4", "15" if position_of == "the end" else "3")
        shop.publisher.note(resumption_note(Resumption(alarm=alarm.id, position=position), "cli/host/person"))
        shop.order(WEDNESDAY, "newer")
        assert shop.run(WEDNESDAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == loaded

    def test_the_last_answer_counts_also_if_it_was_given_before(self, shop: Shop) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        for number in ("3", "15", "3"):
            answer = Resumption(
                alarm=alarm.id,
                position=alarm.position.replace("4", number),
                answers_before=answers_before(shop.ledger.notes(), alarm),
            )
            shop.publisher.note(resumption_note(answer, "cli/host/person"))
        assert shop.run(WEDNESDAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == 12


def test_superseded_days_of_a_snapshot_are_not_to_be_loaded_again(tmp_path: Path) -> None:
    """Their reload would be refused, so that the list of them never ended."""
    shop = Shop(tmp_path)
    shop.order(MONDAY, "signup", "login")
    shop.run(MONDAY, snapshot="replace")
    shop.run(TUESDAY, snapshot="replace")
    report = shop.run(WEDNESDAY, snapshot="replace", where="event = 'signup'")
    text = " ".join([*report.warnings, *(warning for day in report.days for warning in day.warnings)])
    assert "Loaded otherwise: 1 of 1 published days" in text
    assert f"airflow connect plan dag load --changed --days {TUESDAY}..{TUESDAY}" in text
