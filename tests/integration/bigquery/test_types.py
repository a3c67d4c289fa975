"""Every type of the mapping through a real server: Arrow into a staging table, by SQL into the target, and back.

What only the real service can show: BIGNUMERIC, since the emulator makes no such column, and Storage Write into RECORD
columns, since the emulator forgets their fields there (``_table_arrow_schema``), fails the commit and calls the stream
committed all the same. Columns with a RECORD come by a load job here.
"""

from __future__ import annotations

import datetime as dt
import io
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import Appender
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks._bigquery.aliases import STAGED
from airflow_provider_connect.sinks._bigquery.columns.rows import convert_batch, staging_schema
from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn, make_columns
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from tests.equipment.bigquery.bench import bench_of
from tests.equipment.bigquery.fixtures import REAL_PROJECT, Target
from tests.equipment.frozen import MONDAY

pytestmark = pytest.mark.slow

FIRST, LAST = map(dt.datetime.fromisoformat, ("0001-01-01", "9999-12-31T23:59:59.999999"))
LARGEST = Decimal("9" * 29 + "." + "9" * 9)
JSON = {"json": "checked"}

# name: Arrow type, values, what comes back where that differs
VALUES: dict[str, tuple[pa.Field | pa.DataType, list[Any], list[Any] | None]] = {
    "n": (pa.int8(), [0, 1, 2], None),
    "bool": (pa.bool_(), [True, None, False], None),
    "int64": (pa.int64(), [-(2**63), None, 2**63 - 1], None),
    "uint32": (pa.uint32(), [0, None, 2**32 - 1], None),
    "uint64": (pa.uint64(), [0, None, 2**64 - 1], None),
    "float": (pa.float64(), [float("-inf"), None, 1.7976931348623157e308], None),
    "float 16": (pa.float16(), [float("inf"), None, 65504.0], None),
    "numeric": (pa.decimal128(38, 9), [LARGEST.copy_negate(), None, LARGEST], None),
    "string": (pa.large_string(), ["", None, "é\n\t\"'\\🎉𐍈\u2028"], None),
    "json": (
        pa.field("json", pa.string(), metadata=JSON),
        ['{"a":{"b":["🎉",1.5,null]}}', None, '"\\ud800"'],
        [{"a": {"b": ["🎉", 1.5, None]}}, None, "\ufffd"],
    ),
    "required json": (
        pa.field("required json", pa.string(), nullable=False, metadata=JSON),
        ["[]", "null", '{"broken": '],
        [[], None, '{"broken": '],
    ),
    "bytes": (pa.binary_view(), [b"", None, bytes(range(256))], None),
    "date": (pa.date32(), [FIRST.date(), None, LAST.date()], None),
    "time": (pa.time64("ns"), [FIRST.time(), None, LAST.time()], None),
    "timestamp": (
        pa.timestamp("us", "Asia/Kathmandu"),
        [FIRST.replace(tzinfo=dt.UTC), None, LAST.replace(tzinfo=dt.UTC)],
        None,
    ),
    "datetime": (pa.timestamp("us"), [FIRST, None, LAST], None),
    "null": (pa.null(), [None] * 3, None),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], None),
    "struct": (
        pa.struct([("a.b", pa.int8()), ("day", pa.date32()), ("none", pa.struct([]))]),
        [{"a.b": 1, "day": LAST.date(), "none": {}}, None, {"a.b": None, "day": None, "none": None}],
        [{"a_b_xb5c3222649": 1, "day": LAST.date()}, None, {"a_b_xb5c3222649": None, "day": None}],
    ),
    "list": (pa.list_(pa.int32()), [[-(2**31), 2**31 - 1], None, []], [[-(2**31), 2**31 - 1], [], []]),
    "lists": (
        pa.list_(pa.list_(pa.string())),
        [[["a"], [], ["🎉", ""]], None, []],
        [[{"items": ["a"]}, {"items": []}, {"items": ["🎉", ""]}], [], []],
    ),
    "map": (
        pa.map_(pa.string(), pa.float32()),
        [[("a", 1.5), ("b", None)], None, []],
        [[{"key": "a", "value": 1.5}, {"key": "b", "value": None}], [], []],
    ),
}

