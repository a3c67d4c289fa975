"""Records to rows: exact, byte for byte, and what does not fit is told by place and reason, never by value."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sources._rest.building.column_builder import build_column
from airflow_provider_connect.sources._rest.time_forms import NAMED_FORMS, precision_of, write_time
from airflow_provider_connect.sources.rest import Column, RestSource, Single
from airflow_provider_connect.testing.polls import Poll
from tests.equipment.rest_api.reading import DAY, counts, read, tally_of
from tests.equipment.rest_api.server import Answer, RestApi

MARCH = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)


def source(columns: dict[str, Any], **options: Any) -> RestSource:
    more = {name: options.pop(name) for name in ("errors_tolerance", "max_rejects") if name in options}
    wanted = {"key": ["id"], "columns": {"id": "bigint"} | columns} | options
    return RestSource(
        conn_id="api",
        stream="s",
        request={"path": "/single", "params": {"since": "{day.start}"}},
        paging=Single(),
        records=wanted,
        **more,
    )


def polled(body: bytes | list[Any], declared: RestSource) -> Poll:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with RestApi() as api:
        api.faults.append(lambda _: Answer(raw=raw))
        return read(api, declared)


def rows(found: Poll) -> list[dict[str, Any]]:
    return [row for _, _, batch in found.batches for row in batch.to_pylist()]


def column(values: list[str], kind: Any) -> list[Any]:
    """Return a column of values, each given as JSON."""
    body = "[" + ",".join(f'{{"id":{at},"x":{value}}}' for at, value in enumerate(values)) + "]"
    return [row["x"] for row in rows(polled(body.encode(), source({"x": kind}, undeclared="drop")))]


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("string", ['"a"', "null", "12", "-0.10", "true", '{"b": 1.50}', "[1, 2]", '"\\u00e4"'],
         ["a", None, "12", "-0.10", "true", '{"b": 1.50}', "[1, 2]", "ä"]),
        ("bigint", ["1", "null", "-9223372036854775808"], [1, None, -(2**63)]),
        ("double", ["1", "2.5", "null"], [1.0, 2.5, None]),
        ("boolean", ["true", "false", "null"], [True, False, None]),
        ("date", ['"2026-03-01"', "null"], [dt.date(2026, 3, 1), None]),
        ("decimal(20,4)", ["1.10", '"12345678901234.5678"', "0.1", "1e3", "null"],
         [Decimal("1.1000"), Decimal("12345678901234.5678"), Decimal("0.1000"), Decimal("1000.0000"), None]),
        ("json", ['{"a": [1.0, 2e5]}', "null", '"x"', " 1.50 "], ['{"a": [1.0, 2e5]}', None, '"x"', "1.50"]),
        ("timestamp",
         ['"2026-03-01T01:00:00+01:00"', '"2026-03-01T00:00:00.1234567Z"', '"2026-03-01T00:00:00"', "null"],
         [MARCH, MARCH.replace(microsecond=123_456),
          MARCH, None]),
        ({"type": "timestamp", "zone": "Europe/Berlin"}, ['"2026-03-01 01:00:00"', '"2026-03-01T00:00:00Z"'],
         [MARCH] * 2),
        ({"type": "timestamp", "format": "epoch_ms"}, ["1772323200000", "null"], [MARCH, None]),
        ({"type": "timestamp", "format": "epoch_s"}, ["1772323200.5"], [MARCH.replace(microsecond=500_000)]),
        ({"type": "timestamp", "format": "epoch_s"}, ['"1772323200.123456"', '"1772323200"', "null"],
         [MARCH.replace(microsecond=123_456), MARCH, None]),
        ({"type": "timestamp", "format": "epoch_ms"}, ['"1772323200000"'], [MARCH]),
        ({"type": "timestamp", "format": "epoch_us"}, ["1772323200000001", '"1772323200000001"'],
         [MARCH.replace(microsecond=1)] * 2),
        ({"type": "timestamp", "format": "rfc2822"},
         ['"Sun, 01 Mar 2026 01:00:00 +0100"', '"1 Mar 2026 00:00:00 GMT"', '"Sun, 01 Mar 2026 00:00 UTC"'],
         [MARCH] * 3),
        ({"type": "timestamp", "format": "%Y%m%d"}, ['"20260301"', "20260301"], [MARCH] * 2),
        ({"type": "timestamp", "format": "%m/%d/%Y %H:%M", "zone": "Europe/Berlin"}, ['"03/01/2026 01:00"'], [MARCH]),
        ({"type": "timestamp", "format": "%d.%m.%Y %H:%M:%S %z"}, ['"01.03.2026 01:00:00 +0100"'], [MARCH]),
        ("timestamp", ['"2026-03-01 00:00:00 UTC"', '"2026-03-01 01:00:00 +0100"', '"2026-03-01T00:00:00Z"'],
         [MARCH] * 3),
        ({"type": "timestamp", "format": "sql"}, ['"2026-03-01 00:00:00"', '"2026-03-01"'], [MARCH] * 2),
        ({"type": "date", "format": "%m/%d/%Y"}, ['"03/01/2026"', '"3/1/2026"', "null"],
         [dt.date(2026, 3, 1)] * 2 + [None]),
        ("bigint", ['"12"', '"-9223372036854775808"', "3"], [12, -(2**63), 3]),
        ("double", ['"1.5"', '"-2"', '"1e3"', "3"], [1.5, -2.0, 1000.0, 3.0]),
        ({"type": "date", "null_if": ["", "0000-00-00"]}, ['""', '"0000-00-00"', '"2026-03-01"'],
         [None, None, dt.date(2026, 3, 1)]),
        ({"type": "timestamp", "null_if": ["0000-00-00 00:00:00"]}, ['"0000-00-00 00:00:00"'], [None]),
        ({"type": "bigint", "null_if": ["", 0]}, ['""', "0", '"0"', "1"], [None, None, 0, 1]),
        ({"type": "decimal(5,2)", "null_if": ["", "ä", -1]}, ['""', '"ä"', r'"\u00e4"', "-1", "1.50"],
         [None] * 4 + [Decimal("1.50")]),
        ({"type": "string", "null_if": ["n/a", 7]}, ['"n/a"', "7", '"7"', '""', "[1]"], [None, None, "7", "", "[1]"]),
        ({"type": "json", "null_if": [""]}, ['""', "[]"], [None, "[]"]),
    ],
)  # fmt: skip
def test_each_type_is_decoded(kind: Any, values: list[str], found: list[Any]) -> None:
    assert column(values, kind) == found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", '"1.0"'), ("bigint", '"1 "'), ("bigint", '""'), ("bigint", '"9223372036854775808"'),
        ("double", '"1,060"'), ("double", '"inf"'), ("double", '"1e999"'), ("boolean", '"true"'),
        ("bigint", "1.5"), ("bigint", "9223372036854775808"), ("bigint", "true"),
        ("double", "9007199254740993"), ("boolean", "0"), ("date", '"2026-02-30"'), ("date", '"2026-03-01T00:00:00Z"'),
        ("decimal(4,2)", "1.234"), ("decimal(4,2)", "123.4"), ("decimal(4,2)", '"x"'), ("decimal(4,2)", "[1]"),
        ("timestamp", '"soon"'), ("timestamp", "1772323200"),
        ({"type": "timestamp", "format": "epoch_s"}, '"2026-03-01"'),
        ({"type": "timestamp", "format": "%Y%m%d"}, '"2026311"'),
        ({"type": "timestamp", "format": "rfc2822"}, '"Sun, 01 Mar 2026 00:00:00 XYZ"'),
        ({"type": "date", "format": "%m/%d/%Y"}, '"2026-03-01"'),
        ({"type": "timestamp", "format": "epoch_s"}, "1e300"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_fails_the_day_or_is_set_aside(kind: Any, value: str) -> None:
    """H23: nothing is rounded, cut or guessed."""
    body = f'[{{"id":1,"x":null}},{{"id":2,"x":{value}}}]'.encode()
    with pytest.raises(DataError, match="record 1 is rejected: its value of column 'x' is no "):
        polled(body, source({"x": kind}))
    found = polled(body, source({"x": kind}, errors_tolerance="all"))
    assert [row["id"] for row in rows(found)] == [1]
    (reject,) = tally_of(found).rejects
    assert (reject.position, reject.column, reject.record) == (1, "x", f'{{"id":2,"x":{value}}}'.encode())


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'{"id":2,"x":NaN}', "NaN is no JSON"),
        (b'{"id":2,"x":"\xff"}', "invalid UTF-8 at its byte 13"),
        (b'{"id":2,"other":"\xff"}', "invalid UTF-8 at its byte 17"),
        (b'"text"', "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
        (b'{"x":"no id"}', "its key column 'id' is missing or null"),
    ],
)
def test_a_record_that_is_none_is_set_aside_by_itself(record: bytes, reason: str) -> None:
    """H7: its neighbours stay; its value stands in no message."""
    body = b'[{"id":1,"x":"secret-1"}, ' + record + b' ,{"id":3,"x":"c"}]'
    with pytest.raises(DataError) as caught:
        polled(body, source({"x": "string"}))
    assert reason in str(caught.value)
    assert "no id" not in str(caught.value)
    found = polled(body, source({"x": "string"}, errors_tolerance="all"))
    assert [row["id"] for row in rows(found)] == [1, 3]
    assert [reject.record for reject in tally_of(found).rejects] == [record]


def test_half_a_surrogate_pair_is_replaced_in_columns_and_stays_in_the_document() -> None:
    record = rb'{"id": 1, "x": "a\ud83d", "y": "\ud800"}'
    found = polled(b"[" + record + b', {"id": 2, "x": "b"}]', source({"x": "string"}))
    assert [row["x"] for row in rows(found)] == ["a\ufffd", "b"]
    assert rows(found)[0]["document"] == record.decode()
    assert counts(found)["lone_surrogates"] == 1


def test_half_a_surrogate_pair_hides_no_column_that_lies_in_a_list() -> None:
    record = rb'{"id": 1, "tags": ["a"], "y": "\ud800"}'
    found = polled(b"[" + record + b', {"id": 2, "tags": ["b"]}]', source({"tag": {"type": "string", "at": "/tags/0"}}))
    assert [row["tag"] for row in rows(found)] == ["a", "b"]


def test_of_a_key_that_comes_twice_the_last_counts() -> None:
    assert rows(polled(b'[{"id":1,"id":2}]', source({})))[0]["id"] == 2


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4)
        ),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from([None, 1, "\t"]),
)
def test_a_document_is_kept_byte_for_byte(documents: list[dict[str, Any]], is_ascii: bool, indent: Any) -> None:
    from airflow_provider_connect.sources._rest.pages.page_parser import PageParser

    texts = [json.dumps({"id": at} | each, ensure_ascii=is_ascii, indent=indent) for at, each in enumerate(documents)]
    body = '{"a/b": {"": [' + " ,\n".join(texts) + "]}}"
    cutter = PageParser(source({}, at="/a~1b/").records, [])
    cut = cutter.parse(body.encode("utf-8", "surrogatepass"), "p")
    assert [bytes(record) for record in cut.records] == [text.encode() for text in texts]


def test_undeclared_fields_are_kept_dropped_or_refused() -> None:
    body = [{"id": 1, "user": {"id": 7, "name": "n"}}, {"id": 2, "odd": 1}, {"id": 3}]
    columns = {"user_id": {"type": "bigint", "at": "/user/id"}}
    kept = polled(body, source(columns))
    assert [row["user_id"] for row in rows(kept)] == [7, None, None]
    assert [json.loads(row["document"]) for row in rows(kept)] == body
    dropped = polled(body, source(columns, undeclared="drop"))
    assert "document" not in dropped.schema.names
    assert counts(dropped)["undeclared_dropped"] == 1
    with pytest.raises(DataError, match="undeclared fields: 'odd'"):
        polled(body, source(columns, undeclared="fail"))


@pytest.mark.parametrize(("outside", "kept"), [("count", [1, 2, 3]), ("drop", [1])])
def test_records_of_other_days_are_kept_dropped_or_refused(outside: str, kept: list[int]) -> None:
    body = [
        {"id": 1, "at": "2026-10-05T23:59:59.999Z"},
        {"id": 2, "at": "2026-10-06"},
        {"id": 3, "at": "2026-10-04T23:59:59Z"},
    ]
    found = polled(body, source({"at": "timestamp"}, day="at", outside=outside))
    assert [row["id"] for row in rows(found)] == kept
    assert counts(found)["other_day" if outside == "drop" else "outside_day"] == 2
    with pytest.raises(DataError, match=f"2 records are not of day {DAY}"):
        polled(body, source({"at": "timestamp"}, day="at"))


def test_a_record_without_its_day_is_no_row_where_the_day_decides() -> None:
    with pytest.raises(DataError, match="its day column 'at' is missing or null"):
        polled([{"id": 1}], source({"at": "timestamp"}, day="at", outside="drop"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", '"k"'),
        ("double", "1.5"),
        ("boolean", "true"),
        ("decimal(9,2)", "1.5"),
        ("date", '"2026-03-01"'),
        ("timestamp", '"2026-03-01T00:00:00Z"'),
        ("json", "[1]"),
    ],
)
def test_a_column_of_any_type_may_be_a_key(kind: str, value: str) -> None:
    twice = f'[{{"id":1,"x":{value}}},{{"id":2,"x":{value}}}]'.encode()
    (row,) = rows(polled(twice, source({"x": kind}, key=["x"], on_duplicate="first")))
    assert row["id"] == 1


def test_keys_do_not_depend_on_other_fields() -> None:
    one, other = (
        [row["record_key"] for row in rows(polled([{"id": 1, "x": x}], source({"x": "bigint"})))] for x in (1, 2)
    )
    assert one == other


@given(
    st.lists(
        st.datetimes()
        .filter(lambda at: 1 < at.year < 9999)
        .flatmap(
            lambda at: st.sampled_from(
                [
                    at.isoformat(),
                    at.isoformat() + "Z",
                    at.isoformat(timespec="seconds") + "Z",
                    at.isoformat(timespec="milliseconds") + "Z",
                    at.isoformat(timespec="minutes") + "Z",
                    at.isoformat(sep=" ") + "+05:30",
                    at.isoformat()[:-1] + "ZZ",
                ]
            )
        ),
        min_size=1,
        max_size=6,
    )
)
def test_times_are_read_alike_one_by_one_and_many_at_once(texts: list[str]) -> None:
    from airflow_provider_connect.values.json.typed import read_instants

    array, misfits = read_instants(texts)
    alone = [read_instants([text, "2026-03-01"])[0][0].as_py() for text in texts]
    assert array.to_pylist() == alone == [_read(text) for text in texts]
    assert misfits == array.null_count


def _read(text: str) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


@pytest.mark.parametrize("undeclared", ["json", "drop"])
def test_bytes_that_are_no_text_beside_a_decimal_are_one_record_s_matter(undeclared: str) -> None:
    declared = source(
        {"price": {"type": "decimal(5,2)", "at": "/cost/price"}, "unit": {"type": "string", "at": "/cost/unit"}},
        undeclared=undeclared,
        errors_tolerance="all",
    )
    found = polled(b'[{"id":1,"cost":{"price":1.5,"unit":"\xff"}},{"id":2,"cost":{"price":2,"unit":"kg"}}]', declared)
    assert [(row["id"], row["unit"]) for row in rows(found)] == [(2, "kg")]
    assert "invalid UTF-8 at its byte" in tally_of(found).rejects[0].reason


def test_a_place_that_is_written_with_dots_is_refused_with_the_pointer() -> None:
    declared = source({"user": {"type": "bigint", "at": "user.id"}})
    with pytest.raises(ConfigError, match=r"column 'user': no field 'user\.id', but there is one at '/user/id'"):
        polled([{"id": 1, "user": {"id": 2}}], declared)


@pytest.mark.parametrize(
    ("records", "absent"),
    [
        ([{"id": number} for number in range(150)], 150),
        ([{"id": number, "x": None} for number in range(150)], 0),
        ([*({"id": number} for number in range(149)), {"id": 149, "x": 1}], 0),
        ([], 0),
    ],
    ids=["no field", "a field with null", "in the last record", "no record"],
)
def test_a_column_whose_field_no_record_has_is_counted(records: list[Any], absent: int) -> None:
    found = counts(polled(records, source({"x": "string"})))
    assert found.get("column_absent.x", 0) == absent
    assert "column_absent.id" not in found


def test_a_column_whose_field_must_occur_is_counted_as_refused() -> None:
    """A null in the middle of a page is a field, too."""
    records = [{"id": number} for number in range(90)]
    assert counts(polled(records, source({"x": "string"}, absent="fail")))["column_refused.x"] == 90
    records[45]["x"] = None
    assert "column_refused.x" not in counts(polled(records, source({"x": "string"}, absent="fail")))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"type": "timestamp", "format": "iso8601"}, "unknown format 'iso8601'; known: date, epoch_ms"),
        ({"type": "timestamp", "format": "%Y-%m"}, "the pattern '%Y-%m' needs %Y, %m (or %b, %B) and %d"),
        ({"type": "timestamp", "format": "%d %j %Y"}, "unknown directive '%j' in '%d %j %Y'"),
        ({"type": "timestamp", "format": "epoch_s", "zone": "Europe/Berlin"}, "the format 'epoch_s' needs no zone"),
        ({"type": "date", "format": "%Y-%m-%d %H:%M"}, "format and zone belong to type='timestamp'"),
        ({"type": "bigint", "format": "epoch_s"}, "format and zone belong to type='timestamp'"),
    ],
)
def test_a_format_that_is_none_is_refused(column: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source({"x": column})
    assert text in str(caught.value)


FORMS = [*NAMED_FORMS, "%Y%m%d", "%m/%d/%Y", "%Y-%m-%d %H:%M:%S UTC", "%Y%m%d%H%M%S%f", "%d.%m.%Y %H:%M %z"]


@given(st.integers(631_152_000_000_000, 4_102_444_800_000_000), st.sampled_from(FORMS))
def test_the_same_formats_are_written_in_requests_and_read_in_records(micros: int, form: str) -> None:
    instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)
    text = write_time(instant, form, ZoneInfo("UTC"))
    array, misfits = build_column(Column(type="timestamp", format=form), [text, str(text)], lambda _: None)
    step = {"day": 86_400 * 10**6, "second": 10**6, "minute": 60 * 10**6, "millisecond": 1_000, "microsecond": 1}
    expected = instant - dt.timedelta(microseconds=micros % step[precision_of(form)])
    assert (array.to_pylist(), misfits) == ([expected] * 2, [])
