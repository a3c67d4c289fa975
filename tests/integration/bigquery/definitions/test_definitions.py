"""Definitions and notes against the emulator: what the fence row says, what lies beside it, and older ledgers."""

from __future__ import annotations

import datetime as dt
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.tables import create_table, fields_of, find_table
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sink import DefinitionInForce, StreamKey
from airflow_provider_connect.sinks._bigquery.ledger import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.notes import NOTE_FIELDS, notes_table, write_note
from airflow_provider_connect.sinks._bigquery.target import ensure_target
from airflow_provider_connect.stage.definition import StreamDefinition, digest_of
from airflow_provider_connect.stage.notes import Alarm, alarm_note, definition_note
from tests.equipment.bigquery.publish_bench import KEY, Bench, row

pytestmark = pytest.mark.slow
SIGNUPS, VIEWS = (StreamDefinition(narrowing={"event": event}) for event in ("signup", "page view's ö"))
TASK, OTHER = digest_of("dag/task"), "other/run/task"


def fences(bench: Bench) -> list[dict[str, Any]]:
    return bench.query(f"SELECT definition, run FROM {bench.ledger.sql} WHERE day IS NULL")


def test_the_fence_row_names_the_definition_in_force_and_its_task(bench: Bench) -> None:
    """It is changed by what goes through alone, and only where something is new."""
    bench.publish(2, 1, [row(1)], definition=SIGNUPS.digest)
    assert bench.book().definition_in_force() == DefinitionInForce(SIGNUPS.digest, TASK)
    bench.publish(3, 2, [row(2)], definition=SIGNUPS.digest)
    assert fences(bench) == [{"definition": SIGNUPS.digest, "run": "dag/task"}]
    stale = bench.plan(4, 3, [row(3)], definition=SIGNUPS.digest)
    bench.publish(1, 4, [row(4)], definition=VIEWS.digest, run=OTHER)
    changed = [{"definition": VIEWS.digest, "run": "other/task"}]
    assert fences(bench) == changed
    before = bench.rows()
    with pytest.raises(OvertakenError, match=VIEWS.digest):
        bench.run(stale)
    bench.publish(5, 5, [row(5)])
    assert (fences(bench), bench.rows()[:-1]) == (changed, before)
    # A job of the same stream that looked when nothing was in force may not pass either.
    lost = bench.plan(6, 6, [row(6)])
    with pytest.raises(OvertakenError):
        bench.run(_defined(lost, SIGNUPS.digest))
    bench.publish(1, 7, [row(4)], definition=VIEWS.digest)
    assert fences(bench) == [{"definition": VIEWS.digest, "run": "dag/task"}]


def _defined(plan: Any, definition: str) -> Any:
    publish = replace(plan.publish, definition=definition)
    return replace(plan, publish=publish, row=plan.row.model_copy(update={"definition": definition}))


def test_a_lost_fence_row_comes_back_with_the_definition_of_the_newest_publish(bench: Bench) -> None:
    """Else the next load of another task would pass unseen."""
    bench.publish(2, 1, [row(1)], definition=SIGNUPS.digest, answer="a")
    bench.publish(1, 2, [row(2)], definition=VIEWS.digest, run=OTHER)
    bench.confirm(bench.plan(2, 3, [], answer="a"))
    bench.publish(3, 4, [row(3)])
    erased = f"SELECT 'erase/1' AS run, '{SIGNUPS.digest}' AS definition"
    kept = "target, connector, stream, day, token, row_count"
    bench.query(
        f"INSERT INTO {bench.ledger.sql} ({kept}, generation, run, definition, published_at) "
        f"SELECT l.target, l.connector, l.stream, l.day, 'e', 0, l.generation + 1, e.run, e.definition, "
        f"CURRENT_TIMESTAMP() FROM {bench.ledger.sql} AS l CROSS JOIN ({erased}) AS e "
        "WHERE l.day = DATE '2026-09-02' AND l.checks = 0"
    )
    bench.query(f"DELETE FROM {bench.ledger.sql} WHERE day IS NULL")
    assert bench.book().definition_in_force() is None
    bench.prepare()
    assert bench.book().definition_in_force() == DefinitionInForce(VIEWS.digest, digest_of("other/task"))
    bench.prepare()
    assert len(fences(bench)) == 1