NESTED = ["n", "struct", "lists", "map"]
PLAIN = [name for name in VALUES if name not in NESTED[1:]]


@pytest.fixture
def api(google_connection: Connection) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(google_connection, timeout_seconds=20, retry_budget_seconds=20) as opened:
        yield opened


def make(api: BigQueryApi, place: TableRef, fields: list[dict[str, Any]]) -> None:
    from google.cloud import bigquery

    schema = [bigquery.SchemaField.from_api_repr(field) for field in fields]
    api.call("making a table", api.client.create_table, bigquery.Table(place.id, schema))


def stage(api: BigQueryApi, staging: TableRef, found: list[TargetColumn], rows: pa.RecordBatch) -> None:
    from google.cloud import bigquery

    if REAL_PROJECT or not any(column.staging["type"] == "RECORD" for column in found):
        with Appender(api, staging, staging_schema(found)) as appender:
            appender.append(rows)
            finalize_and_commit(api, staging, [appender.close()])
        return
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_batches([rows]), parquet)
    how = bigquery.LoadJobConfig(source_format="PARQUET", write_disposition="WRITE_APPEND")
    job = api.client.load_table_from_file(parquet, staging.id, rewind=True, job_config=how, timeout=20)
    job.result(retry=None, timeout=20)


def load(api: BigQueryApi, target: TableRef, batch: pa.RecordBatch, found: list[TargetColumn]) -> list[dict[str, Any]]:
    """Load a batch by way of a staging table, and return the target's rows."""
    staging = target.sibling(f"{target.table}_stage")
    make(api, staging, [column.staging for column in found])
    converted = convert_batch(batch, found, 0)
    assert converted.rejects == []
    stage(api, staging, found, converted.batch)
    names = ", ".join(f"`{column.name}`" for column in found)
    values = ", ".join(column.expression for column in found)
    insert = f"INSERT INTO {target.sql} ({names}) SELECT {values} FROM {staging.sql} AS {STAGED}"
    api.query(insert, action="inserting", labels={})
    rows, _ = api.query(f"SELECT * FROM {target.sql} ORDER BY n", action="reading", labels={})
    return rows


@pytest.mark.parametrize("names", [PLAIN, NESTED], ids=["plain by storage write", "nested by load job"])
def test_extreme_values_arrive_as_they_are(api: BigQueryApi, dataset: str, names: list[str]) -> None:
    kinds = [VALUES[name][0] for name in names]
    schema = pa.schema([k if isinstance(k, pa.Field) else pa.field(n, k) for n, k in zip(names, kinds, strict=True)])
    arrays = [pa.array(VALUES[field.name][1], field.type) for field in schema]
    found = make_columns(schema)
    target = TableRef(api.project, dataset, "target")
    make(api, target, [column.target for column in found])
    rows = load(api, target, pa.record_batch(arrays, schema=schema), found)
    assert len(rows) == 3
    for column in found:
        _, given, expected = VALUES[column.source]
        assert [row[column.name] for row in rows] == (given if expected is None else expected), column.source


def test_nan_is_kept(api: BigQueryApi, dataset: str) -> None:
    batch = pa.record_batch([pa.array([1]), pa.array([math.nan])], ["n", "x"])
    found = make_columns(batch.schema)
    target = TableRef(api.project, dataset, "target")
    make(api, target, [column.target for column in found])
    (row,) = load(api, target, batch, found)
    assert math.isnan(row["x"])


