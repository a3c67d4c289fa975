"""Promoted columns: what the option may say, and that a column holds the property's very value, or null and a count."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns as bigquery_columns
from airflow_provider_connect.sinks._delta.table import delta_columns
from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.values import ddl
from tests.equipment.mixpanel import poll
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn
from tests.unit.sources.mixpanel.test_rows import read, record

TYPED = {
    "$os": ("os", "string"),
    "seats": "bigint",
    "score": "double",
    "is_admin": "boolean",
    "signed_up": "timestamp",
    "born": "date",
    "price": ("amount", "decimal(12,2)"),
}


def values_of(column, properties, promote, **options):
    """Return a column's value in a row with these properties, in one beside it without any, and the counts."""
    body = record(properties=properties.encode()) + b"\n" + record(b'"beside"') + b"\n"
    rows, tally = read(body, MixpanelSource(promote=promote, deduplicate="off", **options))
    found, beside = sorted(rows, key=lambda row: row["event"] == "beside")
    assert found["properties"] == properties, "byte for byte"
    return found[column], beside[column], tally.counts


def schema_of(promote, **options):
    return MixpanelSource(promote=promote, **options).open(Connection(conn_id="m"), PollContext()).schema()


@pytest.mark.parametrize(
    ("given_", "columns"),
    [
        ({"$os": "string"}, [("$os", "$os", "string")]),
        ({"$os": ("os", "string")}, [("$os", "os", "string")]),
        ({"$os": ["os", "string"]}, [("$os", "os", "string")]),
        (["$os", "user.name"], [("$os", "$os", "string"), ("user.name", "user_name", "string")]),
        ({"p": "decimal( 9 , 2 )"}, [("p", "p", "decimal(9,2)")]),
        ({"": ("nameless", "bigint")}, [("", "nameless", "bigint")]),
        ([], []),
    ],
)
def test_promote_keeps_its_form_after_serialization(given_, columns):
    source = MixpanelSource(promote=given_)
    assert [tuple(one) for one in source.promoted] == columns
    there = MixpanelSource.from_options(json.loads(json.dumps(source.serialize())))
    assert there == source
    assert there.promoted == source.promoted


def test_a_template_waits_until_it_is_rendered():
    source = MixpanelSource(promote={"{{ var.value.name }}": ("x", "{{ var.value.type }}")})
    assert source.templates == {"promote"}
    rendered = source.rendered(lambda text: {"name": "$os", "type": "date"}[text.split()[1].removeprefix("var.value.")])
    assert rendered.checked().promoted == (("$os", "x", "date"),)
    whole = MixpanelSource(promote="{{ var.json.promote }}").rendered(lambda _: ["$os"])
    assert whole.checked().promoted == (("$os", "$os", "string"),)
    with pytest.raises(ConfigError, match="connect propose mixpanel"):
        MixpanelSource(promote="{{ x }}").rendered(lambda _: "auto").checked()


@pytest.mark.parametrize(
    ("promote", "text"),
    [
        ("auto", r"'auto' is refused.*connect propose mixpanel --conn-id"),
        (["a", "b", "a"], "property 'a' is listed twice"),
        (["a", 1], "a list contains names"),
        ({"a": "varchar"}, r"property 'a' has an unknown type. Known types: string, .*decimal\(p,s\)"),
        ({"a": "decimal(39,2)"}, "property 'a' has an unknown type"),
        ({"a": "decimal(0,0)"}, "property 'a' has an unknown type"),
        ({"a": "decimal(3,4)"}, "property 'a' has an unknown type"),
        ({"a": "decimal"}, "property 'a' has an unknown type"),
        ({"a": ("b", "string", "c")}, r"property 'a' takes a type or \(column, type\)"),
        ({"a": ("b c", "string")}, "property 'a' has a column name"),
        ({"a": ("", "string")}, "property 'a' has a column name"),
        ({"": "string"}, "property '' has no name"),
        ({'say "hi"': "string"}, "cannot be a column: its name has quotes"),
        ({"a\ud800": "string"}, "cannot be a column"),
        ({"a": "x", "b": "y"}, "property 'a' .*property 'b' "),
    ],
)
def test_a_refused_promote_names_the_property(promote, text):
    with pytest.raises(ConfigError, match=f"promote: .*{text}"):
        MixpanelSource(promote=promote)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("userName", "username"),
        ("user.name", "user_name"),
        ("user name", "user.name"),
        ("caf\u00e9", "cafe\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("\ufb01t", "fit"),
    ],
)
def test_names_that_a_sink_takes_for_one_are_refused_and_an_alias_keeps_them_apart(one, other):
    with pytest.raises(ConfigError) as caught:
        MixpanelSource(promote=[one, other])
    said = str(caught.value)
    assert all(ascii(name) in said or repr(name) in said for name in (one, other))
    assert "give it another column" in said
    body = record(properties=json.dumps({one: "first", other: "second"}, ensure_ascii=False).encode()) + b"\n"
    (row,), tally = read(body, MixpanelSource(promote={one: ("a", "string"), other: ("b", "string")}))
    assert (row["a"], row["b"]) == ("first", "second")
    assert not any(name.startswith("promote") for name in tally.counts)


