"""Erasing from a Delta table: the rows are gone, nobody brings them back, and no other row is touched."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.operators.erase import erase
from airflow_provider_connect.sink import Publisher
from airflow_provider_connect.sinks._delta import eraser
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import KEY, MAY, SCHEMA, Lab, age, rows_of

SECOND, THIRD = MAY + ONE_DAY, MAY + 2 * ONE_DAY


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path / "events").make()
    lab.publish(MAY, ["a", "b", "a"], "t1")
    lab.publish(SECOND, ["b"], "t2")
    lab.publish(THIRD, ["a"], "t3")
    return lab


def erased(lab: Lab, *values: str, kind: Any = "day") -> dict[Any, int]:
    return dict(lab.publisher.erase("event", values, kind).rows)


def test_counting_changes_nothing(lab: Lab) -> None:
    before = lab.version
    assert lab.publisher.find("event", ["a", "x"]) == {MAY: 2, THIRD: 1}
    assert (lab.version, lab.ledger.erased().version) == (before, 0)


def test_every_day_with_such_rows_gets_a_generation_without_them(lab: Lab) -> None:
    assert erased(lab, "a") == {MAY: 2, THIRD: 1}
    assert rows_of(lab.root) == ["b", "b"]
    rows = {row.day: (row.generation, row.rows) for row in lab.ledger.between(MAY, THIRD)}
    assert rows == {MAY: (2, 1), SECOND: (1, 1), THIRD: (2, 0)}
    assert lab.ledger.row(MAY).counts["erased"] == 2
    assert lab.publisher.find("event", ["a"]) == {}


def test_how_late_a_day_came_and_what_shapes_left_out_stay_known(lab: Lab) -> None:
    late = {"late_1_days": 5, "late_2_days": 1, "shape_filtered": 7, "rows_polled": 0}
    publish = lab.stage(MAY, ["a", "b"], "t4")
    polled = publish.manifest.polled.model_copy(update={"counts": late})
    lab.commit(replace(publish, manifest=publish.manifest.model_copy(update={"polled": polled})))
    erased(lab, "a")
    (row,) = lab.ledger.between(MAY, MAY)
    assert (row.generation, row.counts) == (3, late | {"erased": 1})
    assert lab.ledger.newest(MAY, "day").counts["shape_filtered"] == 7, "what the next answer is compared with"


def test_the_list_holds_no_id(lab: Lab) -> None:
    erased(lab, "a")
    (file,) = (lab.root / "_connect" / "erased").iterdir()
    found = json.loads(file.read_text())
    assert (found["version"], found["column"], len(found["digests"])) == (1, "event", 1)
    assert found["digests"] == list(lab.ledger.erased().digests)
    assert lab.ledger.erased().matches(["a", "b", None]) == [True, False, False]


def test_a_day_polled_before_an_erase_is_not_published_after_it(lab: Lab) -> None:
    """Its rows may be the erased ones: also of a day that has none of them yet, and without another generation."""
    stale = lab.stage(SECOND, ["a", "b"], "t4")
    first = lab.stage(THIRD + ONE_DAY, ["a"], "t5")
    erased(lab, "a")
    for staged in (stale, first):
        with pytest.raises(OvertakenError, match="rows were erased since this attempt began to poll"):
            lab.commit(staged)
    assert rows_of(lab.root) == ["b", "b"]
    assert lab.publish(SECOND, ["b", "c"], "t6").generation == 2


def test_a_commit_that_read_the_table_before_the_erase_is_refused_by_delta(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison with the list and the commit are two steps; the erase falls between them."""
    staged = lab.stage(SECOND, ["a", "b"], "t4")
    commit = Commit._commit

    def late(self: Commit, *args: Any) -> None:
        monkeypatch.setattr(Commit, "_commit", commit)
        erased(lab, "a")
        commit(self, *args)

    monkeypatch.setattr(Commit, "_commit", late)
    with pytest.raises(OvertakenError, match="rows were erased"):
        lab.commit(staged)
    assert rows_of(lab.root) == ["b", "b"]


def test_a_day_that_is_published_during_the_erase_is_looked_at_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Commit.run

    def overtaken(self: Commit) -> Any:
        monkeypatch.setattr(Commit, "run", run)
        lab.publish(MAY, ["b", "c"], "t4")  # it polled under the list, and so has nobody on it
        return run(self)

    monkeypatch.setattr(Commit, "run", overtaken)
    assert erased(lab, "a") == {MAY: 0, THIRD: 1}
    assert rows_of(lab.root) == ["b", "b", "c"]


