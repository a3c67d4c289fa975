"""Erasing from a Delta table whose rows pass shapes: ids are given as the source has them, columns as the target."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.erase import erase
from airflow_provider_connect.shapes import Drop, Extract, Mask, Rename
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.notes import definition_note
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import KEY, MAY, SCHEMA, Lab, rows_of

pytestmark = pytest.mark.usefixtures("weak_key_digests")
KEYS = {
    name: Connection(conn_id=name, conn_type="generic", password=SecretStr(f"0123456789abcdef-{name}"))
    for name in ("mask_key", "other")
}
FIRST_EXAMPLE = [
    Mask(columns=["distinct_id"], conn_id="mask_key"),
    Drop(columns=["properties"]),
    Rename(columns={"distinct_id": "person"}),
]
"""The first example of docs/shapes.md, without its filter."""
SECOND = MAY + ONE_DAY
PEOPLE = ["u-1", "u-2", "u-1"]


class Events(MixpanelSource):
    """The lab's stream."""

    @property
    def stream_key(self) -> str:
        return KEY.stream


def shaped(shape: list[Any], column: str) -> pa.Array:
    """Return what a poll makes of the people's ids."""
    rows = pa.RecordBatch.from_arrays([pa.array(PEOPLE), pa.array(["{}"] * 3)], ["distinct_id", "properties"])
    return Shaping(Chain(tuple(shape)), KEYS).bind(rows.schema)(rows, Counter()).column(column)


def table_of(root: Path, shape: list[Any], column: str = "person") -> Lab:
    """Return a table with a day as the shapes leave it."""
    lab = Lab(root).make()
    people = shaped(shape, column)
    schema = SCHEMA.append(pa.field(column, pa.string()))
    publish = lab.stage(MAY, ["a", "b", "c"], "t1", schema=schema, others={column: people})
    counts = {f"shape_{at}_{each.name}": 1 for at, each in enumerate(shape)}
    polled = publish.manifest.polled.model_copy(update={"counts": counts})
    lab.commit(replace(publish, manifest=publish.manifest.model_copy(update={"polled": polled})))
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return table_of(tmp_path / "events", FIRST_EXAMPLE)


def erased(lab: Lab, *values: str, shape: Any = FIRST_EXAMPLE, mode: Any = "erase", column: str = "person") -> Any:
    return erase(Events(), lab.sink, values, column=column, shape=shape, mode=mode, connections=KEYS)


@pytest.mark.parametrize("column", ["person", "distinct_id"], ids=["as the target has it", "as the source has it"])
def test_the_first_example_of_the_docs_erases_by_source_or_target_column(lab: Lab, column: str) -> None:
    """With 'distinct_id' the table had no such column, with 'person' the source had none."""
    assert erased(lab, "u-1", column=column, mode="count").rows == {MAY: 2}
    assert lab.ledger.erased().version == 0
    done = erased(lab, "u-1", column=column)
    assert (done.rows, done.column, done.values) == ({MAY: 2}, "person", 1)
    assert rows_of(lab.root) == ["b"]
    assert lab.ledger.erased().matches(shaped(FIRST_EXAMPLE, "person").to_pylist()) == [True, False, True]
    assert not any(lab.ledger.erased().matches(PEOPLE)), "the ids themselves are on no list"


def test_shapes_may_be_given_as_a_pipelines_file_has_them(lab: Lab) -> None:
    assert erased(lab, "u-1", shape=[each.serialize() for each in FIRST_EXAMPLE]).rows == {MAY: 2}


@pytest.mark.parametrize("mode", ["count", "erase"])
def test_masked_rows_are_not_searched_for_ids_as_they_are(lab: Lab, mode: Any) -> None:
    """It counted 0 rows, and put ids on the list that no row ever has."""
    with pytest.raises(ConfigError, match=r"a mask of the task may have hashed.*Pass the task's shape="):
        erase(People(), lab.sink, ["u-1"], column="person", mode=mode, connections=KEYS)
    assert lab.ledger.erased().version == 0


