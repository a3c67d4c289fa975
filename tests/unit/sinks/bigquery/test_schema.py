"""What becomes of a table's columns, and what preflight says about tables, without a server."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import filter_column
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.columns.schema import (
    DAY_FIELD,
    SchemaChange,
    SchemaContract,
    compare_schema,
    describe_type,
    new_fields,
)
from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn, make_columns
from airflow_provider_connect.sinks._bigquery.problems import expiry_problem, new_table_problems, table_problems
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from tests.equipment.bigquery.fixtures import options

TARGET = TableRef("some-project", "d", "events")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"comment": "Who."}),
        pa.field("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)


def field(name: str, kind: str, mode: str = "NULLABLE", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "mode": mode, **more}


def evolve(existing: list[dict[str, Any]], schema: pa.Schema, contract: SchemaContract = "evolve") -> SchemaChange:
    return compare_schema("p.d.t", existing, make_columns(schema, existing), contract)


def of(*fields: pa.Field) -> pa.Schema:
    return pa.schema(list(fields))


def test_a_table_as_it_was_made_needs_no_change() -> None:
    existing = new_fields(make_columns(SCHEMA))
    for contract in ("evolve", "freeze", "discard_columns"):
        found = evolve(existing, SCHEMA, contract)  # type: ignore[arg-type]
        assert not found.changed
        assert found.fields == existing
        assert [column.name for column in found.written_columns] == ["id", "s", "tags", "at"]
        assert found.discarded_sources == ()


def test_synonyms_of_types_are_no_change() -> None:
    kinds = [("INT64", pa.int64()), ("FLOAT64", pa.float64()), ("BOOL", pa.bool_()), ("DECIMAL", pa.decimal128(5, 2))]
    existing = [field(f"c{i}", name) for i, (name, _) in enumerate(kinds)] + [DAY_FIELD]
    assert not evolve(existing, pa.schema([(f"c{i}", kind) for i, (_, kind) in enumerate(kinds)]), "freeze").changed


def test_new_columns_come_last_nullable_and_only_by_the_contract() -> None:
    existing = [DAY_FIELD, field("id", "INTEGER")]
    schema = of(
        pa.field("new", pa.string(), nullable=False), pa.field("id", pa.int64()), pa.field("n", pa.list_(pa.int64()))
    )
    found = evolve(existing, schema)
    assert found.added_names == ("new", "n")
    assert [(f["name"], f["mode"]) for f in found.fields] == [
        ("day", "NULLABLE"),
        ("id", "NULLABLE"),
        ("new", "NULLABLE"),
        ("n", "REPEATED"),
    ]
    assert found.changed
    with pytest.raises(
        DataError, match=r"table p.d.t: column 'new' is new \(STRING\).*column 'n' is new \(REPEATED INT"
    ):
        evolve(existing, schema, "freeze")
    left = evolve(existing, schema, "discard_columns")
    assert not left.changed
    assert left.discarded_sources == ("new", "n")
    assert [column.name for column in left.written_columns] == ["id"]
    assert left.fields == existing


def test_new_nested_fields_follow_the_contract() -> None:
    existing = [DAY_FIELD, field("s", "RECORD", fields=[field("old", "STRING"), field("b", "STRING")])]
    schema = of(pa.field("s", pa.struct([("b", pa.string()), ("c", pa.int64())])))
    found = evolve(existing, schema)
    assert found.changed
    assert found.added_names == ()
    assert [f["name"] for f in found.fields[1]["fields"]] == ["old", "b", "c"]
    # What is inserted has the table's fields in the table's order: BigQuery matches a struct's fields by position.
    assert [f["name"] for f in found.written_columns[0].target["fields"]] == ["old", "b", "c"]
    assert existing[1]["fields"] == [field("old", "STRING"), field("b", "STRING")]  # left as it was
    with pytest.raises(
        DataError, match=r"column 's\.c' is new \(INTEGER\).*: leave it out in the source, or add it by hand"
    ):
        evolve(existing, schema, "freeze")
    with pytest.raises(DataError, match=r"field 's\.c' is new inside a column"):
        evolve(existing, schema, "discard_columns")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (field("c", "INTEGER"), pa.string(), "'c' is INTEGER in the table and STRING now"),
        (field("c", "STRING", "REPEATED"), pa.string(), "'c' is REPEATED STRING in the table and STRING now"),
        (field("c", "FLOAT"), pa.decimal128(5, 2), "'c' is FLOAT in the table and NUMERIC now"),
        (field("c", "TIMESTAMP"), pa.timestamp("us"), "'c' is TIMESTAMP in the table and DATETIME now"),
        (field("c", "BIGNUMERIC"), pa.float64(), "'c' is BIGNUMERIC in the table and FLOAT now"),
        (
            field("c", "RECORD", fields=[field("x", "STRING", maxLength="10")]),
            pa.struct([("x", pa.string())]),
            r"'c\.x' is STRING\(10\) in the table, and a longer value",
        ),
        (
            field("c", "RECORD", fields=[field("x", "INTEGER")]),
            pa.struct([("x", pa.decimal128(10, 2))]),
            r"'c\.x' is INTEGER in the table and NUMERIC now",
        ),
        (
            field("c", "RECORD", fields=[field("x", "RECORD", fields=[field("y", "STRING")])]),
            pa.struct([("x", pa.struct([("y", pa.int64())]))]),
            r"'c\.x\.y' is STRING in the table and INTEGER now",
        ),
    ],
)
@pytest.mark.parametrize("contract", ["evolve", "freeze", "discard_columns"])
def test_a_changed_type_fails_under_every_contract(
    old: dict[str, Any], new: pa.DataType, said: str, contract: SchemaContract
) -> None:
    with pytest.raises(DataError, match=said):
        evolve([old, DAY_FIELD], of(pa.field("c", new)), contract)


@pytest.mark.parametrize(
    ("old", "new"),
    [("NUMERIC", pa.int64()), ("BIGNUMERIC", pa.int64()), ("BIGNUMERIC", pa.decimal128(10, 2))],
)
def test_a_narrower_number_fits(old: str, new: pa.DataType) -> None:
    found = evolve([field("c", old), DAY_FIELD], of(pa.field("c", new)))
    assert not found.changed
    assert found.fields[0]["type"] == old


GROWN = [
    (field("c", "INTEGER"), pa.decimal128(20, 0), "NUMERIC"),
    (field("c", "INTEGER", "REQUIRED"), pa.decimal128(38, 20), "BIGNUMERIC"),
    (field("c", "NUMERIC"), pa.decimal128(38, 20), "BIGNUMERIC"),
    (field("c", "STRING", maxLength="10"), pa.string(), "STRING"),
    (field("c", "NUMERIC", precision="10", scale="2"), pa.decimal128(12, 2), "NUMERIC"),
    (field("c", "NUMERIC", precision="10", scale="2"), pa.int64(), "NUMERIC"),
]


@pytest.mark.parametrize(("old", "new", "grown"), GROWN)
def test_a_column_grows_where_bigquery_lets_it(old: dict[str, Any], new: pa.DataType, grown: str) -> None:
    existing = [old, DAY_FIELD]
    assert evolve(existing, of(pa.field("c", new))).new_types == (("c", grown),)
    for contract in ("freeze", "discard_columns"):
        with pytest.raises(DataError, match=r"'c' is .* in the table"):
            evolve(existing, of(pa.field("c", new)), contract)  # type: ignore[arg-type]


def test_required_is_relaxed_by_evolve_and_kept_by_the_others() -> None:
    existing = [field("id", "INTEGER", "REQUIRED"), DAY_FIELD]
    schema = of(pa.field("id", pa.int64()))
    found = evolve(existing, schema)
    assert found.changed
    assert found.fields[0]["mode"] == "NULLABLE"
    for contract in ("freeze", "discard_columns"):
        kept = evolve(existing, schema, contract)  # type: ignore[arg-type]
        assert not kept.changed
        assert kept.written_columns[0].target["mode"] == "REQUIRED"  # so that a NULL is found before it is sent
    assert not evolve(existing, of(pa.field("id", pa.int64(), nullable=False))).changed


def test_a_required_column_that_the_source_lacks_follows_the_contract() -> None:
    existing = [field("id", "INTEGER"), field("must", "STRING", "REQUIRED"), DAY_FIELD]
    schema = of(pa.field("id", pa.int64()))
    assert evolve(existing, schema).fields[1]["mode"] == "NULLABLE"
    with pytest.raises(DataError, match=r"'must' is REQUIRED in the table and the source lacks it: ALTER TABLE"):
        evolve(existing, schema, "freeze")


def test_a_table_without_the_day_column_gets_it_only_by_evolve() -> None:
    schema = of(pa.field("id", pa.int64()))
    assert evolve([field("id", "INTEGER")], schema).added_names == ("day",)
    for contract in ("freeze", "discard_columns"):
        with pytest.raises(DataError, match="no column 'day', which identifies a row's day: ALTER TABLE"):
            evolve([field("id", "INTEGER")], schema, contract)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="'day' is STRING in the table and DATE now"):
        evolve([field("id", "INTEGER"), field("day", "STRING")], schema)


def test_what_a_person_added_to_a_field_stays() -> None:
    mine = field(
        "id", "INTEGER", "REQUIRED", description="mine", policyTags={"names": ["x"]}, defaultValueExpression="1"
    )
    found = evolve([mine, DAY_FIELD], of(pa.field("id", pa.int64(), metadata={"comment": "Theirs."})))
    assert found.fields[0] == mine | {"mode": "NULLABLE"}


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(DataError) as caught:
        evolve(
            [field("a", "STRING"), field("b", "STRING"), DAY_FIELD], pa.schema([("a", pa.int64()), ("b", pa.int64())])
        )
    assert str(caught.value).count(" in the table and INTEGER now") == 2


def test_types_are_described_for_people() -> None:
    assert describe_type(field("a", "DECIMAL", "REPEATED", precision="5")) == "REPEATED NUMERIC(5)"


def table(partition: bigquery.TimePartitioning | None = None, **options: Any) -> bigquery.Table:
    found = bigquery.Table(TARGET.id)
    found.time_partitioning = partition
    for name, value in options.items():
        setattr(found, name, value)
    return found


def by(column: str | None, kind: str = "DAY", days: float | None = None) -> bigquery.TimePartitioning:
    return bigquery.TimePartitioning(type_=kind, field=column, expiration_ms=days and int(days * 86_400_000))


MADE: list[TargetColumn] = make_columns(pa.schema([*SCHEMA, ("born", pa.date32())]))
RANGE = bigquery.RangePartitioning(range_=bigquery.PartitionRange(start=0, end=9, interval=1), field="id")


@pytest.mark.parametrize(
    ("existing", "said"),
    [
        (table(), "partitioned otherwise (not at all) than the options request (day by day)"),
        (table(by("at")), "(at by day) than the options request (day by day)"),
        (table(by("day", "MONTH")), "(day by month)"),
        (table(by(None)), "(time of arrival by day)"),
        (table(range_partitioning=RANGE), "(id by ranges of whole numbers)"),
    ],
)
def test_another_partitioning_is_reported(existing: bigquery.Table, said: str) -> None:
    [problem] = table_problems(existing, TARGET, options(), MADE)
    assert said in problem


def test_the_requested_partitioning_and_key_are_accepted() -> None:
    assert table_problems(table(by("day")), TARGET, options(), MADE) == []
    assert (
        table_problems(table(by("at", "HOUR")), TARGET, options(partition_by="at", partition_type="hour"), MADE) == []
    )
    key = bigquery.EncryptionConfiguration(kms_key_name="projects/k")
    assert (
        table_problems(table(by("day"), encryption_configuration=key), TARGET, options(kms_key="projects/k"), MADE)
        == []
    )
    [problem] = table_problems(table(by("day")), TARGET, options(kms_key="projects/k"), MADE)
    assert "a key of Google, not with projects/k" in problem


def test_a_table_that_expires_is_a_problem() -> None:
    ends = dt.datetime(2026, 12, 24, 18, 30, tzinfo=dt.UTC)
    [problem] = table_problems(table(by("day"), expires=ends), TARGET, options(), MADE)
    assert "some-project.d.events expires at 2026-12-24 18:30 UTC" in problem
    assert "expiration_timestamp = NULL" in problem


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (options(create_disposition="never"), "does not exist and create_disposition='never'"),
        (options(partition_by="id"), "partition_by='id' is a INTEGER column"),
        (options(partition_by="born", partition_type="hour"), "is a DATE and has no hours"),
        (options(cluster_by=("tags",)), "cluster_by names 'tags'"),
        (options(cluster_by=("s",)), "cluster_by names 's', a RECORD column"),
    ],
)
def test_options_that_cannot_create_a_table_are_reported(chosen: BigQuerySink, said: str) -> None:
    [problem] = new_table_problems(TARGET, chosen, MADE)
    assert said in problem


def test_options_that_name_a_missing_column_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"names 'nope', which the source lacks\. It has at, born, id, s, tags"):
        new_table_problems(TARGET, options(partition_by="nope"), MADE)


@pytest.mark.parametrize(
    ("partition", "day", "gone"),
    [
        (by("day", days=10), dt.date(2026, 11, 9), True),
        (by("day", days=10), dt.date(2026, 11, 10), False),
        (by("day", "MONTH", days=10), dt.date(2026, 10, 1), True),
        (by("day", "MONTH", days=20), dt.date(2026, 10, 1), False),
        (by("day", "YEAR", days=1), dt.date(2026, 1, 1), False),
        (by("day"), dt.date(1990, 1, 1), False),
        (by("at", days=10), dt.date(2026, 11, 9), True),
        (by("at", "HOUR", days=10), dt.date(2026, 11, 10), False),
        (by(None, days=1), dt.date(1990, 1, 1), False),
        (None, dt.date(1990, 1, 1), False),
    ],
)
def test_a_day_older_than_the_partition_expiration_is_reported(partition: Any, day: dt.date, gone: bool) -> None:
    said = expiry_problem(table(partition), day, dt.date(2026, 11, 20))
    assert (said is not None) == gone
    if said:
        assert re.search(r"some-project.d.events drops partitions( of 'at')? after 10 days", said)


def test_the_required_filter_column_is_read_from_the_table() -> None:
    assert filter_column(table(by("at"))) is None
    assert filter_column(table(by("at"), require_partition_filter=True)) == "at"
    assert filter_column(table(by(None), require_partition_filter=True)) == "_PARTITIONTIME"
    assert filter_column(table(range_partitioning=RANGE, require_partition_filter=True)) == "id"
