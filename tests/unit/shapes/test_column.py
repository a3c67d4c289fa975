"""Which shapes make a column of the target, and what they make of a person's id."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Cast, Constant, Drop, Extract, Mask, Rename, Select
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.shapes.column import shapes_of_column, target_name
from airflow_provider_connect.shapes.shape import Shape

pytestmark = pytest.mark.usefixtures("weak_key_digests")
KEYS = {
    name: Connection(conn_id=name, conn_type="generic", password=SecretStr(f"0123456789abcdef-{name}"))
    for name in ("key", "other", "again")
}
KEYS["again"] = KEYS["again"].model_copy(update={"password": KEYS["key"].password})
FIRST_EXAMPLE: tuple[Shape, ...] = (
    Mask(columns=["distinct_id"], conn_id="key"),
    Drop(columns=["properties"]),
    Rename(columns={"distinct_id": "person"}),
)


def texts(shapes: tuple[Shape, ...], column: str, *values: str) -> tuple[str, ...]:
    made = shapes_of_column(shapes, column)
    assert made is not None
    return made.target_texts(values, KEYS)


def digest(shapes: tuple[Shape, ...], column: str, context: str = "salt") -> str:
    return Shaping(Chain(shapes), KEYS).column_digest(column, context)


def test_the_first_example_of_the_docs_names_its_column_as_source_or_target() -> None:
    made = shapes_of_column(FIRST_EXAMPLE, "person")
    assert made is not None
    assert (made.source, [position for position, _, _ in made.steps]) == ("distinct_id", [0, 2])
    assert shapes_of_column(FIRST_EXAMPLE, "distinct_id") is None
    assert target_name(FIRST_EXAMPLE, "distinct_id") == "person"
    assert target_name(FIRST_EXAMPLE, "properties") is None


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()], ids=str)
def test_an_id_becomes_what_the_poll_makes_of_it(kind: pa.DataType) -> None:
    shapes = (
        Cast(columns={"id": "STRING"}),
        Mask(columns=["id"], conn_id="key"),
        Rename(columns={"id": "who"}),
        Mask(columns=["who"], conn_id="other"),
    )
    batch = pa.RecordBatch.from_arrays([pa.array(["17"]).cast(kind)], ["id"])
    polled = Shaping(Chain(shapes), KEYS).bind(batch.schema)(batch, Counter())
    assert list(texts(shapes, "who", "17")) == polled.column(0).to_pylist()


def test_a_condition_leaves_some_rows_with_the_id_itself() -> None:
    mask = Mask(columns=["id"], conn_id="key", when={"column": "country", "operator": "equals", "value": "DE"})
    assert texts((mask,), "id", "17")[-1] == "17"
    assert len(texts((mask,), "id", "17")) == 2


def test_an_id_inside_a_document_is_named_as_it_stands_there() -> None:
    shapes = (Extract(column="properties", into={"id": "BIGINT"}), Rename(columns={"id": "who"}))
    made = shapes_of_column(shapes, "who")
    assert made is not None
    assert (made.source, texts(shapes, "who", "17")) == (None, ("17",))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Mask(columns=["id"], mode="redact"), r"shape\[0\] \(mask\): column 'id' is masked with mode='redact'"),
        (Mask(columns=["id"], mode="truncate", keep_characters=1), "mode='truncate'"),
        (Cast(columns={"id": "DOUBLE"}), "is cast to DOUBLE"),
        (Cast(columns={"id": "DECIMAL(10,2)"}), r"is cast to DECIMAL\(10,2\)"),
        (Constant(column="id", value="x"), "is made of a constant"),
    ],
)
def test_a_column_that_identifies_nobody_is_refused(shape: Shape, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        texts((shape,), "id", "17")


MASK = Mask(columns=["id"], conn_id="key")
CHANGES: dict[str, tuple[Any, ...]] = {
    "another key": (Mask(columns=["id"], conn_id="other"),),
    "another mode": (Mask(columns=["id"], mode="redact"),),
    "no mask": (),
    "twice": (MASK, MASK),
    "another source": (Rename(columns={"email": "id", "id": "email"}), MASK),
    "a condition": (Mask(columns=["id"], conn_id="key", when={"column": "c", "operator": "is_null"}),),
    "a cast": (Cast(columns={"id": "BIGINT"}), MASK),
}


@pytest.mark.parametrize("changed", CHANGES.values(), ids=CHANGES)
def test_what_changes_the_column_changes_its_digest(changed: tuple[Shape, ...]) -> None:
    assert digest((MASK,), "id") != digest(changed, "id")


@pytest.mark.parametrize(
    "same",
    [
        (Mask(columns=["email", "id"], conn_id="key"),),
        (Mask(columns=["id"], conn_id="again"),),
        (Drop(columns=["email"]), MASK, Rename(columns={"email2": "mail"})),
        (MASK, Select(columns=["id"])),
    ],
)
def test_what_leaves_the_column_as_it_is_leaves_its_digest(same: tuple[Shape, ...]) -> None:
    assert digest((MASK,), "id") == digest(same, "id")


def test_a_column_that_no_shape_makes_has_no_digest() -> None:
    assert digest((MASK,), "email") == ""
    assert digest((), "id") == ""


def test_digests_of_two_lists_cannot_be_compared() -> None:
    assert digest((MASK,), "id", "one") != digest((MASK,), "id", "two")
