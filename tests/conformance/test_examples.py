"""Tests of the worked examples in docs/connectors.md: the suite, and cases over HTTP that the suite cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import json_body
from airflow_provider_connect.errors import DataError, OvertakenError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.publishing import ledger_row, next_generation
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.testing import Bench, Served, SinkConformance, SourceConformance, Target
from airflow_provider_connect.testing.faults import Gate
from tests.equipment.examples.connectors import DATE, EXAMPLES, load, shop_server, store_server
from tests.equipment.examples.index_store import IndexStore
from tests.equipment.examples.json_server import JsonServer, LostError
from tests.equipment.examples.shop import Shop

PAGE = EXAMPLES.parent / "connectors.md"
LATER_SECONDS = 2 * 86_400.0


ALIAS_STORE = load("alias_store")


def _switches_from_what_it_finds_then(self: Any, publish: Publish, token: str, receipts: Any) -> LedgerRow:
    """Decide first, then read the index to replace again: no compare-and-set."""
    _, rows = self._ledger.look(publish.day.date)
    row = ledger_row(publish, next_generation(publish, rows[-1] if rows else None))
    shown_index, _ = self._ledger.look(publish.day.date)
    note = {"replaces": shown_index, "rows": [stored_row.model_dump(mode="json") for stored_row in (*rows, row)]}
    self._ledger.write(token, note, -1)
    self._ask(f"/aliases/{self._ledger.prefix}{publish.day}", json_body({"from": shown_index, "to": token}))
    return row


def _shows_before_it_notes(self: Any, publish: Publish, token: str, receipts: Any) -> LedgerRow:
    """Write the ledger row after the rows are visible."""
    shown_index, rows = self._ledger.look(publish.day.date)
    for row in rows:
        if row.token == publish.intent.token:
            return row
    row = ledger_row(publish, next_generation(publish, rows[-1] if rows else None))
    self._ask(f"/aliases/{self._ledger.prefix}{publish.day}", json_body({"from": shown_index, "to": token}))
    note = {"replaces": shown_index, "rows": [stored_row.model_dump(mode="json") for stored_row in (*rows, row)]}
    self._ledger.write(token, note, -1)
    return row


def _deletes_what_has_no_note(self: Any, index: str, day: Any) -> bool:
    """Sweep an index that has not reached its commit, without making that commit fail."""
    _, note = self._ledger.note(index)
    if "replaces" in note and self._ledger.look(day)[0] in (index, note["replaces"]):
        return False
    self._api.ask(Call(f"/indexes/{index}/delete", "POST", allowed=(404,)))
    return True


class TestPagesApi(SourceConformance):
    source = load("pages_api").PagesApiSource(conn_id="shop")

    def served(self) -> Iterator[Served]:
        with shop_server() as served:
            yield served

    @pytest.mark.parametrize(
        ("page", "error"),
        [
            ({"orders": []}, RetriableError),  # a page without next is not the last page
            ([], RetriableError),
            ({"orders": [{"id": "1"}], "next": None}, DataError),
            ({"orders": [{"id": 1, "made_at": "2026-10-05T12:00:00+00:00"}], "next": None}, DataError),
            ({"orders": [], "next": "2"}, RetriableError),  # endless
        ],
    )
    def test_an_invalid_page_is_an_error_and_no_short_day(
        self, source: Any, served: Served, monkeypatch: pytest.MonkeyPatch, page: Any, error: type[Exception]
    ) -> None:
        monkeypatch.setattr(Shop, "__call__", lambda *_: (200, page))
        with source.open(served.connection, PollContext()) as poller, pytest.raises(error):
            list(poller.poll(poller.plan([served.day])[0], Tally([served.day])))


class TestAliasStore(SinkConformance):
    schemaless = True  # a column may change its type

    @pytest.fixture
    def store(self) -> IndexStore:
        return IndexStore()

    @pytest.fixture
    def served_store(self, store: IndexStore) -> Iterator[tuple[JsonServer, Target]]:
        with store_server(store) as served:
            yield served

    @pytest.fixture
    def target(self, served_store: tuple[JsonServer, Target]) -> Target:
        return served_store[1]

    @pytest.fixture
    def server(self, served_store: tuple[JsonServer, Target]) -> JsonServer:
        return served_store[0]

    @pytest.mark.parametrize(
        ("wrong", "case"),
        [
            ({"commit": _switches_from_what_it_finds_then}, "one_whole_answer_is_seen_whoever_publishes"),
            ({"commit": _shows_before_it_notes}, "a_day_is_seen_once_whatever_ends"),
            ({"_bury": _deletes_what_has_no_note}, "a_commit_between_two_requests_of_a_sweep"),
        ],
    )
    def test_a_mistake_between_two_requests_fails_its_case(
        self,
        bench: Bench,
        gated: Bench,
        gate: Gate,
        monkeypatch: pytest.MonkeyPatch,
        wrong: dict[str, Any],
        case: str,
    ) -> None:
        for name, method in wrong.items():
            monkeypatch.setattr(ALIAS_STORE._Publisher, name, method)
        (case_name,) = [name for name in dir(self) if name.startswith(f"test_{case}")]
        options: dict[str, Any] = (
            {"rival_offset": 3} if "whoever" in case else {"for_good": True} if "ends" in case else {}
        )
        with pytest.raises((AssertionError, KeyError)):
            getattr(self, case_name)(bench, gated, gate, **options)

    def test_an_attempt_that_was_swept_cannot_be_published_any_more(self, bench: Bench, store: IndexStore) -> None:
        day = bench.stage(DATE, ["a"], 1)
        token, receipts = bench.send(day)
        store.now += LATER_SECONDS
        assert (bench.publisher.sweep(), bench.publisher.sweep()) == (1, 0)
        with pytest.raises(RetriableError, match="swept"):
            bench.publisher.commit(day, token, receipts)
        assert bench.publish(day).generation == 1
        assert bench.readable() == [(DATE, "a")]

    def test_a_commit_that_a_sweep_has_seen_begin_still_comes_through(
        self, bench: Bench, store: IndexStore, server: JsonServer
    ) -> None:
        """The sweep reads after the note and before the switch, when the commit may be alive or dead."""
        token, receipts = bench.send(day := bench.stage(DATE, ["a"], 1))
        store.now += LATER_SECONDS
        server_hook, sweep_counts = server.before, []

        def sweep(method: str, path: str) -> None:
            if method == "POST" and path.startswith("/aliases/"):
                server.before = server_hook
                with bench.another_process() as other_publisher:
                    sweep_counts.append(other_publisher.sweep())

        server.before = sweep
        assert bench.publisher.commit(day, token, receipts).generation == 1
        assert sweep_counts == [0]
        assert bench.readable() == [(DATE, "a")]

    def test_a_commit_that_comes_after_the_sweep_has_looked_is_refused(
        self, bench: Bench, store: IndexStore, server: JsonServer
    ) -> None:
        """The commit begins after the sweep's read and before its delete."""
        token, receipts = bench.send(day := bench.stage(DATE, ["a"], 1))
        store.now += LATER_SECONDS
        server_hook, errors = server.before, []

        def commit(method: str, path: str) -> None:
            if path.endswith("/delete"):
                server.before = server_hook
                with bench.another_process() as other_publisher, pytest.raises(RetriableError) as caught:
                    other_publisher.commit(day, token, receipts)
                errors.append(caught.value)

        server.before = commit
        assert bench.publisher.sweep() == 1
        assert len(errors) == 1
        assert bench.publish(day).generation == 1
        assert bench.readable() == [(DATE, "a")]

    def test_a_replaced_index_is_swept_a_day_later(self, bench: Bench, store: IndexStore) -> None:
        for number in (1, 2):
            bench.publish(bench.stage(DATE, [f"{number}"], number))
        assert bench.publisher.sweep() == 0  # a reader may still be reading it
        store.now += LATER_SECONDS
        assert bench.publisher.sweep() == 1
        assert bench.readable() == [(DATE, "2")]
        assert bench.ledger.published(DATE, bench.stage(DATE, [], 1).intent.token).generation == 1
        assert bench.publish(bench.stage(DATE, ["3"], 3)).generation == 3

    def test_a_switch_that_arrives_after_another_publish_changes_nothing(
        self, bench: Bench, server: JsonServer
    ) -> None:
        """The switch request is delayed and arrives after another publish. It must change nothing."""
        staged = bench.stage(DATE, ["late"], 1)
        token, receipts = bench.send(staged)
        server_hook = server.before

        def lose(method: str, path: str) -> None:
            if path.startswith("/aliases/"):
                raise LostError

        server.before = lose
        with pytest.raises(RetriableError):
            bench.publisher.commit(staged, token, receipts)
        server.before = server_hook
        bench.publish(bench.stage(DATE, ["new"], 2))
        with pytest.raises(OvertakenError):
            bench.publisher.commit(staged, token, receipts)
        assert bench.readable() == [(DATE, "new")]

    def test_rejects_are_published_beside_the_rows(self, bench: Bench, store: IndexStore) -> None:
        bench.publish(bench.stage(DATE, ["a"], 1, rejected=2))
        assert len(store.indexes["events:rejects"]) == 2

    def test_a_column_type_that_json_lacks_is_found_before_the_poll(self, bench: Bench) -> None:
        unsupported = pa.schema([pa.field("event", pa.duration("us"))])
        (problem,) = bench.publisher.preflight(unsupported, [], "day")
        assert "'event'" in problem


