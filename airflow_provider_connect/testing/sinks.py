"""What every sink must do, whatever it writes to: the behaviour behind the table of promises."""

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
from airflow_provider_connect.testing.kinds import IncrementCases, SnapshotCases
from airflow_provider_connect.testing.races import RaceCases
from airflow_provider_connect.testing.recovery import RecoveryCases
from airflow_provider_connect.window import ONE_DAY


class SinkConformance(
    RaceCases,
    RecoveryCases,
    GapCases,
    SnapshotCases,
    IncrementCases,
    ConfirmationCases,
    DefinitionCases,
    DifferencesCases,
    ConnectorConformance,
):
    """The sink suite, for a sink that shows each day once and whole, and replaces it when it is run again.

    A subclass gives a fixture ``target``: a :class:`.Target` that is the test's own, empty, of a sink that has not
    published yet. A plain method of that name does, too.

    :cvar schemaless: whether the target takes any column of any type. If so, two cases about types are left out.
    """

    schemaless: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        as_fixtures(cls, ("target", "connector"), (Target, Sink))

    @pytest.fixture
    def connector(self, target: Target) -> Sink:
        """Return the sink with its options."""
        return target.sink

    @pytest.fixture
    def bench(self, target: Target, tmp_path: Path) -> Iterator[Bench]:
        """Make the target ready to be published into, and a stage."""
        sink, connections = target.sink, target.connections
        assert sink.check(connections) == [], "check() finds problems with a good connection"
        with sink.open(KEY, connections) as publisher:
            assert publisher.preflight(SCHEMA, DAYS, "day") == []
            root = Path(sink.stage_root(connections) or tmp_path / "stage")
            root.mkdir(parents=True, exist_ok=True)
            yield Bench(target, publisher, root)

    # What it says of itself

    def test_its_names_hold_no_secret(self, connector: Sink) -> None:
        """Target and asset stand in offsets, logs and Airflow's pages, where many may read them."""
        for text in (connector.target, connector.asset_uri):
            assert text.strip() == text != ""
            assert "@" not in urlsplit(text).netloc
            assert not urlsplit(text).query
        assert urlsplit(connector.asset_uri).scheme

    def test_every_option_that_names_a_connection_says_of_which_types_it_may_be(self, connector: Sink) -> None:
        """A connection of a wrong type would be found only after the whole day was polled."""
        assert set(connector.connection_types) == {n for n in type(connector).model_fields if n.endswith("conn_id")}
        assert all(connector.connection_types.values())

    def test_problems_with_a_connection_hold_no_secret(self, target: Target) -> None:
        """Messages go to logs and into Airflow's pages: a password in one of them is a password lost."""
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

    # A target that is not there yet

    def test_the_ledger_of_what_does_not_exist_is_empty(self, target: Target) -> None:
        """The Airflow task asks the ledger before the first publish: an error there fails every new stream."""
        with target.sink.open(KEY, target.connections) as publisher:
            ledger = publisher.ledger
            assert len(ledger.days()) == 0
            assert ledger.row(MONDAY) is None
            assert ledger.newest(MONDAY, "day") is None
            assert ledger.published(MONDAY, intent(1).token) is None
            assert ledger.between(MONDAY, TUESDAY) == []

    def test_preflight_may_run_again_and_publishes_nothing(self, bench: Bench) -> None:
        """Every job runs it first: it must neither stumble over what it made itself nor touch what is published."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        before = bench.state()
        with bench.another_process() as other:
            assert other.preflight(SCHEMA, DAYS, "day") == []
        assert bench.state() == before

    def test_a_publisher_may_be_closed_twice_and_opened_again(self, target: Target) -> None:
        """Whoever opens it closes it, also after an error: a second close must not hide the first one's error."""
        publisher = target.sink.open(KEY, target.connections)
        publisher.close()
        publisher.close()
        with target.sink.open(KEY, target.connections) as again:
            assert len(again.ledger.days()) == 0
        again.close()

    # A day and its ledger row

    def test_a_frozen_day_is_published_once(self, bench: Bench) -> None:
        """Readers see each staged row once; offsets and reports follow what the ledger's row says."""
        row = bench.publish(bench.stage(MONDAY, ["a", "b", "c"], 1, files=2))
        assert (row.day, row.generation, row.token, row.rows) == (MONDAY, 1, intent(1).token, 3)
        assert (row.run, row.clear_number, row.polled_at) == (intent(1).run, 0, NOON)
        assert row.digest == f"{1:032x}"
        assert row.attempt == f"{1:016x}-1-20261005"
        assert bench.readable() == [(MONDAY, "a"), (MONDAY, "b"), (MONDAY, "c")]

    def test_another_process_finds_the_ledger_row_right_after_the_commit(self, bench: Bench) -> None:
        """A ledger that lags tells a retry that nothing is published: the day is polled and published again."""
        with bench.another_process() as other:
            assert len(other.ledger.days()) == 0  # an answer that it may not keep
            row = bench.publish(bench.stage(MONDAY, ["a"], 1))
            for ledger in (other.ledger, bench.ledger):
                assert ledger.row(MONDAY) == row
                assert ledger.published(MONDAY, intent(1).token) == row
                assert ledger.published(MONDAY, intent(2).token) is None
                assert list(ledger.days()) == [MONDAY]
                newest = ledger.newest(MONDAY, "day")
                assert newest is not None
                assert (newest.day, newest.generation) == (MONDAY, 1)

    def test_days_are_apart_in_any_order(self, bench: Bench) -> None:
        """A backfill publishes old days after new ones, and must move neither rows nor ledger of another day."""
        dates = [MONDAY + ONE_DAY * i for i in (3, 0, 1)]
        for date in dates:
            assert bench.publish(bench.stage(date, [f"e{date.day}"], 1)).generation == 1
        assert list(bench.ledger.days()) == sorted(dates)
        assert bench.readable() == [(date, f"e{date.day}") for date in sorted(dates)]

    def test_the_ledger_tells_of_several_days_at_once(self, bench: Bench) -> None:
        """What the days before had is what a day is compared with: another day's figure refuses a good answer."""
        dates = [MONDAY + ONE_DAY * i for i in (3, 0, 1)]
        for date in dates:
            bench.publish(bench.stage(date, ["x"], 1, counts={"late_1_days": 9, "late_2_days": 9}))
            late = (date - MONDAY).days
            counted = {"late_1_days": late} | ({"late_3_days": late} if late else {})
            bench.publish(bench.stage(date, [f"e{i}" for i in range(date.day)], 2, counts=counted))
        with bench.another_process(OTHER_KEY) as other:
            assert other.ledger.between(MONDAY, MONDAY + ONE_DAY * 3) == []
        found = bench.ledger.between(MONDAY, MONDAY + ONE_DAY * 2)
        expected = [(date, 2, date.day, NOON) for date in (MONDAY, MONDAY + ONE_DAY)]
        assert [(row.day, row.generation, row.rows, row.polled_at) for row in found] == expected
        counts = [[row.counts.get(name, 0) for name in LATE_COUNTS[:3]] for row in found]
        assert counts == [[0, 0, 0], [1, 0, 1]]
        assert all(LATE_COUNTS[0] in row.counts for row in found), "no late row is another answer than not knowing"

    def test_another_stream_has_another_ledger(self, bench: Bench) -> None:
        """Two streams that share a ledger's rows would each skip the days that the other has published."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        with bench.another_process(OTHER_KEY) as other:
            assert other.ledger.row(MONDAY) is None
            assert other.ledger.published(MONDAY, intent(1).token) is None
            assert len(other.ledger.days()) == 0

    def test_a_new_intent_replaces_the_day_and_no_other(self, bench: Bench) -> None:
        """Clearing a task reloads its day: old rows that stay beside the new ones are counted twice."""
        bench.publish(bench.stage(MONDAY, ["a", "b"], 1))
        untouched = bench.publish(bench.stage(TUESDAY, ["t"], 1))
        row = bench.publish(bench.stage(MONDAY, ["c"], 2))
        assert (row.generation, row.rows, row.token) == (2, 1, intent(2).token)
        assert bench.ledger.row(MONDAY) == row
        assert bench.ledger.row(TUESDAY) == untouched
        assert list(bench.ledger.days()) == [MONDAY, TUESDAY]
        assert bench.readable() == [(MONDAY, "c"), (TUESDAY, "t")]

    def test_an_empty_day_is_a_done_day(self, bench: Bench) -> None:
        """A day without rows that leaves no ledger row is polled again for ever, and holds up the offset."""
        row = bench.publish(bench.stage(MONDAY, [], 1))
        assert (row.generation, row.rows) == (1, 0)
        assert list(bench.ledger.days()) == [MONDAY]
        assert bench.readable() == []

    def test_a_day_that_became_empty_shows_no_old_rows(self, bench: Bench) -> None:
        """What the source has deleted must not live on in the target."""
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        assert bench.publish(bench.stage(MONDAY, [], 2)).generation == 2
        assert list(bench.ledger.days()) == [MONDAY]
        assert bench.readable() == []

    def test_what_the_source_set_aside_is_counted_and_no_row(self, bench: Bench) -> None:
        """Rejects that nobody counts are rows lost without a trace."""
        row = bench.publish(bench.stage(MONDAY, ["a"], 1, rejected=3))
        assert (row.rows, row.counts["rows_read"], row.counts["rejected"]) == (1, 4, 3)
        assert bench.ledger.row(MONDAY).counts["rejected"] == 3
        assert bench.readable() == [(MONDAY, "a")]

    def test_what_was_set_aside_is_seen_until_the_next_answer(self, bench: Bench) -> None:
        """Whoever mends a reject has to see it, and none that is mended."""
        bench.publish(bench.stage(MONDAY, ["a"], 1, rejected=3))
        bench.publish(bench.stage(TUESDAY, ["a"], 2))
        if not isinstance(bench.publisher, KeepsRejects):
            pytest.skip("the sink shows no rejects")
        [day] = bench.publisher.rejects(MONDAY, TUESDAY, 2)
        records = list(day.records)
        assert (day.day, day.generation, day.ledger_count) == (MONDAY, 1, 3)
        assert sorted(each.position for each in records) == [0, 1, 2]
        assert {(each.origin, each.reason) for each in records} == {("source", "no JSON")}
        assert [each.record for each in records][:2] == [b"zzz"] * 2
        bench.publish(bench.stage(MONDAY, ["a"], 3))
        assert list(bench.publisher.rejects(MONDAY, TUESDAY, 2)) == []

    # The newest answer wins

    def test_the_older_answer_of_two_is_refused_and_nothing_changes(self, bench: Bench) -> None:
        """A forgotten process that publishes late would put yesterday's answer over today's."""
        stale = bench.stage(MONDAY, ["old"], 6)
        bench.publish(bench.stage(MONDAY, ["new"], 7))
        before = bench.state()
        with pytest.raises(OvertakenError, match=r"run-7/task has published generation 1") as caught:
            bench.publish(stale)
        assert (caught.value.by, caught.value.may_poll_again) == (intent(7).token, True)
        assert bench.state() == before
        assert bench.ledger.published(MONDAY, intent(6).token) is None

    def test_the_newer_answer_wins_whoever_started_first(self, bench: Bench) -> None:
        """Runs start in any order: what counts is who asked the source last."""
        bench.publish(bench.stage(MONDAY, ["old"], 7))
        row = bench.publish(bench.stage(MONDAY, ["new"], 6))
        assert (row.generation, row.token) == (2, intent(6).token)
        assert bench.readable() == [(MONDAY, "new")]

    def test_a_clock_that_is_set_back_decides_nothing(self, bench: Bench) -> None:
        """Clocks of two machines differ: a sink that compares them throws the newer answer away, or takes the older."""
        bench.publish(bench.stage(MONDAY, ["old"], 1, polled_at=NOON + 400 * ONE_DAY))
        stale = bench.stage(MONDAY, ["stale"], 3, polled_at=NOON + 800 * ONE_DAY)
        row = bench.publish(bench.stage(MONDAY, ["new"], 2, polled_at=NOON - 400 * ONE_DAY))
        assert row.generation == 2
        with pytest.raises(OvertakenError):
            bench.publish(stale)
        assert bench.readable() == [(MONDAY, "new")]

    def test_who_lost_to_a_later_clear_of_its_own_run_is_told_not_to_poll_again(self, bench: Bench) -> None:
        """Somebody has cleared that run: what is left of its earlier try would ask the source for nobody."""
        zombie = bench.stage(MONDAY, ["old"], 6)
        row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2", clear_number=1))
        assert (row.generation, row.clear_number) == (1, 1)
        with pytest.raises(OvertakenError) as caught:
            bench.publish(zombie)
        assert not caught.value.may_poll_again

    def test_a_run_made_again_counts_its_clears_from_zero_and_is_not_refused(self, bench: Bench) -> None:
        """A run that is deleted and made again must reload its day, though its count of clears is lower."""
        bench.publish(bench.stage(MONDAY, ["old"], 6, clear_number=3))
        row = bench.publish(bench.stage(MONDAY, ["new"], 6, "2"))
        assert (row.generation, row.run, row.clear_number) == (2, intent(6).run, 0)

    # What fails before anything is polled

    def test_a_type_it_cannot_hold_is_found_before_the_first_request(self, bench: Bench) -> None:
        """Found only at the commit, it costs a whole poll each time, and the day is never published."""
        if self.schemaless:
            pytest.skip("takes any column of any type")
        odd = pa.schema([pa.field("event", pa.duration("us"))])
        problems = bench.publisher.preflight(odd, DAYS, "day")
        assert problems, "a sink that holds pa.duration, too, sets schemaless = True"
        assert all(isinstance(text, str) and "event" in text.lower() for text in problems)
        assert not _secrets_in(problems, bench)

    def test_a_changed_type_is_told_with_the_columns_name_and_nothing_changes(self, bench: Bench) -> None:
        """Readers break when a column changes under them: a person decides that, with the name at hand."""
        if self.schemaless:
            pytest.skip("takes any column of any type")
        bench.publish(bench.stage(MONDAY, ["a"], 1))
        before = bench.state()
        changed = SCHEMA.set(2, pa.field("amount", pa.string()))
        problems = bench.publisher.preflight(changed, DAYS, "day")
        assert any("'amount'" in text for text in problems)
        assert not _secrets_in(problems, bench)
        assert bench.state() == before


def _secrets_in(texts: list[str], bench: Bench) -> list[Any]:
    return [secret for secret in secrets_of(bench.target.connections.values()) if secret in " ".join(texts)]
