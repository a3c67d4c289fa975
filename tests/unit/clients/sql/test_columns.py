"""Type tables: the selected expression and the Arrow type of each database type."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.sql.database import Query, SqlColumn, Table, ValueChoices
from airflow_provider_connect.clients.sql.mysql import catalog
from airflow_provider_connect.clients.sql.mysql import columns as mysql
from airflow_provider_connect.clients.sql.mysql.results import type_name
from airflow_provider_connect.clients.sql.mysql.session import _comment_text
from airflow_provider_connect.clients.sql.postgresql import columns as postgresql
from airflow_provider_connect.errors import ConfigError, RetriableError

WIDE = ValueChoices()
TEXTS = ValueChoices(decimals="string")
DOUBLES = ValueChoices(decimals="double")


@pytest.mark.parametrize(
    ("base", "choices", "kind"),
    [
        ("numeric(38,0)", WIDE, pa.decimal128(38, 0)),
        ("numeric(39,0)", WIDE, pa.string()),
        ("numeric", WIDE, pa.string()),
        ("numeric(3,5)", WIDE, pa.string()),
        ("numeric(3,-2)", WIDE, pa.string()),
        ("numeric(5,2)", TEXTS, pa.string()),
        ("numeric(5,2)", DOUBLES, pa.float64()),
        ("money", WIDE, pa.string()),
        ("bigint", TEXTS, pa.int64()),
        ("timestamp(3) with time zone", WIDE, pa.timestamp("us", "UTC")),
        ("an.unknown(7)", WIDE, pa.string()),
    ],
)
def test_every_type_of_postgresql_has_its_arrow_type(base: str, choices: ValueChoices, kind: pa.DataType) -> None:
    read = postgresql.read_column(SqlColumn("c", "domain", base, is_nullable=False), '"c"', choices)
    assert read.type == read.read_type == kind
    assert read.expression.startswith('"c"')
    assert read.field == pa.field("c", kind, nullable=False)
    assert read.database_type == "domain"


@pytest.mark.parametrize(
    ("base", "choices", "kind"),
    [
        ("decimal(38,2)", WIDE, pa.decimal128(38, 2)),
        ("decimal(39,2)", WIDE, pa.string()),
        ("decimal(10,0) unsigned", DOUBLES, pa.float64()),
        ("decimal(10,0) unsigned", TEXTS, pa.string()),
        ("bigint(20) unsigned", DOUBLES, pa.decimal128(20, 0)),
        ("enum(' unsigned','decimal(1,2)')", WIDE, pa.string()),
        ("bit(64)", TEXTS, pa.decimal128(20, 0)),
        ("timestamp(6)", WIDE, pa.timestamp("us", "UTC")),
        ("inet6", WIDE, pa.string()),
    ],
)
def test_every_type_of_mysql_has_its_arrow_type(base: str, choices: ValueChoices, kind: pa.DataType) -> None:
    assert mysql.read_column(SqlColumn("c", base, base), "`c`", choices).type == kind


@pytest.mark.parametrize("charset", ["cp1250", "tis620", "ucs2", mysql.UNKNOWN_CHARSET, "utf8mb4", "latin1", None])
def test_texts_of_a_character_set_that_unicode_does_not_cover_are_checked(charset: str | None) -> None:
    base = mysql.base_type("varchar(20)", charset)
    read = mysql.read_column(SqlColumn("c", "varchar(20)", base), "`c`", WIDE)
    is_whole = charset in ("utf8mb4", "latin1", None)
    assert (base == "varchar(20)", "x'FF'" not in read.expression, read.advice == "") == (is_whole,) * 3
    assert is_whole or f"a character of {charset} that Unicode does not have?" in read.advice


@pytest.mark.parametrize("base", ["type 99", "*", "xml"])
def test_an_unknown_type_of_mysql_is_refused(base: str) -> None:
    with pytest.raises(ConfigError, match="'c' has type"):
        mysql.read_column(SqlColumn("c", base, base), "`c`", WIDE)


def test_every_item_of_a_line_is_never_null() -> None:
    """CONCAT_WS skips NULL, which would shift the following columns."""
    bases = [
        *mysql._INTEGER_TYPES,
        *mysql._TEXT_TYPES,
        *mysql._BYTE_TYPES,
        *mysql._DATE_TYPES,
        *mysql._OTHER_TYPES,
        "decimal(5,2)",
        "bit(3)",
    ]
    for choices in (WIDE, ValueChoices(zero_dates="null")):
        for base in bases:
            expression = mysql.read_column(SqlColumn("c", base, base), "`c`", choices).expression
            assert expression.startswith("ifnull(")
            assert expression.endswith(", '')")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ({"type_code": 8, "flags": 32}, "bigint unsigned"),
        ({"type_code": 3}, "int"),
        ({"type_code": 246, "length": 42, "scale": 2}, "decimal(40,2)"),
        ({"type_code": 246, "length": 10, "scale": 0, "flags": 32}, "decimal(10,0) unsigned"),
        ({"type_code": 16, "length": 64, "flags": 32}, "bit(64)"),
        ({"type_code": 252, "charsetnr": 63, "flags": 128}, "longblob"),
        ({"type_code": 252, "charsetnr": 45}, "longtext"),
        ({"type_code": 254, "charsetnr": 45, "flags": 256}, "enum"),
        ({"type_code": 254, "charsetnr": 45, "flags": 2048}, "set"),
        ({"type_code": 7, "charsetnr": 63}, "timestamp"),
        ({"type_code": 6, "charsetnr": 63}, "null"),
        ({"type_code": 99}, "type 99"),
    ],
)
def test_fields_of_the_protocol_have_the_names_of_the_information_schema(field: dict[str, int], name: str) -> None:
    described = SimpleNamespace(**{"flags": 0, "length": 0, "scale": 0, "charsetnr": 45} | field)
    assert type_name(described) == name


def test_an_index_of_mysql_ends_before_its_first_partial_column() -> None:
    parts = [("PRIMARY", "a", 1, None), ("PRIMARY", "b", 1, None)]
    parts += [("cut", "c", 1, None), ("cut", "d", 1, 10), ("cut", "e", 1, None), ("expression", None, 0, None)]
    rows = [(*part, "BTREE", "InnoDB") for part in parts]
    assert catalog.group_indexes(rows) == [("PRIMARY", ("a", "b"), True, True), ("cut", ("c",), False, True)]
    assert catalog.primary_key_columns(rows) == ["a", "b"]


def test_a_key_of_an_unknown_engine_is_not_unique() -> None:
    rows = [("PRIMARY", "a", 1, None, "HASH", "CONNECT"), ("u", "b", 1, None, "BTREE", "FEDERATED")]
    assert catalog.group_indexes(rows) == [("u", ("b",), False, True)]
    assert catalog.primary_key_columns(rows) == ["a"]


def test_the_lag_of_a_replica_is_the_largest_of_its_sources() -> None:
    assert catalog.lag_seconds([]) is None
    assert catalog.lag_seconds([{"Seconds_Behind_Master": 3}, {"Seconds_Behind_Master": 5}]) == 5.0
    assert catalog.lag_seconds([{"Seconds_Behind_Source": 0}]) == 0.0
    with pytest.raises(RetriableError, match="does not replicate"):
        catalog.lag_seconds([{"Seconds_Behind_Source": None}])


@pytest.mark.parametrize("name", ["a */ DROP TABLE x", "a\n-- x", "+ MAX_EXECUTION_TIME(1)", "! 1", "M! 1", "a\\"])
def test_an_application_name_stays_in_its_comment(name: str) -> None:
    comment = f"/* {_comment_text(name)} */"
    assert comment.count("*/") == 1
    assert not comment.startswith(("/*+", "/*!", "/*M!"))
    assert "\n" not in comment


def test_relations_and_statements_are_quoted() -> None:
    from airflow_provider_connect.clients.sql.mysql.session import MySQL

    session = MySQL.__new__(MySQL)
    assert session.relation(Table("t`", "a.b")) == "`a.b`.`t```"
    assert session.relation(Query(" SELECT 1 -- x; ")) == "(\nSELECT 1 -- x\n) AS `query`"
    statement = session.select(["a", "b"], "t", where="c = 1 -- mine", order_by="a", limit=3)
    assert statement == "SELECT a, b\nFROM t\nWHERE c = 1 -- mine\nORDER BY a\nLIMIT 3"
    with pytest.raises(ConfigError):
        session.quote("a\0b")
