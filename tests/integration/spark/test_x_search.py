"""X search under a real spark-submit, into Delta: whole days, a reload, a stop at the usage cap."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

import pytest
from deltalake import DeltaTable

from tests.equipment.x import QUERIES, connection
from tests.standins.x.access import Limits
from tests.standins.x.faults import Fault
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn

pytestmark = pytest.mark.slow

SOURCE = {"queries": QUERIES}


def test_days_of_both_endpoints_a_reload_and_the_usage_cap(submit):
    timeline = Timeline(seed=9, posts_per_day=150, deleted_per_day=5, edited_per_day=5, gone_references_per_day=5)
    with StandIn(timeline, most_posts=50) as x:
        today = x.now().date()
        old, recent, next_day = (today - dt.timedelta(days=back) for back in (40, 3, 2))
        submit.source_name, submit.conf = "x_search", {}
        there = connection(x)

        how = {"source": SOURCE, "connection": there}

        def table() -> dict[dt.date, dict[str, list[str]]]:
            rows = DeltaTable(str(submit.table)).to_pyarrow_table(columns=["day", "id", "queries", "post"]).to_pylist()
            found: dict[dt.date, dict[str, list[str]]] = {}
            for row in rows:
                assert row["id"] not in found.setdefault(row["day"], {})
                assert json.loads(row["post"])["id"] == row["id"]
                found[row["day"]][row["id"]] = row["queries"]
            return found

        x.faults.replace(
            [Fault("reset", date=old, page=2), Fault("empty_page", date=recent, page=1), Fault("other_day")]
        )
        ended = submit.run([str(old), str(recent)], **how)
        assert ended.process.returncode == 0, ended.output
        assert table() == {day: x.timeline.truth(day, *QUERIES) for day in (old, recent)}
        assert {name for name in x.stats["requests"] if name.startswith("search")} == {"search/all", "search/recent"}
        counts = [report.counts for report in ended.report.days]
        assert all(each["partial_errors.resource-not-found"] for each in counts)
        assert sum(each.get("outside_asked", 0) for each in counts) == 2
        assert x.app.token not in ended.output

        deleted = next(iter(x.timeline.truth(old, *QUERIES)))
        x.timeline = dataclasses.replace(timeline, deleted_ids=frozenset({deleted}))
        again = submit.here([str(old)], token="b" * 32, **how)
        assert again.report.exit_code == 0, again.output
        assert table()[old] == x.timeline.truth(old, *QUERIES)

        x.gate.limits = Limits(monthly_posts=x.gate.posts + 60)
        capped = submit.here([str(next_day)], token="c" * 32, **how)
        assert capped.report.exit_code == 78, capped.output
        assert f"next day to load is {next_day}" in capped.report.failure.message
        assert next_day not in table()
        assert sum(by.get("429", 0) for by in x.stats["requests"].values()) == 1


def test_a_day_into_bigquery_lists_and_documents_included(submit, bigquery_target, monkeypatch):
    submit.source_name, submit.sink_name, submit.sink_connections = "x_search", "bigquery", bigquery_target.connections
    submit.staging.mkdir()
    monkeypatch.setattr(submit, "sink_options", lambda: {"table": bigquery_target.sink.table})
    with StandIn(Timeline(seed=9, posts_per_day=80, edited_per_day=5, gone_references_per_day=5), most_posts=50) as x:
        day = x.now().date() - dt.timedelta(days=40)
        ended = submit.here([str(day)], source=SOURCE, connection=connection(x))
        assert ended.report.exit_code == 0, ended.output
        truth = x.timeline.truth(day, *QUERIES)
    rows = bigquery_target.query("SELECT id, queries, edit_history, TO_JSON_STRING(post) AS post FROM {table}")
    assert len(rows) == len(truth)
    assert {row["id"]: row["queries"] for row in rows} == truth
    assert all(row["edit_history"][-1] == row["id"] == json.loads(row["post"])["id"] for row in rows)
    assert any(len(row["edit_history"]) == 2 for row in rows)
