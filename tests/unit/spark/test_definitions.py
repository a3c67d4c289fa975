"""A stream's definition is compared with the ledger before a poll: whole jobs, a real database and real tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark.capabilities.definitions import DefinitionGuard
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    acceptance_note,
    notes_of_kind,
)
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import Lab
from tests.equipment.spark.shop import BY_DAY, FOLLOWED, KEY, MONDAY, SIGNUPS, TUESDAY, VIEWS, WEDNESDAY, Shop, refusal


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
    assert len(notes_of_kind(shop.ledger.notes(), "definition")) == 1


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
    accepted = build_definition(source, source.serialize(), connection).options_digest
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
    sink: Any = SimpleNamespace(identifies_by_key=lambda kind: identifies_by_key, replaces_whole=lambda kind: False)
    now = StreamDefinition(key=("cust: n", "doc: t"))
    guard = DefinitionGuard(
        now,
        source,
        sink,
        shop.publisher,
        Intent(token="t", run="dag/r/load"),
        earlier_definition=now.model_copy(update={"key": ("cust: n",)}),
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
