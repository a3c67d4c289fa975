"""Masks: the same value has the same hash under the same key, and nothing of it can be read."""

from __future__ import annotations

import hashlib
import hmac
import pickle
import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes import Chain, Mask, mask
from airflow_provider_connect.shapes.mask import hmac_sha256

from .rows import CONNECTIONS, KEY, TYPES, column, shaped

HASH = {"mask": {"columns": ["a"], "conn_id": "key"}}


def hashed(value: Any) -> str | None:
    text = value if isinstance(value, bytes) else str(value).encode()
    return None if value is None else hmac.new(KEY.encode(), text, "sha256").hexdigest()


@given(key=st.binary(min_size=1, max_size=100), text=st.binary())
def test_the_hash_is_hmac_sha_256(key: bytes, text: bytes) -> None:
    assert hmac_sha256(key)(text) == hmac.new(key, text, hashlib.sha256).hexdigest()


def test_the_hash_is_that_of_rfc_4231() -> None:
    assert hmac_sha256(b"Jefe")(b"what do ya want for nothing?") == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


@pytest.mark.parametrize("name", ["text", "large", "big", "unsigned", "bytes", "date", "coded", "tiny"])
@given(data=st.data())
def test_every_value_has_the_hash_of_its_text(name: str, data: st.DataObject) -> None:
    kind, drawn = TYPES[name]
    values = data.draw(st.lists(st.none() | drawn, max_size=6))
    made, counts = shaped([HASH], column(values, kind))
    assert made.column("a").type == pa.string()
    assert made.column("a").to_pylist() == [hashed(value) for value in values]
    assert counts == {"shape_0_mask": len(values) - values.count(None)}


def test_hashes_of_many_texts_stay_those_of_hmac_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask, "MAX_CACHED_HASHES", 3)
    hashes = mask.Hashes(KEY.encode())
    for text in [b"a", b"b", b"c", b"a", b"d", b"a", b"b"]:
        assert hashes[text] == hashed(text)
        assert len(hashes) <= 3


def test_numbers_and_texts_of_one_id_join() -> None:
    one, _ = shaped([HASH], column([17, 17], pa.int32()))
    other, _ = shaped([HASH], column(["17"]))
    assert set(one.column("a").to_pylist()) == set(other.column("a").to_pylist())


def test_another_key_gives_another_hash() -> None:
    chain, batch = Chain.of([HASH]), column(["x"])
    others = {"key": Connection(conn_id="key", password="f" * 32)}
    made = chain.bind(batch.schema, others)(batch, Counter())
    assert made.column("a")[0].as_py() != hashed("x")


@pytest.mark.parametrize("name", sorted(TYPES))
@given(data=st.data())
def test_redact_leaves_a_sign_where_a_value_was(name: str, data: st.DataObject) -> None:
    kind, drawn = TYPES[name]
    values = data.draw(st.lists(st.none() | drawn, max_size=4))
    made, counts = shaped([{"mask": {"columns": ["a"], "mode": "redact"}}], column(values, kind))
    assert made.column("a").to_pylist() == [None if value is None else "***" for value in values]
    assert counts["shape_0_mask"] == len(values) - values.count(None)


@given(texts=st.lists(st.none() | st.text()))
def test_truncate_keeps_the_first_characters(texts: list[str | None]) -> None:
    made, _ = shaped(
        [{"mask": {"columns": ["a"], "mode": "truncate", "keep_characters": 2}}], column(texts, pa.string())
    )
    assert made.column("a").to_pylist() == [text and text[:2] for text in texts]


@given(rows=st.lists(st.tuples(st.none() | st.integers(-5, 5), st.none() | st.integers(0, 1))))
def test_rows_beside_the_condition_keep_their_text(rows: list[tuple[int | None, int | None]]) -> None:
    schema = pa.schema([("a", pa.int64()), ("flag", pa.int64())])
    batch = pa.RecordBatch.from_arrays(
        [pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1)], schema=schema
    )
    when = {"column": "flag", "operator": "equals", "value": 1}
    made, counts = shaped([{"mask": HASH["mask"] | {"when": when}}], batch)
    expected = [None if id_ is None else hashed(id_) if flag == 1 else str(id_) for id_, flag in rows]
    assert made.column("a").to_pylist() == expected
    assert counts["shape_0_mask"] == sum(id_ is not None and flag == 1 for id_, flag in rows)


def test_keys_comments_and_places_stay_and_a_document_is_one_no_more() -> None:
    marks = {"comment": "Who.", "json": "checked"}
    schema = pa.schema([pa.field("a", pa.string(), nullable=False, metadata=marks), ("b", pa.int64())])
    after = Mask(columns=["a"], conn_id="key").result_schema(schema)
    assert after.field(0).equals(
        pa.field("a", pa.string(), nullable=False, metadata={"comment": "Who."}), check_metadata=True
    )
    assert after.names == ["a", "b"]


@pytest.mark.parametrize("password", [None, "", "fifteen bytes !"])
def test_a_key_that_can_be_guessed_is_refused(password: str | None) -> None:
    connections = {"key": Connection(conn_id="key", password=password)}
    with pytest.raises(
        ConfigError, match=r"shape\[0\] \(mask\): conn_id: .*connection 'key'.*fewer than 16 bytes"
    ) as error:
        Chain.of([HASH]).bind(column(["x"]).schema, connections)
    assert "fifteen" not in str(error.value)


def test_the_key_is_nowhere_to_be_read() -> None:
    chain = Chain.of([HASH])
    assert chain.conn_ids == ("key",)
    assert chain.hides_values
    assert KEY not in repr(chain) + str(chain.serialize()) + repr(pickle.dumps(chain)) + repr(CONNECTIONS)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "conn_id: required with mode='hash'"),
        ({"mode": "truncate"}, "keep_characters: required with mode='truncate'"),
        (
            {"mode": "redact", "conn_id": "k", "keep_characters": 1},
            "conn_id: belongs to mode='hash'; keep_characters: belongs",
        ),
        ({"mode": "truncate", "keep_characters": 0}, "keep_characters: Input should be greater than or equal to 1"),
        ({"mode": "sha256", "conn_id": "k"}, "mode: Input should be 'hash', 'redact' or 'truncate'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        Mask(columns=["a"], **options)


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (pa.int64(), {"mode": "truncate", "keep_characters": 1}, "truncate is for texts, but the column is int64"),
        (pa.float64(), {"conn_id": "key"}, "double has no single text to hash"),
        (pa.list_(pa.int64()), {"conn_id": "key"}, "has no single text to hash"),
        (pa.duration("s"), {"conn_id": "key"}, "has no single text to hash"),
        (
            pa.binary(),
            {"mode": "redact", "when": {"column": "a", "operator": "is_null"}},
            "binary has no text to keep",
        ),
    ],
)
def test_what_cannot_be_masked_so_is_told_before_the_run(kind: pa.DataType, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"column 'a': .*{told}"):
        Mask(columns=["a"], **options).result_schema(pa.schema([("a", kind)]))


def test_what_has_no_text_is_null_and_counted() -> None:
    far = pa.array([2**62, 0], pa.int64()).cast(pa.timestamp("us"))
    made, counts = shaped([HASH], column(far))
    assert made.column("a").to_pylist() == [None, hashed("1970-01-01T00:00:00.000000")]
    assert counts == {"shape_0_mask": 1, "shape_0_mask_null": 1}


def test_decimals_have_the_text_of_their_type() -> None:
    made, _ = shaped([HASH], column([Decimal("1.50")], pa.decimal128(5, 2)))
    assert made.column("a").to_pylist() == [hashed("1.50")]