def test_values_without_the_tasks_shape_are_refused_after_an_erase(lab: Lab) -> None:
    erased(lab, "u-1")
    with pytest.raises(ConfigError, match="Pass the task's shape="):
        erase(People(), lab.sink, ["u-2"], column="person", mode="erase", connections=KEYS)


def test_the_next_erase_under_another_key_is_refused(lab: Lab) -> None:
    erased(lab, "u-1")
    other = [Mask(columns=["distinct_id"], conn_id="other"), *FIRST_EXAMPLE[1:]]
    for mode in ("count", "erase"):
        with pytest.raises(ConfigError, match="another mask key"):
            erased(lab, "u-2", shape=other, mode=mode)
    assert lab.ledger.erased().version == 1
    assert erased(lab, "u-2").version == 2


def test_a_column_that_a_shape_leaves_out_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="a shape leaves column 'properties' out"):
        erased(lab, "u-1", column="properties")


def test_a_made_column_is_named_as_the_target_has_it(tmp_path: Path) -> None:
    shape = [Extract(column="properties", into={"person": "STRING"})]
    lab = Lab(tmp_path / "events").make()
    schema = SCHEMA.append(pa.field("person", pa.string()))
    lab.publish(MAY, ["a", "b", "c"], "t1", schema=schema, others={"person": PEOPLE})
    assert erased(lab, "u-1", shape=shape).rows == {MAY: 2}


def test_without_shapes_the_message_says_how_a_made_column_is_named(lab: Lab) -> None:
    with pytest.raises(
        ConfigError, match=r"no column 'person'.*If a shape of the task makes it, pass the task's shape="
    ):
        erase(Events(), lab.sink, ["u-1"], column="person", connections=KEYS)


def test_one_shape_is_no_list_of_shapes(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="shape: give a list"):
        erased(lab, "u-1", shape="mask")


def defined(lab: Lab, shape: list[Any], date: Any = SECOND) -> None:
    """Publish a day whose definition the ledger keeps, as a job does."""
    chain = Chain(tuple(shape))
    digests = Shaping.of(chain, KEYS).digests(lab.sink.target)
    keys = {name: digest for name, digest in digests.items() if name != "shapes"}
    definition = build_definition(
        Events(), Events().serialize(), Connection(conn_id="m", conn_type="mixpanel"), chain.serialize(), keys
    )
    publish = lab.stage(date, ["z"], f"d{date:%d}", schema=SCHEMA.append(pa.field("person", pa.string())))
    lab.publisher.note(definition_note(definition, publish.intent.run))
    lab.commit(replace(publish, definition=definition.digest))


@pytest.mark.parametrize(
    ("shape", "is_refused"),
    [(FIRST_EXAMPLE, True), ([Mask(columns=["properties"], mode="redact")], False), ([], False)],
    ids=["this column", "another column", "none"],
)
def test_the_ledgers_definition_tells_whether_the_column_is_masked(
    tmp_path: Path, shape: list[Any], is_refused: bool
) -> None:
    lab = table_of(tmp_path / "events", [Rename(columns={"distinct_id": "person"})])
    defined(lab, shape)
    if is_refused:
        with pytest.raises(ConfigError, match="Pass the task's shape="):
            erase(People(), lab.sink, ["u-1"], column="person", connections=KEYS)
    else:
        assert erase(People(), lab.sink, ["u-1"], column="person", connections=KEYS).rows == {MAY: 2}


def test_rows_that_were_masked_under_another_key_are_not_searched_under_this_one(lab: Lab) -> None:
    """It counted 0 rows, and a list of hashes that no row has kept nobody out."""
    defined(lab, FIRST_EXAMPLE)
    assert erased(lab, "u-1", mode="count").rows == {MAY: 2}
    other = [Mask(columns=["distinct_id"], conn_id="other"), *FIRST_EXAMPLE[1:]]
    with pytest.raises(ConfigError, match="were masked with another key than shape= has"):
        erased(lab, "u-1", shape=other)
    assert lab.ledger.erased().version == 0


class People(Events):
    """The same, of which nobody knows the columns before it is asked."""

    def column_names(self) -> None:
        return None
