"""Conformance suite of sinks, which checks the table of promises."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pydantic import SecretStr

from airflow_provider_connect.capabilities.publisher import KeepsRejects
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, OvertakenError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.stage.counts import LATE_COUNTS
from airflow_provider_connect.testing.bench import (
    DAYS,
    KEY,
    MONDAY,
    NOON,
    OTHER_KEY,
    SCHEMA,
    TUESDAY,
    Bench,
    Target,
    intent,
)
from airflow_provider_connect.testing.confirmations import ConfirmationCases
from airflow_provider_connect.testing.connectors import (
    LOGIN,
    PASSWORD,
    ConnectorConformance,
    as_fixtures,
    secrets_of,
)
from airflow_provider_connect.testing.definitions import DefinitionCases
from airflow_provider_connect.testing.differences import DifferencesCases
from airflow_provider_connect.testing.gaps import GapCases
from airflow_provider_connect.testing.increments import IncrementCases, SpanCases
from airflow_provider_connect.testing.kinds import SnapshotCases
from airflow_provider_connect.testing.races import RaceCases
from airflow_provider_connect.testing.recovery import RecoveryCases
from airflow_provider_connect.window import ONE_DAY


class SinkConformance(
    RaceCases,
    RecoveryCases,
    GapCases,
    SnapshotCases,
    IncrementCases,
    SpanCases,
    ConfirmationCases,
    DefinitionCases,
    DifferencesCases,
    ConnectorConformance,
):
    """Suite for a sink that shows each day once and complete, and replaces it on a reload.

    A subclass defines ``target``, a fixture or method that returns a new, empty :class:`.Target`.

    :cvar schemaless: True if the target takes any column of any type.
    """

    schemaless: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        as_fixtures(cls, ("target", "connector"), (Target, Sink))

    @pytest.fixture
    def connector(self, target: Target) -> Sink:
        """Return the sink."""
        return target.sink

    @pytest.fixture
    def bench(self, target: Target, tmp_path: Path) -> Iterator[Bench]:
        """Prepare the target for publishing, and create a stage."""
        sink, connections = target.sink, target.connections
        assert sink.check(connections) == [], "check() must accept a valid connection"
        with sink.open(KEY, connections) as publisher:
            assert publisher.preflight(SCHEMA, DAYS, "day") == []
            root = Path(sink.stage_root(connections) or tmp_path / "stage")
            root.mkdir(parents=True, exist_ok=True)
            yield Bench(target, publisher, root)

    # Names and connections

    def test_its_names_hold_no_secret(self, connector: Sink) -> None:
        """Target and asset names appear in offsets, logs and Airflow's pages."""
        for text in (connector.target, connector.asset_uri):
            assert text.strip() == text != ""
            assert "@" not in urlsplit(text).netloc
            assert not urlsplit(text).query
        assert urlsplit(connector.asset_uri).scheme

    def test_every_option_that_names_a_connection_says_of_which_types_it_may_be(self, connector: Sink) -> None:
        """Otherwise a wrong connection would fail only after the poll."""
        assert set(connector.connection_types) == {n for n in type(connector).model_fields if n.endswith("conn_id")}
        assert all(connector.connection_types.values())

    def test_problems_with_a_connection_hold_no_secret(self, target: Target) -> None:
        """Messages go to logs and Airflow's pages."""
        broken = {
            conn_id: Connection(
                conn_id=conn_id,
                conn_type=connection.conn_type,
                host=f"ftp://{LOGIN}:{PASSWORD}@nowhere.example",
                login=SecretStr(LOGIN),
                password=SecretStr(PASSWORD),
                extra={name: [PASSWORD] for name in connection.extra},
            )
            for conn_id, connection in target.connections.items()
        }
        try:
            problems = target.sink.check(broken)
        except ConnectError as error:
            problems = [str(error)]
        assert not [secret for secret in secrets_of(broken.values()) if secret in " ".join(problems)]

    # A new target

    def test_the_ledger_of_what_does_not_exist_is_empty(self, target: Target) -> None:
        """Airflow reads the ledger before the first publish."""
        with target.sink.open(KEY, target.connections) as publisher:
            ledger = publisher.ledger
            assert len(ledger.days()) == 0
            assert ledger.row(MONDAY) is None
            assert ledger.newest(MONDAY, "day") is None
            assert ledger.published(MONDAY, intent(1).token) is None
            assert ledger.between(MONDAY, TUESDAY) == []

    def test_preflight_may_run_again_and_publishes_nothing(self, bench: Bench) -> None:
        """Every job begins with a preflight."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        state_before = bench.state()
        with bench.another_process() as other_publisher:
            assert other_publisher.preflight(SCHEMA, DAYS, "day") == []
        assert bench.state() == state_before

    def test_a_publisher_may_be_closed_twice_and_opened_again(self, target: Target) -> None:
        """A second close must not hide an error."""
        publisher = target.sink.open(KEY, target.connections)
        publisher.close()
        publisher.close()
        with target.sink.open(KEY, target.connections) as reopened:
            assert len(reopened.ledger.days()) == 0
        reopened.close()

    # A day and its ledger row

    def test_a_frozen_day_is_published_once(self, bench: Bench) -> None:
        """Readers must see each staged row once."""
        row = bench.publish(bench.stage(MONDAY, ["a", "b", "c"], 1, files=2))
        assert (row.day, row.generation, row.token, row.rows) == (MONDAY, 1, intent(1).token, 3)
        assert (row.run, row.clear_number, row.polled_at) == (intent(1).run, 0, NOON)
        assert row.digest == f"{1:032x}"
        assert row.attempt == f"{1:016x}-1-20261005"
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c")]

    def test_another_process_finds_the_ledger_row_right_after_the_commit(self, bench: Bench) -> None:
        """If the ledger lags, a retry publishes the day again."""
        with bench.another_process() as other_publisher:
            assert len(other_publisher.ledger.days()) == 0  # must not be cached
            row = bench.publish(bench.stage(MONDAY, ["a"], 1))
            for ledger in (other_publisher.ledger, bench.ledger):
                assert ledger.row(MONDAY) == row
                assert ledger.published(MONDAY, intent(1).token) == row
                assert ledger.published(MONDAY, intent(2).token) is None
                assert list(ledger.days()) == [MONDAY]
                newest = ledger.newest(MONDAY, "day")
                assert newest is not None
                assert (newest.day, newest.generation) == (MONDAY, 1)

    def test_days_are_apart_in_any_order(self, bench: Bench) -> None:
        """A backfill publishes old days after new ones."""
        dates = [MONDAY + ONE_DAY * i for i in (3, 0, 1)]
        for date in dates:
            assert bench.publish(bench.stage(date, [f"e{date.day}"], 1)).generation == 1
        assert list(bench.ledger.days()) == sorted(dates)
        assert bench.readable() == [(date, f"e{date.day}") for date in sorted(dates)]

    def test_the_ledger_returns_the_newest_row_of_each_day_between_two_days(self, bench: Bench) -> None:
        """Wrong counts would refuse a correct answer."""
        dates = [MONDAY + ONE_DAY * i for i in (3, 0, 1)]
        for date in dates:
            bench.publish(bench.stage(date, ["x"], 1, counts={"late_1_days": 9, "late_2_days": 9}))
            late_rows = (date - MONDAY).days
            late_counts = {"late_1_days": late_rows} | ({"late_3_days": late_rows} if late_rows else {})
            bench.publish(bench.stage(date, [f"e{i}" for i in range(date.day)], 2, counts=late_counts))
        with bench.another_process(OTHER_KEY) as other_publisher:
            assert other_publisher.ledger.between(MONDAY, MONDAY + ONE_DAY * 3) == []
        ledger_rows = bench.ledger.between(MONDAY, MONDAY + ONE_DAY * 2)
        expected = [(date, 2, date.day, NOON) for date in (MONDAY, MONDAY + ONE_DAY)]
        assert [(row.day, row.generation, row.rows, row.polled_at) for row in ledger_rows] == expected
        counts = [[row.counts.get(name, 0) for name in LATE_COUNTS[:3]] for row in ledger_rows]
        assert counts == [[0, 0, 0], [1, 0, 1]]
        assert all(LATE_COUNTS[0] in row.counts for row in ledger_rows), (
            "a day without late rows must count 0 late rows"
        )

    def test_another_stream_has_another_ledger(self, bench: Bench) -> None:
        """Streams would skip each other's published days."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        with bench.another_process(OTHER_KEY) as other_publisher:
            assert other_publisher.ledger.row(MONDAY) is None
            assert other_publisher.ledger.published(MONDAY, intent(1).token) is None
            assert len(other_publisher.ledger.days()) == 0

    def test_a_new_intent_replaces_the_day_and_no_other(self, bench: Bench) -> None:
        """Remaining old rows would count twice."""
        bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        untouched = bench.publish(bench.stage(TUESDAY, ["t"], 1))
        row = bench.publish(bench.stage(MONDAY, ["c"], 2))
        assert (row.generation, row.rows, row.token) == (2, 1, intent(2).token)
        assert bench.ledger.row(MONDAY) == row
        assert bench.ledger.row(TUESDAY) == untouched
        assert list(bench.ledger.days()) == [MONDAY, TUESDAY]
        assert bench.readable() == [(MONDAY, "c"), (TUESDAY, "t")]

    def test_an_empty_day_is_a_done_day(self, bench: Bench) -> None:
        """The day would be polled for ever and block the offset."""
        row = bench.publish(bench.stage(MONDAY, [], 1))
        assert (row.generation, row.rows) == (1, 0)
        assert list(bench.ledger.days()) == [MONDAY]
        assert bench.readable() == []

    def test_a_day_that_became_empty_shows_no_old_rows(self, bench: Bench) -> None:
        """Rows deleted in the source must not stay in the target."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        assert bench.publish(bench.stage(MONDAY, [], 2)).generation == 2
        assert list(bench.ledger.days()) == [MONDAY]
        assert bench.readable() == []

    def test_what_the_source_set_aside_is_counted_and_no_row(self, bench: Bench) -> None:
        """An uncounted reject is lost without a trace."""
        row = bench.publish(bench.stage(MONDAY, ["a"], 1, rejected=3))
        assert (row.rows, row.counts["rows_read"], row.counts["rejected"]) == (1, 4, 3)
        assert bench.ledger.row(MONDAY).counts["rejected"] == 3
        assert bench.readable() == [(MONDAY, "a")]

    def test_what_was_set_aside_is_seen_until_the_next_answer(self, bench: Bench) -> None:
        """A user must see exactly the records that are still rejected."""
        bench.publish(bench.stage(MONDAY, ["a"], 1, rejected=3))
        bench.publish(bench.stage(TUESDAY, ["a"], 2))
        if not isinstance(bench.publisher, KeepsRejects):
            pytest.skip("the sink keeps no rejects")
        [rejects_of_day] = bench.publisher.rejects(MONDAY, TUESDAY, 2)
        records = list(rejects_of_day.records)
        assert (rejects_of_day.day, rejects_of_day.generation, rejects_of_day.ledger_count) == (MONDAY, 1, 3)
        assert sorted(reject.position for reject in records) == [0, 1, 2]
        assert {(reject.origin, reject.reason) for reject in records} == {("source", "no JSON")}
        assert [reject.record for reject in records][:2] == [b"zzz"] * 2
        bench.publish(bench.stage(MONDAY, ["a"], 3))
        assert list(bench.publisher.rejects(MONDAY, TUESDAY, 2)) == []

    # The newest answer wins

    def test_the_older_answer_of_two_is_refused_and_nothing_changes(self, bench: Bench) -> None:
        """A forgotten process must not replace today's answer by yesterday's."""
        stale = bench.stage(MONDAY, ["old"], 6)
        bench.publish(bench.stage(MONDAY, ["new"], 7))
        state_before = bench.state()
        with pytest.raises(OvertakenError, match=r"run-7/task has published generation 1") as caught:
            bench.publish(stale)
        assert (caught.value.by, caught.value.may_poll_again) == (intent(7).token, True)
        assert bench.state() == state_before
        assert bench.ledger.published(MONDAY, intent(6).token) is None

    def test_the_newer_answer_wins_whoever_started_first(self, bench: Bench) -> None:
        """The run that polled last must win."""
        bench.publish(bench.stage(MONDAY, ["old"], 7))
        row = bench.publish(bench.stage(MONDAY, ["new"], 6))
        assert (row.generation, row.token) == (2, intent(6).token)
        assert bench.readable() == [(MONDAY, "new")]

    def test_a_clock_that_is_set_back_decides_nothing(self, bench: Bench) -> None:
        """Machines' clocks differ, so their times must not decide."""
        bench.publish(bench.stage(MONDAY, ["old"], 1, polled_at=NOON + 400 * ONE_DAY))
        stale = bench.stage(MONDAY, ["stale"], 3, polled_at=NOON + 800 * ONE_DAY)
        row = bench.publish(bench.stage(MONDAY, ["new"], 2, polled_at=NOON - 400 * ONE_DAY))
        assert row.generation == 2
        with pytest.raises(OvertakenError):
            bench.publish(stale)
        assert bench.readable() == [(MONDAY, "new")]

    def test_who_lost_to_a_later_clear_of_its_own_run_is_told_not_to_poll_again(self, bench: Bench) -> None:
        """Another poll would waste requests."""
        zombie = bench.stage(MONDAY, ["old"], 6)
        row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2", clear_number=1))
        assert (row.generation, row.clear_number) == (1, 1)
        with pytest.raises(OvertakenError) as caught:
            bench.publish(zombie)
        assert not caught.value.may_poll_again

    def test_a_run_made_again_counts_its_clears_from_zero_and_is_not_refused(self, bench: Bench) -> None:
        """A run created again must reload its day."""
        bench.publish(bench.stage(MONDAY, ["old"], 6, clear_number=3))
        row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2"))
        assert (row.generation, row.run, row.clear_number) == (2, intent(6).run, 0)

    # Checks before the poll

    def test_a_type_it_cannot_hold_is_found_before_the_first_request(self, bench: Bench) -> None:
        """Otherwise every try would poll the day in vain."""
        if self.schemaless:
            pytest.skip("schemaless: the target takes any column of any type")
        unsupported = pa.schema([pa.field("event", pa.duration("us"))])
        problems = bench.publisher.preflight(unsupported, DAYS, "day")
        assert problems, "set schemaless = True if the target can store pa.duration"
        assert all(isinstance(text, str) and "event" in text.lower() for text in problems)
        assert not _secrets_in(problems, bench)

    def test_a_changed_type_is_told_with_the_columns_name_and_nothing_changes(self, bench: Bench) -> None:
        """A changed type breaks readers, so a person must decide."""
        if self.schemaless:
            pytest.skip("schemaless: the target takes any column of any type")
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        state_before = bench.state()
        changed_schema = SCHEMA.set(2, pa.field("amount", pa.string()))
        problems = bench.publisher.preflight(changed_schema, DAYS, "day")
        assert any("'amount'" in text for text in problems)
        assert not _secrets_in(problems, bench)
        assert bench.state() == state_before


def _secrets_in(texts: list[str], bench: Bench) -> list[Any]:
    return [secret for secret in secrets_of(bench.target.connections.values()) if secret in " ".join(texts)]