@pytest.mark.parametrize("column", ["event", "DAY", "Record_Key"])
def test_an_alias_takes_no_column_of_every_row(column):
    with pytest.raises(ConfigError, match=r"which is a column of every row.*give it another column"):
        MixpanelSource(promote={"$os": (column, "string")})


def test_a_property_with_a_dot_is_not_one_inside_another():
    properties = '{"user":{"name":"inside"},"user.name":"beside"}'
    promote = {"user.name": "string", "user": "string"}
    body = record(properties=properties.encode()) + b"\n" + record(properties=b'{"user":{"name":"inside"}}') + b"\n"
    rows, _ = read(body, MixpanelSource(promote=promote, deduplicate="off"))
    assert [(row["user_name"], row["user"]) for row in rows] == [
        ("beside", '{"name":"inside"}'),
        (None, '{"name":"inside"}'),
    ]


@pytest.mark.parametrize(
    "nested",
    ['{"city": "Z\u00fcrich","n":1.10,"n":1e2,"x":null}', "[1.0, 12345678901234567890, true]", r'{"a":"\ud800"}', "[]"],
)
def test_nested_values_stay_their_json_and_never_become_a_repr(nested):
    found, beside, counts = values_of("a", f'{{"a": {nested} ,"b":1}}', {"a": "string"})
    assert (found, beside, counts["promote_null.a"]) == (nested, None, 0)
    for kind in ("bigint", "double", "boolean", "timestamp", "date", "decimal(9,2)"):
        found, _, counts = values_of("a", f'{{"a":{nested}}}', {"a": kind})
        assert (found, counts["promote_null.a"]) == (None, 1), kind


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("12.30", "decimal(4,2)", "12.30"),
        ("12.3000", "decimal(4,2)", "12.30"),
        ("12.345", "decimal(4,2)", None),
        ("123", "decimal(4,2)", None),
        ("-99.99", "decimal(4,2)", "-99.99"),
        ("0.1234567890123456789012345678901234567", "decimal(38,37)", "0.1234567890123456789012345678901234567"),
        ("9007199254740993.1", "decimal(38,2)", "9007199254740993.10"),
        ("12345678901234567890123456789012345678", "decimal(38,0)", "12345678901234567890123456789012345678"),
        ("123456789012345678901234567890123456789", "decimal(38,0)", None),
        ("6067089986867158596531264780171575790.09", "decimal(38,7)", None),
        ("1e2", "decimal(4,0)", "100"),
        ("1.5E+3", "decimal(4,0)", "1500"),
        ("15e-1", "decimal(2,1)", "1.5"),
        ("25445020455255.488152385117124e9", "decimal(35,6)", "25445020455255488152385.117124"),
        ("1e999", "decimal(38,0)", None),
        ("1e-999", "decimal(38,38)", None),
        ("0e999", "decimal(2,1)", "0.0"),
        ("-0.0", "decimal(2,1)", "0.0"),
        ('"12.5"', "decimal(4,2)", None),
        ("true", "decimal(4,2)", None),
        ("1" * 300, "decimal(38,0)", None),
    ],
)
def test_decimals_keep_every_digit_or_are_null(text, kind, expected):
    found, beside, counts = values_of("p", f'{{"p":{text}}}', {"p": kind})
    assert (None if found is None else str(found), beside) == (expected, None)
    assert counts["promote_null.p"] == (expected is None)


