"""The sink on a real OpenSearch: what the conformance suite does not ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_connect.errors import DataError, OvertakenError, RetriableError, SupersededError
from airflow_provider_connect.sinks._opensearch.client import OpenSearchClient
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, TUESDAY, Bench, intent
from tests.equipment.opensearch.node import OpenSearchNode
from tests.equipment.opensearch.target import call, connection_to, hits

pytestmark = pytest.mark.slow

Benches = Callable[..., Bench]


def test_a_switch_that_arrives_after_another_publish_changes_nothing(
    benches: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch is held back, another run publishes, and then it arrives: 404, and the commit decides anew."""
    bench = benches()
    bench.publish(bench.stage(MONDAY, ["old"], 1))
    late = bench.stage(MONDAY, ["late"], 2)
    token, receipts = bench.send(late)
    ask, statuses = OpenSearchClient.ask, []

    def held(self: Any, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        if path != "/_aliases" or statuses:
            return ask(self, method, path, *arguments, **options)
        statuses.append(0)
        with bench.another_process() as rival:
            bench.publish(bench.stage(MONDAY, ["new"], 3), rival)
        reply = ask(self, method, path, *arguments, **options)
        statuses.append(reply.status)
        return reply

    monkeypatch.setattr(OpenSearchClient, "ask", held)
    with pytest.raises(OvertakenError):
        bench.publisher.commit(late, token, receipts)
    assert statuses == [0, 404]
    assert bench.readable() == [(MONDAY, "new")]


def test_a_driver_that_died_before_the_switch_leaves_one_generation_visible(benches: Benches) -> None:
    bench = benches()
    bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
    reload = bench.stage(MONDAY, ["c"], 2)
    bench.send(reload)  # filled, never switched
    assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b")]
    with bench.another_process() as retry:
        assert bench.publish(reload, retry).generation == 2
    assert bench.readable() == [(MONDAY, "c")]  # fewer rows: the vanished ones are gone
    bench.target.age()
    assert bench.sweep() == 2  # the dead attempt's index and the replaced one
    assert bench.readable() == [(MONDAY, "c")]


def test_an_older_snapshot_that_comes_late_is_superseded(benches: Benches) -> None:
    bench = benches()
    late = bench.stage(MONDAY, ["old"], 1, kind="snapshot")
    bench.publish(bench.stage(TUESDAY, ["new"], 2, kind="snapshot"))
    with pytest.raises(SupersededError):
        bench.publish(late)
    assert bench.readable() == [(TUESDAY, "new")]


def test_a_bulk_request_after_the_sweep_creates_no_index(benches: Benches, opensearch: OpenSearchNode) -> None:
    bench = benches()
    staged = bench.stage(MONDAY, ["a"], 1)
    token, receipts = bench.send(staged)
    bench.target.age()
    assert bench.sweep() == 1
    [share] = bench.shares(staged)
    with pytest.raises(RetriableError, match="swept"):
        bench.put(token, share)
    with pytest.raises(RetriableError, match="swept"):
        bench.publisher.commit(staged, token, receipts)
    assert call(opensearch, "HEAD", f"/{token.index}").status_code == 404


def test_of_rows_with_one_id_the_last_stays_in_whatever_order_they_arrive(
    benches: Benches, opensearch: OpenSearchNode
) -> None:
    bench = benches(id_columns=["event"], bulk_documents=1)
    staged = bench.stage(MONDAY, ["a", "b", "x", "a"], 1, files=2)  # a and x, then b and a
    token = bench.begin(staged)
    receipts = [bench.put(token, share) for share in reversed(bench.shares(staged))]
    assert bench.publisher.commit(staged, token, receipts).rows == 3
    seen = {hit["_id"]: hit["_source"]["amount"] for hit in hits(opensearch, "tested")}
    assert seen == {"a": 1.0, "x": 1.0, "b": 0.0}


def test_an_id_over_512_bytes_is_hashed_and_its_neighbours_are_written(
    benches: Benches, opensearch: OpenSearchNode
) -> None:
    bench = benches(id_columns=["event"])
    events = ["a", "ä" * 300, "", "b" * 513]
    assert bench.publish(bench.stage(MONDAY, events, 1)).rows == 4
    assert sorted(event for _, event in bench.readable()) == sorted(events)
    assert max(len(hit["_id"].encode()) for hit in hits(opensearch, "tested")) <= 512


def test_a_body_over_the_servers_limit_is_halved(benches: Benches) -> None:
    bench = benches(bulk_bytes=10_000_000)  # the server takes 1 MB
    events = [f"{number}{'x' * 100_000}" for number in range(30)]
    assert bench.publish(bench.stage(MONDAY, events, 1)).rows == 30
    assert len(bench.readable()) == 30


def test_a_mapping_conflict_names_row_and_column_and_no_value(benches: Benches) -> None:
    bench = benches(mapping={"event": {"type": "long"}})
    with pytest.raises(DataError, match=r"row 1: .*\(mapper_parsing_exception\) for column 'event'") as caught:
        bench.publish(bench.stage(MONDAY, ["1", "secret-5b21"], 1))
    assert "secret-5b21" not in str(caught.value)
    assert bench.readable() == []
    assert bench.ledger.row(MONDAY) is None


def test_an_index_of_the_aliass_name_is_refused_before_the_poll(benches: Benches, opensearch: OpenSearchNode) -> None:
    bench = benches()
    call(opensearch, "PUT", "/tested").raise_for_status()
    try:
        [problem] = bench.publisher.preflight(SCHEMA, DAYS, "day")
    finally:
        call(opensearch, "DELETE", "/tested").raise_for_status()
    assert "'tested' is an index" in problem


def test_a_deleted_ledger_is_refused_before_the_poll_and_not_made_again(
    benches: Benches, opensearch: OpenSearchNode
) -> None:
    bench = benches()
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    call(opensearch, "DELETE", "/connect-tested-ledger").raise_for_status()
    for _ in range(2):
        [problem] = bench.publisher.preflight(SCHEMA, DAYS, "day")
        assert problem.startswith("index connect-tested-ledger lacks the note of connect-tested-")


def test_a_server_that_is_away_is_retriable_without_a_secret(benches: Benches, opensearch: OpenSearchNode) -> None:
    bench = benches()
    connection = connection_to(opensearch, login="writer", password="pw-7d1f").model_copy(update={"port": 9})
    refused = pytest.raises(RetriableError, match="'opensearch_default': OpenSearch does not answer")
    with bench.target.sink.open(KEY, {"opensearch_default": connection}) as publisher, refused as caught:
        publisher.preflight(SCHEMA, DAYS, "day")
    assert "pw-7d1f" not in str(caught.value)


def test_two_streams_share_an_alias(benches: Benches) -> None:
    bench = benches()
    other_key = KEY.model_copy(update={"stream": "other"})
    bench.publish(bench.stage(MONDAY, ["mine"], 1))
    with bench.another_process(other_key) as other:
        assert other.preflight(SCHEMA, DAYS, "day") == []
        second = dataclasses.replace(bench, publisher=other)
        second.publish(dataclasses.replace(second.stage(MONDAY, ["theirs"], 2), key=other_key))
    assert bench.readable() == [(MONDAY, "mine"), (MONDAY, "theirs")]
    assert bench.ledger.published(MONDAY, intent(2).token) is None


def test_a_note_that_a_twin_writes_again_counts_when_the_head_moves_on(
    benches: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second commit of the same attempt writes the note between the reading and the marking of the next publish."""
    bench = benches()
    bench.publish(bench.stage(MONDAY, ["a"], 1))
    ledger, twins = bench.ledger, []
    write = type(ledger).write

    def twice(self: Any, index: str, source: dict[str, Any], over: Any) -> bool:
        if source.get("published") and not twins:
            twins.append(write(self, index, over.source, over))
        return write(self, index, source, over)

    monkeypatch.setattr(type(ledger), "write", twice)
    bench.publish(bench.stage(TUESDAY, ["b"], 2))
    assert twins == [True]
    assert list(bench.ledger.days()) == [MONDAY, TUESDAY]
