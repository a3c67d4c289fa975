"""Ids, lines and requests of documents, and the mapping of a schema."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._opensearch.documents import (
    MAX_ID_BYTES,
    Document,
    document_ids,
    requests_of,
    short_id,
)
from airflow_provider_connect.sinks._opensearch.mapping import changed_types, mapping_of


@example(["", "ä" * MAX_ID_BYTES, "ä" * (MAX_ID_BYTES // 2), "ä" * (MAX_ID_BYTES // 2) + "b"])
@given(st.lists(st.text(max_size=700), unique=True, max_size=5))
def test_an_id_has_1_to_512_bytes_and_two_texts_never_share_one(texts: list[str]) -> None:
    ids = [short_id(text) for text in texts]
    assert all(0 < len(name.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES for name in ids)
    assert len({*ids}) == len(texts)


def test_ids_of_several_columns_do_not_run_into_each_other() -> None:
    batch = pa.record_batch({"a": ["x", "x,y"], "b": ["y,z", "z"], "n": [1, 1]})
    assert len({*document_ids(batch, ("a", "b"), "row ")}) == 2
    assert document_ids(batch, ("n",), "row ") == ["1", "1"]


def test_a_null_in_an_id_names_row_and_column() -> None:
    with pytest.raises(DataError, match="row 8, column 'a' is NULL"):
        document_ids(pa.record_batch({"a": ["secret", None]}), ("a",), "row ", first=7)


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 100), st.integers(1, 10))
def test_requests_are_bounded_and_lose_nothing(sizes: list[int], most_bytes: int, most: int) -> None:
    documents = [Document(position, b"x" * size) for position, size in enumerate(sizes)]
    requests = [*requests_of(documents, most_bytes, most)]
    assert [document for request in requests for document in request] == documents
    for request in requests:
        assert 0 < len(request) <= most
        assert len(request) == 1 or sum(len(document.lines) for document in request) <= most_bytes


def test_the_mapping_follows_the_schema_and_is_never_dynamic() -> None:
    schema = pa.schema(
        [
            ("id", pa.int32()),
            ("big", pa.uint64()),
            ("at", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.string())),
            ("who", pa.struct([("name", pa.string())])),
            ("free", pa.map_(pa.string(), pa.string())),
            pa.field("document", pa.string(), metadata={"json": "checked"}),
            ("title", pa.string()),
        ]
    )
    mapping = mapping_of(schema, {"title": {"type": "text"}})
    assert mapping["dynamic"] is False
    types = {name: field.get("type") for name, field in mapping["properties"].items()}
    assert types == {
        "id": "long", "big": "unsigned_long", "at": "date", "price": "double", "tags": "keyword", "who": None,
        "free": "object", "document": "object", "title": "text",
    }  # fmt: skip
    assert mapping["properties"]["free"]["enabled"] is mapping["properties"]["document"]["enabled"] is False
    assert json.loads(json.dumps(mapping)) == mapping


def test_a_changed_type_is_named_and_a_new_column_is_none() -> None:
    published = mapping_of(pa.schema([("a", pa.int64())]), {})["properties"]
    assert changed_types(pa.schema([("a", pa.int32()), ("b", pa.string())]), {}, published) == []
    [problem] = changed_types(pa.schema([("a", pa.string())]), {}, published)
    assert "'a' would become keyword and is long" in problem