numbers = st.builds(
    lambda digits, exponent, mark: f"{digits}{mark}{exponent}" if mark else str(digits),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20).map(lambda d: f"{d:f}"),
    st.integers(-12, 12),
    st.sampled_from(["", "e"]),
)


@given(st.lists(numbers, min_size=1, max_size=6), st.integers(1, 38), st.data())
def test_any_number_is_the_same_number_or_null(texts, precision, data):
    scale = data.draw(st.integers(0, precision))
    body = b"".join(record(properties=b'{"p":%b}' % text.encode()) + b"\n" for text in texts)
    source = MixpanelSource(promote={"p": f"decimal({precision},{scale})"}, deduplicate="off")
    rows, tally = read(body, source)
    expected = []
    for text in texts:
        number = Decimal(text)
        with localcontext(prec=200):  # the usual 28 digits would round what the package must not
            unscaled = int(number.scaleb(scale)) if abs(number) < 10**40 else 10**40
            fits = Decimal(unscaled).scaleb(-scale) == number and abs(unscaled) < 10**precision
        expected.append(number if fits else None)
    assert [row["p"] for row in rows] == expected
    assert tally.counts["promote_null.p"] == expected.count(None)


def test_a_decimal_of_a_property_that_every_row_has():
    found, _, _ = values_of("exact", '{"time":1772323200.123}', {"time": ("exact", "decimal(20,3)")})
    assert found == Decimal("1772323200.123")


def test_decimals_of_lines_that_are_read_one_by_one():
    """Lone surrogates and unknown fields beside it: the exact way of reading."""
    odd = rb'{"event":"e","x":1,"properties":{"p":0.10,"a":"\ud800"}}'
    (row,), _ = read(odd + b"\n", MixpanelSource(promote={"p": "decimal(38,20)"}))
    assert str(row["p"]) == "0.10000000000000000000"


INSTANT = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"2026-03-01T12:00:00"', INSTANT),
        ('"2026-03-01 12:00:00"', INSTANT),
        ('"2026-03-01T12:00:00Z"', INSTANT),
        ('"2026-03-01T04:00:00.250-08:00"', INSTANT + dt.timedelta(milliseconds=250)),
        ('"2026-03-01"', dt.datetime(2026, 3, 1, tzinfo=dt.UTC)),
        ("1772366400", None),
        ("1772366400000", None),
        ('"1772366400"', None),
        ('"2026-02-30T00:00:00"', None),
        ('"0000-01-01T00:00:00"', None),  # no sink has a year 0
        ('"0001-01-01T00:00:00"', dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
        ('"undefined"', None),
    ],
)
def test_timestamps_are_mixpanels_dates(text, expected):
    found, beside, counts = values_of("t", f'{{"t":{text}}}', {"t": "timestamp"})
    assert (found, beside) == (expected, None)
    assert counts["promote_null.t"] == (expected is None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"2026-03-01"', dt.date(2026, 3, 1)),
        ('"2026-02-30"', None),
        ('"20260301"', None),
        ('"2026-03-01T00:00:00"', None),
        ("20260301", None),
    ],
)
def test_dates_are_exact_or_null(text, expected):
    found, beside, counts = values_of("d", f'{{"d":{text}}}', {"d": "date"})
    assert (found, beside) == (expected, None)
    assert counts["promote_null.d"] == (expected is None)