def test_structs_go_into_a_table_whose_fields_have_another_order(api: BigQueryApi, dataset: str) -> None:
    inner = [
        {"name": "gone", "type": "STRING", "mode": "REPEATED"},
        {"name": "b", "type": "STRING", "mode": "NULLABLE"},
        {"name": "old", "type": "INTEGER", "mode": "NULLABLE"},
        {"name": "a", "type": "STRING", "mode": "NULLABLE"},
    ]
    existing = [
        {"name": "n", "type": "INTEGER", "mode": "NULLABLE"},
        {"name": "s", "type": "RECORD", "mode": "NULLABLE", "fields": inner},
        {"name": "l", "type": "RECORD", "mode": "REPEATED", "fields": inner},
    ]
    kind = pa.struct([("a", pa.string()), ("b", pa.string())])
    schema = pa.schema([("n", pa.int64()), ("s", kind), ("l", pa.list_(kind))])
    one = {"a": "A", "b": "B"}
    batch = pa.record_batch(
        [pa.array([1, 2]), pa.array([one, None], kind), pa.array([[one, {"a": "C", "b": None}], []], pa.list_(kind))],
        schema=schema,
    )
    found = make_columns(schema, existing)
    target = TableRef(api.project, dataset, "target")
    make(api, target, existing)
    first, second = load(api, target, batch, found)
    whole = {"gone": [], "b": "B", "old": None, "a": "A"}
    assert first == {"n": 1, "s": whole, "l": [whole, whole | {"b": None, "a": "C"}]}
    assert second == {"n": 2, "s": None, "l": []}


def test_a_reload_differs_where_values_do_whatever_their_type(bigquery_target: Target, tmp_path: Path) -> None:
    """NULL equals NULL and NaN NaN; neither order nor a new column changes a row; rows of one key are paired."""
    schema = pa.schema(
        [
            pa.field(RECORD_KEY, pa.string(), nullable=False),
            pa.field("float", pa.float64()),
            pa.field("numeric", pa.decimal128(38, 9)),
            pa.field("json", pa.string(), metadata=JSON),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("bytes", pa.binary()),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )

    def rows(*rows: tuple[Any, ...], schema: pa.Schema = schema) -> pa.Table:
        made = [(f"{row[0]:032x}", *row[1:]) for row in rows]
        return pa.table([pa.array(c, f.type) for c, f in zip(zip(*made, strict=True), schema, strict=True)], schema)

    values = (math.nan, Decimal("1.5"), '{"a": [1.50, null]}', ["a", "b"], b"\0", LAST.replace(tzinfo=dt.UTC))
    nothing = (None, None, None, None, None, None)
    kept = [(1, *values), (2, *nothing), (3, 0.1, *values[1:])]
    before = [*kept, (4, *values), (5, *nothing), (6, *values), (7, *values), (8, *values), (8, *values)]
    sink = bench_of(bigquery_target, tmp_path).having(schema)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, rows(*before)))
    after = [
        (8, *values),
        (9, *nothing),
        *reversed(kept),
        (4, *values[:3], ["b", "a"], *values[4:]),
        (5, None, Decimal(0), *nothing[2:]),
        (6, *values[:2], None, *values[3:]),
        (8, *values[:5], FIRST.replace(tzinfo=dt.UTC)),
    ]
    wider = sink.having(schema.append(pa.field("new", pa.int64())))
    assert wider.preflight() == []
    more = rows(*((*row, 1) for row in after), schema=wider.schema)
    row = wider.publish(wider.stage(MONDAY, more, order=2))
    counts = {name: row.counts[name] for name in ("added", "changed", "vanished")}
    assert counts == {"added": 1, "changed": 4, "vanished": 1}
    empty = wider.publish(wider.stage(MONDAY, order=3))
    assert [empty.counts[name] for name in ("added", "changed", "vanished")] == [0, 0, 9]
    uncounted = sink.having(wider.schema, differences="off")
    assert uncounted.preflight() == []
    row = uncounted.publish(uncounted.stage(MONDAY, more, order=4))
    assert not {"added", "changed", "vanished"} & set(row.counts)