def test_an_erase_that_was_killed_is_done_by_the_next(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Commit.run

    def killed(self: Commit) -> Any:
        if self.publish.day.date == THIRD:
            raise KeyboardInterrupt
        return run(self)

    monkeypatch.setattr(Commit, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        erased(lab, "a")
    assert lab.publisher.find("event", ["a"]) == {THIRD: 1}
    monkeypatch.setattr(Commit, "run", run)
    assert erased(lab, "a") == {THIRD: 1}
    assert (rows_of(lab.root), lab.ledger.erased().version) == (["b", "b"], 1)
    age(lab.root)
    lab.sweep()
    live = {uri.rpartition("/")[2] for uri in DeltaTable(str(lab.root)).file_uris()}
    left = {path.name for path in lab.root.glob(f"day={THIRD}/*") if path.name.startswith("erase")}
    assert left <= live, "the sweep leaves nothing of the attempt that was killed"


def test_later_erases_keep_the_earlier(lab: Lab) -> None:
    erased(lab, "a")
    assert erased(lab, "b") == {MAY: 1, SECOND: 1}
    assert lab.ledger.erased().version == 2
    assert lab.ledger.erased().matches(["a", "b"]) == [True, True]
    lab.publish(THIRD, ["c"], "t4", schema=SCHEMA.append(SCHEMA.field("time").with_name("more")))
    assert lab.ledger.erased().version == 2, "a new column does not forget it"


def test_two_erases_at_once_are_both_on_the_list(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    write = eraser.write_erase_list

    def slower(*args: Any) -> None:
        monkeypatch.setattr(eraser, "write_erase_list", write)
        erased(lab, "b")
        write(*args)

    monkeypatch.setattr(eraser, "write_erase_list", slower)
    erased(lab, "a")
    assert lab.ledger.erased().matches(["a", "b"]) == [True, True]
    assert rows_of(lab.root) == []


def test_the_lookback_asks_for_an_erased_day_as_if_nothing_had_been(lab: Lab) -> None:
    before = [row.polled_at for row in lab.ledger.between(MAY, MAY)]
    erased(lab, "a")
    assert [row.polled_at for row in lab.ledger.between(MAY, MAY)] == before


def test_an_erase_deletes_rows_of_a_snapshot(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "profiles").make()
    lab.publish(MAY, ["a", "b"], "t1", kind="snapshot")
    assert erased(lab, "a", kind="snapshot") == {MAY: 1}
    assert rows_of(lab.root) == ["b"]


def test_a_list_that_is_gone_stops_every_load(lab: Lab) -> None:
    erased(lab, "a")
    (file,) = (lab.root / "_connect" / "erased").iterdir()
    file.unlink()
    with pytest.raises(ConfigError, match="Without it, erased rows would come back"):
        lab.ledger.erased()


@pytest.mark.parametrize(
    ("column", "message"),
    [("evnt", "did you mean 'event'"), ("time", "column 'time' is timestamp.*, not a text, an integer or a decimal")],
)
def test_a_column_that_cannot_hold_ids_is_refused(lab: Lab, column: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lab.publisher.find(column, ["a"])


def test_an_erase_list_has_one_column(lab: Lab) -> None:
    erased(lab, "a")
    listed = lab.ledger.erased()
    with pytest.raises(ConfigError, match="erased by column 'event'"):
        listed.with_values("time", ["a"])


class Events(MixpanelSource):
    """The lab's stream."""

    @property
    def stream_key(self) -> str:
        return KEY.stream


def test_the_function_counts_by_default_and_erases_with_mode_erase(lab: Lab) -> None:
    sink = DeltaSink(path=str(lab.root))
    counted = erase(Events(), sink, ["a", "a", "x"], column="event", connections={})
    assert str(counted).startswith(
        f"{lab.root} has 3 rows of 2 days with 2 values of 'event'. Nothing was changed. Not searched"
    )
    assert lab.ledger.erased().version == 0
    done = erase(Events(), sink, ["a", "x"], column="event", mode="erase", connections={})
    assert str(done).startswith(
        f"3 rows of 2 days with 2 values of 'event' are erased from {lab.root}, and later loads leave them out "
        "(version 1 of its erase list)."
    )
    assert rows_of(lab.root) == ["b", "b"]


@pytest.mark.parametrize("mode", ["count", "erase"])
def test_a_column_that_the_source_does_not_bring_is_refused_before_the_sink_is_asked(lab: Lab, mode: Any) -> None:
    """The table has it, from days that had it: with a list by it no later load could say whose its rows are."""
    with pytest.raises(ConfigError, match=r"nothing was changed: .* no column 'amount'.* Name it as the source does"):
        erase(Events(), DeltaSink(path=str(lab.root)), ["a"], column="amount", mode=mode, connections={})
    assert lab.ledger.erased().version == 0


def test_rejects_that_are_not_searched_are_named(lab: Lab) -> None:
    """Dry run and erase say it alike: a record that became no row may be theirs, too."""
    rejects = lab.root / "_connect" / "attempts" / "t9" / "rejects-00000-ab.parquet"
    rejects.parent.mkdir(parents=True)
    rejects.touch()
    for mode in ("count", "erase"):
        told = erase(Events(), DeltaSink(path=str(lab.root)), ["a"], column="event", mode=mode, connections={})  # type: ignore[arg-type]
        assert re.search(r"\n- rejects \(1 times .*/_connect/attempts/\*/rejects-\*", str(told))


def test_another_streams_table_is_left_alone(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="belongs to stream mixpanel/export"):
        erase(MixpanelSource(), DeltaSink(path=str(lab.root)), ["a"], column="event", mode="erase", connections={})


class Keeper(DeltaSink):
    """A sink whose publisher does not define how to erase."""

    def open(self, key: Any, connections: Any) -> Any:
        return KeepingPublisher(self, key)


class KeepingPublisher(Publisher):
    def __init__(self, sink: DeltaSink, key: Any) -> None:
        self.ledger_of = DeltaPublisher(sink, key)

    @property
    def ledger(self) -> Any:
        return self.ledger_of.ledger

    def commit(self, publish: Any, token: Any, receipts: Any) -> Any:
        raise AssertionError("an erase commits by itself")


def test_a_sink_without_erase_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="Keeper cannot erase"):
        erase(MixpanelSource(), Keeper(path=str(lab.root)), ["a"], connections={})


def test_a_topic_whose_keys_name_nobody_is_refused_before_it_is_asked() -> None:
    connection = Connection(conn_id="kafka_default", extra={"bootstrap.servers": "127.0.0.1:9"})
    with pytest.raises(ConfigError, match=r"from topic 'events': the records' keys are not the texts of 'distinct_id'"):
        erase(MixpanelSource(), KafkaSink(topic="events"), ["a"], connections={"kafka_default": connection})


def test_an_erase_without_ids_is_refused(lab: Lab) -> None:
    for values in ([], [""]):
        with pytest.raises(ConfigError, match=r"values: give at least one id|values\[0\] is an empty text"):
            erase(MixpanelSource(), DeltaSink(path=str(lab.root)), values, connections={})


@pytest.mark.parametrize("values", ["17", b"17"])
def test_one_text_is_not_a_list_of_its_characters(lab: Lab, values: Any) -> None:
    """``erase(source, sink, "17")`` erased the persons 1 and 7."""
    with pytest.raises(ConfigError, match="values: give a list, also of one value, not a"):
        erase(Events(), DeltaSink(path=str(lab.root)), values, column="event", mode="erase", connections={})
    assert lab.ledger.erased().version == 0


KINDS = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "decimal": pa.decimal128(20, 0),
    "text": pa.string(),
}


@pytest.mark.parametrize("value", [17, "17", Decimal("17.0")], ids=repr)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_numbers_are_compared_by_their_text(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    schema = SCHEMA.append(pa.field("person", kind))
    lab = Lab(tmp_path / "people").make()
    lab.publish(MAY, ["a", "b", "c"], "t1", schema=schema, others={"person": pa.array(["1", "7", "17"]).cast(kind)})
    sink = DeltaSink(path=str(lab.root))
    assert erase(People(), sink, [value], column="person", connections={}).rows == {MAY: 1}
    assert erase(People(), sink, [value], column="person", mode="erase", connections={}).rows == {MAY: 1}
    assert rows_of(lab.root) == ["a", "b"]
    assert lab.ledger.erased().matches(["1", "7", "17"]) == [False, False, True]


def test_ids_that_are_no_integers_are_refused_for_an_integer_column(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("person", pa.int64()))
    lab = Lab(tmp_path / "people").make()
    lab.publish(MAY, ["a"], "t1", schema=schema, others={"person": pa.array([17])})
    with pytest.raises(ConfigError, match="column 'person' is int64, and 2 of the values are not integers"):
        erase(People(), DeltaSink(path=str(lab.root)), ["17", "017", "u-17"], column="person", connections={})


@pytest.mark.parametrize("value", [17.0, True, None, Decimal("1.5"), Decimal("NaN"), ""], ids=repr)
def test_an_id_without_a_text_is_refused_and_not_shown(lab: Lab, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"values\[1\] is an? ") as told:
        erase(Events(), DeltaSink(path=str(lab.root)), ["a", value], column="event", connections={})
    assert not value or str(value) not in str(told.value)


class People(Events):
    """The lab's stream, whose rows have more columns."""

    def column_names(self) -> None:
        return None