@pytest.mark.parametrize("kind", ["string", "bigint", "timestamp", "decimal(9,2)"])
def test_null_texts_become_null_and_are_counted(kind):
    properties = '{"a":"undefined","b":"<null>","c":{"d":"undefined"}}'
    promote = {"a": kind, "b": kind}
    found, _, counts = values_of("a", properties, promote)
    assert found == ("undefined" if kind == "string" else None)
    assert counts["promote_null_text.a"] == 0
    found, _, counts = values_of("a", properties, promote, null_texts=["undefined", "<null>"])
    assert found is None
    assert (counts["promote_null_text.a"], counts["promote_null_text.b"]) == (1, 1)
    assert (counts["promote_null.a"], counts["promote_null.b"]) == (0, 0)


def test_null_texts_without_a_promoted_property_are_refused():
    with pytest.raises(ConfigError, match=r"null_texts: .*Set promote"):
        MixpanelSource(null_texts="undefined")
    with pytest.raises(ConfigError, match="null_texts: stream 'cohorts' does not use it"):
        MixpanelSource(stream="cohorts", null_texts="undefined")


def test_columns_have_the_types_that_spark_and_the_sinks_know():
    schema = schema_of(TYPED)
    lines = ddl.ddl_columns(schema)[-len(TYPED) :]
    assert lines == [
        "os STRING",
        "seats BIGINT",
        "score DOUBLE",
        "is_admin BOOLEAN",
        "signed_up TIMESTAMP",
        "born DATE",
        "amount DECIMAL(12,2)",
    ]
    targets = [str(column.target["type"]) for column in bigquery_columns(schema)][-len(TYPED) :]
    assert targets == ["STRING", "INTEGER", "FLOAT", "BOOLEAN", "TIMESTAMP", "DATE", "NUMERIC"]
    for name in ("json", "json_schema", "json_schema_envelope", "avro", "protobuf"):
        assert make_converter(name, schema, dt.date(2026, 3, 1), record_name="Events").problems() == []
    assert "decimal(12,2)" in str(delta_columns(schema)["amount"].type).lower().replace(" ", "")


@pytest.fixture(scope="module")
def standin():
    with StandIn(Project(events_per_day=300), people=People(users=300), engage=Engage(page_size=100)) as server:
        yield server


@pytest.mark.parametrize("stream", ["export", "engage"])
def test_both_streams_promote_alike_through_the_server(standin, stream):
    """Of each row the columns against the properties in it, read by another parser."""
    promote = {
        "amount": ("exact", "decimal(38,10)"),
        "revenue": "decimal(12,2)",
        "userName": ("first", "string"),
        "username": ("second", "string"),
        "address": "string",
        "first_touch": "string",
        "plan": "string",
        "$created": "timestamp",
    }
    rows, tally = poll(standin, stream=stream, promote=promote, null_texts=["undefined"])
    seen = set()
    for row in rows:
        parsed = json.loads(row["properties"], parse_float=Decimal)
        seen |= parsed.keys() & promote.keys()
        assert (row["first"], row["second"]) == (parsed.get("userName"), parsed.get("username"))
        assert row["plan"] == (None if parsed.get("plan") == "undefined" else parsed.get("plan"))
        for column, name in (("exact", "amount"), ("revenue", "revenue")):
            number = parsed.get(name)
            assert row[column] == (number if isinstance(number, int | Decimal) else None)
        for name in ("address", "first_touch"):
            nested = parsed.get(name)
            assert (row[name] and json.loads(row[name], parse_float=Decimal)) == nested
    assert {"userName", "username", "plan"} <= seen
    assert tally.counts["promote_null_text.plan"] > 0


def test_a_property_that_is_a_column_of_every_row_is_promoted_beside_it(standin):
    rows, _ = poll(standin, stream="engage", promote={"$last_seen": ("seen_at", "timestamp"), "time": ("t", "bigint")})
    assert [row["seen_at"] for row in rows] == [row["last_seen"] for row in rows]
    assert any(row["seen_at"] for row in rows)
    rows, _ = poll(standin, promote={"time": ("raw_time", "bigint"), "distinct_id": ("who", "string")})
    assert all(row["raw_time"] == row["time"].timestamp() // 1 for row in rows if row["time"])
    assert [row["who"] for row in rows] == [row["distinct_id"] for row in rows]