def test_a_ledger_of_the_previous_version_is_read_and_gets_the_column(bench: Bench) -> None:
    """What it has beside the new column must not be lost meanwhile: checks are compared, and spans followed."""
    day, earlier = dt.date(2026, 9, 1), [field for field in LEDGER_FIELDS if field["name"] != "definition"]
    ensure_target(bench.api, bench.target, bench.options, bench.schema)
    create_table(bench.api, bench.ledger, earlier)
    stream = f"'{bench.target.id}', 'mixpanel', 'export'"
    span = '{"number": 4, "after": null, "to": "7"}'
    bench.query(
        f"INSERT INTO {bench.ledger.sql} (target, connector, stream, day, generation, token, run, row_count, checks, "
        f"answer, span_number, span) VALUES ({stream}, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        f"({stream}, DATE '{day}', 1, 'old', 'dag/run/task', 7, 2, 'a', 4, '{span}')"
    )
    book = bench.book()
    assert book.definition_in_force() is None
    found = book.row(day)
    assert found is not None
    assert (found.checks, found.answer, found.span and found.span.to, found.definition) == (2, "a", "7", None)
    assert book.newest(dt.date(2026, 9, 2), "increment") == found
    assert [*book.between(day, day), book.published(day, "old")] == [found, found]
    with ThreadPoolExecutor(2) as pool:
        for ready in [pool.submit(bench.prepare) for _ in range(2)]:
            ready.result()
    assert fields_of(find_table(bench.api, bench.ledger)) == LEDGER_FIELDS
    assert (book.row(day), book.definition_in_force()) == (found, None)
    assert bench.publish(1, 2, [row(1)], definition=SIGNUPS.digest).generation == 2
    bench.query(  # a job of the earlier version that is still running
        f"INSERT INTO {bench.ledger.sql} (target, connector, stream, day, generation, token, run, row_count) VALUES "
        f"({stream}, DATE '2026-09-02', 1, 'old too', 'old/run/task', 1)"
    )
    assert book.definition_in_force() == DefinitionInForce(SIGNUPS.digest, TASK)


def test_the_first_note_creates_the_table_of_notes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    place, notes = notes_table(bench.target), [definition_note(SIGNUPS, "dag/run/task"), definition_note(VIEWS, OTHER)]
    bench.publish(1, 1, [row(1)], definition=SIGNUPS.digest)
    assert (find_table(bench.api, place), bench.book().notes()) == (None, [])
    for note in (*notes, notes[0].model_copy(update={"run": "again"})):
        write_note(bench.api, bench.target, KEY, note)
    write_note(bench.api, bench.target, StreamKey(connector="mixpanel", stream="other"), definition_note(VIEWS, "x"))
    table = find_table(bench.api, place)
    assert (fields_of(table), table.clustering_fields) == (NOTE_FIELDS, ["target", "connector", "stream"])
    assert place.table == f"{bench.target.table}__notes"
    # Two that looked at the same moment: whichever row is older is the note.
    columns = ", ".join(field["name"] for field in NOTE_FIELDS)
    late = columns.replace("noted_at", "TIMESTAMP_ADD(noted_at, INTERVAL 1 SECOND)").replace("run", "'late'")
    bench.query(
        f"INSERT INTO {place.sql} ({columns}) SELECT {late} FROM {place.sql} AS n WHERE n.id = '{VIEWS.digest}'"
    )
    page = (Path(__file__).parents[4] / "docs/bigquery.md").read_text(encoding="utf-8")
    [shown] = [block for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "__notes" in block]
    shown = shown.replace("analytics.events__ledger", bench.ledger.sql).replace("analytics.events__notes", place.sql)
    [known] = bench.query(shown)
    assert (known["day"], StreamDefinition(**json.loads(known["content"]))) == (dt.date(2026, 9, 1), SIGNUPS)
    asked: list[str] = []
    monkeypatch.setattr(BigQueryApi, "query", lambda self, sql, **_: asked.append(sql))
    assert sorted(bench.book().notes(), key=lambda note: note.run) == notes
    assert asked == [], "a job reads the notes without a query"


def test_a_foreign_table_in_place_of_the_notes_is_refused(bench: Bench) -> None:
    create_table(bench.api, notes_table(bench.target), [{"name": "other", "type": "STRING", "mode": "NULLABLE"}])
    with pytest.raises(ConfigError, match="__notes is in the way"):
        write_note(bench.api, bench.target, KEY, definition_note(SIGNUPS, "dag/run/task"))


def test_a_notes_text_never_becomes_sql(bench: Bench) -> None:
    alarm = alarm_note(Alarm(number=1, position='it\'s \\ "7"\n\0 `x`', reason="' OR TRUE; -- ö 🙂"), "dag/it's/task")
    write_note(bench.api, bench.target, KEY, alarm)
    assert bench.book().notes() == [alarm]