def _lines(code: str) -> str:
    return "\n".join(line for line in code.splitlines() if line)


@pytest.mark.parametrize(("kind", "name"), [("source", "pages_api"), ("sink", "alias_store")])
def test_the_page_shows_the_code_that_is_tested(kind: str, name: str) -> None:
    _, _, after_marker = PAGE.read_text().partition(f"<!-- worked example: a {kind} -->")
    blocks = re.findall(r"^```python\n(.*?)^```$", after_marker.partition("<!-- end of")[0], re.MULTILINE | re.DOTALL)
    code = (EXAMPLES / f"{name}.py").read_text()
    *parts, test = blocks
    assert parts
    code_lines = _lines(code), _lines(code.replace("\n    ", "\n"))  # the page shows methods without indentation
    assert all(any(_lines(part) in lines for lines in code_lines) for part in parts), (
        "copy the change into connectors.md"
    )
    assert kind == "sink" or code_lines[0].endswith(_lines(parts[0])), (
        "the page must show the complete source, from its class on"
    )
    assert "Conformance):" in test


@pytest.mark.parametrize(
    ("room", "name", "cls"),
    [
        ("sources", "pages_api", "PagesApiSource"),
        ("sinks", "alias_store", "AliasStoreSink"),
    ],
)
def test_a_job_finds_the_example_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str, name: str, cls: str
) -> None:
    info = tmp_path / "acme_connect-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-connect\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[airflow_provider_connect.{room}]\n{name} = {name}:{cls}\n")
    load(name)
    assert name not in registry.names(room)
    monkeypatch.syspath_prepend(str(tmp_path))
    find = registry.source_class if room == "sources" else registry.sink_class
    assert find(name) is getattr(load(name), cls)
    assert name in registry.names(room)
