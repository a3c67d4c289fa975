"""The ledger against the emulator: what it tells, and what happens when it is gone."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import MissingError
from airflow_provider_connect.clients.bigquery.tables import create_table, fields_of, find_table
from airflow_provider_connect.errors import ConfigError, OvertakenError, RetriableError
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks._bigquery import ledger as _bigquery_ledger
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, ensure_ledger
from airflow_provider_connect.sinks._bigquery.ledger_rows import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.target import ensure_target
from tests.equipment.bigquery.publish_bench import KEY, Bench, row

pytestmark = pytest.mark.slow
LATER = ("checks", "answer", "erased", "tables", "span_number", "span", "definition")
"""Columns that earlier versions did not make."""


def test_a_lost_fence_row_stops_a_publish(bench: Bench) -> None:
    bench.publish(2, 1, [row(2)])
    plan = bench.plan(1, 1, [row(1)])
    bench.query(f"DELETE FROM {bench.ledger.sql} WHERE day IS NULL")
    with pytest.raises(RetriableError, match="lost the fence row"):
        bench.run(plan)
    bench.prepare()
    assert bench.run(plan).generation == 1


def test_two_streams_do_not_delete_each_others_days(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    other = StreamKey(connector="mixpanel", stream="other")
    with pytest.raises(ConfigError, match="another stream has published into"):
        ensure_ledger(bench.api, bench.ledger, bench.target, other, write_mode="replace")
    ensure_ledger(bench.api, bench.ledger, bench.target, other, write_mode="append")
    with pytest.raises(ConfigError, match="another stream has published into"):
        bench.publish(1, 1, [row(2)], key=other)
    assert bench.rows() == [(1, 1, 1)]


def test_the_ledger_of_a_missing_table_is_empty(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.book().row(dt.date(2026, 9, 1)) is None
    assert len(bench.book().days()) == 0
    monkeypatch.setattr(_bigquery_ledger, "SETTLE_SECONDS", 0.2)
    elsewhere = BigQueryLedger(
        bench.api, replace(bench.target, dataset="nowhere"), replace(bench.ledger, dataset="nowhere"), KEY
    )
    assert elsewhere.published(dt.date(2026, 9, 1), "t") is None


def test_the_ledger_returns_published_days_and_intents(bench: Bench) -> None:
    old = bench.publish(1, 1, [row(1)], token="old")
    new = bench.publish(1, 2, [row(1), row(2)], token="new")
    day = dt.date(2026, 9, 1)
    book = bench.book()
    assert book.row(day) == new
    assert book.published(day, "old") == old
    assert book.published(day, "unknown") is None
    strict = bench.book(on_published_day="refuse")
    assert strict.published(day, "old") == old
    with pytest.raises(ConfigError, match="already has this day"):
        strict.published(day, "unknown")
    kept = bench.query(f"SELECT run, load_method, stream_count, streams FROM {bench.ledger.sql} WHERE token = 'new'")
    assert kept == [
        {"run": "dag/run'2/task", "load_method": "storage_write", "stream_count": 2, "streams": ["s1", "s2"]}
    ]


def test_a_confirmation_repeats_the_row_and_touches_no_other_table(bench: Bench) -> None:
    day, book = dt.date(2026, 9, 1), bench.book()
    first = bench.publish(1, 1, [row(1), row(2)], answer="a")
    other = bench.publish(2, 1, [row(3)])
    late, retried = bench.plan(1, 9, [row(9)], answer="b"), bench.plan(1, 2, [], answer="a")
    before = bench.rows()
    found = bench.confirm(retried)
    assert found == first.model_copy(update={"checks": 1, "token": "token-1-2", "run": "dag/run'2/task"})
    assert bench.confirm(retried) == found
    last = bench.confirm(bench.plan(1, 3, [], answer="a"))
    assert last == found.model_copy(update={"checks": 2, "token": "token-1-3", "run": "dag/run'3/task"})
    assert [book.row(day), book.newest(day, "day")] == [last, last]
    assert book.between(day, dt.date(2026, 9, 2)) == [last, other]
    assert [book.published(day, row.token) for row in (first, found, last)] == [first, found, last]
    assert list(book.days()) == [day, other.day]
    page = (Path(__file__).parents[3] / "docs/bigquery.md").read_text(encoding="utf-8")
    [shown] = [block for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "QUALIFY" in block]
    now = bench.query(shown.replace("analytics.events__ledger", bench.ledger.sql))
    assert sorted((row["day"], row["token"]) for row in now) == [(day, last.token), (other.day, other.token)]
    with pytest.raises(OvertakenError, match="has confirmed generation 1"):
        bench.run(late)
    with pytest.raises(OvertakenError):
        bench.confirm(bench.plan(1, 4, [], answer="another"))
    assert (bench.rows(), book.row(day)) == (before, last)
    reloaded = bench.publish(1, 5, [row(1)], answer="a")
    assert (reloaded.generation, reloaded.checks) == (2, 0)


def test_a_ledger_of_an_earlier_version_is_read_and_upgraded_and_confirms_nothing(bench: Bench) -> None:
    day, earlier = dt.date(2026, 9, 1), [field for field in LEDGER_FIELDS if field["name"] not in LATER]
    ready = ensure_target(bench.api, bench.target, bench.options, bench.schema)
    create_table(bench.api, bench.ledger, earlier)
    stream = f"'{bench.target.id}', 'mixpanel', 'export'"
    bench.query(
        f"INSERT INTO {bench.ledger.sql} (target, connector, stream, day, generation, token, row_count, counts, "
        f"polled_at) VALUES ({stream}, NULL, 0, NULL, NULL, NULL, NULL), "
        f"({stream}, DATE '{day}', 1, 'old', 7, JSON '{{\"rows_read\": 8}}', TIMESTAMP '2026-09-02 12:00:00+00')"
    )
    book = bench.book()
    found = book.row(day)
    assert (found.rows, found.counts, found.checks, found.answer) == (7, {"rows_read": 8}, 0, None)
    assert found.polled_at == dt.datetime(2026, 9, 2, 12, tzinfo=dt.UTC)
    assert [book.published(day, "old"), *book.between(day, day)] == [found, found]
    assert list(book.days()) == [day]
    assert bench.prepare().columns == ready.columns
    bench.prepare()
    assert fields_of(find_table(bench.api, bench.ledger)) == LEDGER_FIELDS
    assert book.row(day) == found
    for answer in ("a", None):
        with pytest.raises(OvertakenError):
            bench.confirm(bench.plan(1, 2, [], answer=answer))
    assert bench.publish(1, 2, [row(1)], answer="a").generation == 2
    assert bench.confirm(bench.plan(1, 3, [], answer="a")).checks == 1
    seen_before = bench.plan(1, 4, [], answer="a")
    bench.query(  # a job of the earlier version that is still running
        f"INSERT INTO {bench.ledger.sql} (target, connector, stream, day, generation, token, row_count) VALUES "
        f"({stream}, DATE '{day}', 3, 'old too', 1)"
    )
    for row_ in (book.row(day), *book.between(day, day)):
        assert (row_.generation, row_.checks, row_.answer, row_.token) == (3, 0, None, "old too")
    with pytest.raises(OvertakenError):
        bench.confirm(seen_before)
    assert bench.publish(1, 5, [row(1)], answer="a").generation == 4
    assert bench.confirm(bench.plan(1, 6, [], answer="a")).checks == 1


def test_a_lost_ledgers_message_knows_that_time_travel_may_be_short(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.query(f"DROP TABLE {bench.ledger.sql}")
    with pytest.raises(ConfigError, match=r"Restore it .* window: seven days by default, two at least"):
        bench.book().days()


def test_a_table_in_the_ledgers_place_is_refused(bench: Bench) -> None:
    bench.query(f"CREATE TABLE {bench.ledger.sql} (a INT64)")
    with pytest.raises(ConfigError, match="not created by this sink, since it lacks the columns attempt"):
        bench.prepare()


def names_its_ledger(bench: Bench) -> str | None:
    labels = bench.api.client.get_table(bench.target.id, timeout=20, retry=None).labels
    return labels.get("connect_ledger")


def clear_label(bench: Bench) -> None:
    """Come to what ``bq update --clear_label`` does in a way that the emulator knows too: a copy has no labels."""
    copy = bench.target.sibling("copy")
    for old, new in ((bench.target, copy), (copy, bench.target)):
        bench.query(f"CREATE TABLE {new.sql} AS SELECT * FROM {old.sql}")
        bench.query(f"DROP TABLE {old.sql}")


@pytest.mark.parametrize("loss", ["DROP TABLE {}", "DELETE FROM {} WHERE TRUE"])
@pytest.mark.parametrize("write_mode", ["replace", "append", "merge"])
def test_a_lost_ledger_is_never_taken_for_an_empty_one(bench: Bench, loss: str, write_mode: Any) -> None:
    bench.publish(1, 1, [row(1)])
    assert names_its_ledger(bench) == "connect_ledger"
    bench.write_mode = write_mode
    bench.query(loss.format(bench.ledger.sql))
    with pytest.raises(ConfigError, match=r"is gone or has no row about it.*bq cp .*--clear_label connect_ledger"):
        bench.prepare()
    clear_label(bench)  # a person's decision
    bench.prepare()
    bench.write_mode = "replace"
    assert bench.publish(1, 1, [row(2)]).generation == 1
    assert bench.rows() == [(1, 2, 1)]


def test_a_ledger_that_is_gone_does_not_erase_what_was_published(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    bench.query(f"DROP TABLE {bench.ledger.sql}")
    for read in (
        lambda: bench.book().days(),
        lambda: bench.book().row(dt.date(2026, 9, 1)),
        lambda: bench.book().published(dt.date(2026, 9, 1), "t"),
    ):
        with pytest.raises(ConfigError, match="the published days are unknown"):
            read()


def test_an_existing_ledger_that_a_query_misses_is_retriable(bench: Bench) -> None:
    class Forgetful(BigQueryApi):
        def query(self, *args: Any, **kwargs: Any) -> Any:
            raise MissingError("Not found: Table")

    bench.publish(1, 1, [row(1)])
    api = Forgetful(bench.api.connection, bench.api.project, bench.api.credentials)
    with pytest.raises(RetriableError, match="exists, but a query did not find it"):
        replace(bench, api=api).book().days()


def test_a_table_of_a_persons_own_is_adopted_with_its_rows(bench: Bench) -> None:
    bench.query(f"CREATE TABLE {bench.target.sql} (id INT64, version INT64, day DATE)")
    bench.query(f"INSERT INTO {bench.target.sql} VALUES (1, 1, DATE '2026-09-01'), (2, 1, DATE '2026-09-02')")
    assert len(bench.book().days()) == 0
    bench.publish(1, 1, [row(7)])
    assert bench.rows() == [(1, 7, 1), (2, 2, 1)]
    assert names_its_ledger(bench) == "connect_ledger"


def test_a_second_ledger_of_one_table_is_refused(bench: Bench) -> None:
    bench.publish(1, 1, [row(1)])
    for name in ("other", "Connect_Ledger"):
        second = replace(bench, ledger=bench.target.sibling(name))
        with pytest.raises(ConfigError, match=f"names ledger 'connect_ledger', not '{name}': the table is a copy"):
            second.prepare()
    with pytest.raises(ConfigError, match="the table is a copy or was renamed"):
        replace(bench, ledger=bench.target.sibling("other")).book().days()


def test_the_ledger_label_keeps_other_labels(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.api, "labels", {"team": "x"})
    bench.prepare()
    bench.prepare()
    table = bench.api.client.get_table(bench.target.id, timeout=20, retry=None)
    assert table.labels == {"team": "x", "connect_ledger": "connect_ledger"}
