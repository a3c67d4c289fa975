"""The fast way and the exact way read the same: against ``json.loads``, whatever the block's cuts."""

import datetime as dt
import json

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.jsonlines import blocks
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.export_reader import ExportReader
from airflow_provider_connect.sources._mixpanel.records import RecordReader
from airflow_provider_connect.sources._mixpanel.rows import EventRowMaker
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 3, 1))
GOOD = b'{"event":"good","properties":{"time":1772323200,"distinct_id":"d","$insert_id":"i"}}'


def read(
    body,
    source=None,
    block_bytes=1 << 20,
    only_day=False,
    tolerance="all",
    chunk_bytes=1 << 30,
    max_record_bytes=1 << 20,
):
    source = source or MixpanelSource()
    tally = Tally()
    reader = RecordReader(tuple(source.promote))
    with KeySet() as keys:
        rows = EventRowMaker(
            source, DAY, "utc", field_names=reader.field_names, keys=keys, tally=tally, drops_other_days=only_day
        )
        export = ExportReader(reader, rows, Tolerance(tolerance, 1000), tally, max_record_bytes)
        found = [
            row
            for block in blocks(
                (body[i : i + chunk_bytes] for i in range(0, len(body), chunk_bytes)), 1 << 20, block_bytes
            )
            for _, b in export.read_block(block)
            for row in b.to_pylist()
        ]
        export.finish()
    return found, tally


def record(event=b'"e"', properties=b"{}"):
    return b'{"event":' + event + b',"properties":' + properties + b"}"


GOOD_LINES = {
    "empty properties": (record(), "e", "{}"),
    "spaces": (b' { "event" : "e" , "properties" : { "a" : 1 } } \r', "e", '{ "a" : 1 }'),
    "order": (b'{"properties":{"a":1},"event":"e"}', "e", '{"a":1}'),
    "escape in event": (record(rb'"a\"b\u00e9"'), 'a"bé', "{}"),
    "separator in event": (record(rb'"a\",\"properties\":{"'), 'a","properties":{', "{}"),
    "event twice": (b'{"event":"a","event":"b","properties":{}}', "b", "{}"),
    "properties twice": (b'{"event":"e","properties":{"a":1},"properties":{"b":2}}', "e", '{"b":2}'),
    "properties twice, escaped": (rb'{"event":"e","properties":{"a":1},"properti\u0065s":{"b":2}}', "e", '{"b":2}'),
    "event after": (b'{"event":"e","properties":{},"event":"f","properties":{"b":{}}}', "f", '{"b":{}}'),
    "nested": (
        record(properties=b'{"properties":{"event":"x","properties":{}}}'),
        "e",
        '{"properties":{"event":"x","properties":{}}}',
    ),
    "separators": (
        record(properties='{"a":"\u2028\x85\x0b"}'.encode().replace(b"\x0b", b"")),
        "e",
        '{"a":"\u2028\x85"}',
    ),
    "surrogate in event": (record(rb'"\ud800"'), "\ufffd", "{}"),
    "surrogate": (record(properties=rb'{"a":"\udc00","b":"\ud83d\ude00"}'), "e", r'{"a":"\udc00","b":"\ud83d\ude00"}'),
    "big": (
        record(properties=b'{"a":1e999,"time":1e999,"b":123456789012345678901234567890}'),
        "e",
        '{"a":1e999,"time":1e999,"b":123456789012345678901234567890}',
    ),
    "other field": (b'{"event":"e","properties":{},"x":1}', "e", "{}"),
}
BAD_LINES = {
    "nan": record(properties=b'{"a":NaN}'),
    "infinity": record(properties=b'{"time":-Infinity}'),
    "utf8": record(properties=b'{"a":"\xff"}'),
    "utf8 in event": record(b'"\xff"'),
    "no properties": b'{"event":"e"}',
    "no event": b'{"properties":{}}',
    "null event": record(b"null"),
    "list": record(properties=b"[]"),
    "two": record() + record(),
    "two objects": record(properties=b"{}{}"),
    "control": record(properties=b'{"a":"\t"}'),
    "leading zero": record(properties=b'{"a":01}'),
    "comma": record(properties=b'{"a":1,}'),
    "text": b"hello",
    "array": b"[1]",
    "number": b"1",
    "nul": bytes(5),
    "cut": b'{"event":"e","properties":{"a',
    "deep": record(properties=b'{"a":' * 3000 + b"1" + b"}" * 3000),
}


@pytest.mark.parametrize("around", [(b"", b""), (GOOD + b"\n", b""), (GOOD + b"\n", GOOD + b"\n")])
@pytest.mark.parametrize("name", GOOD_LINES)
def test_good_lines_are_rows(name, around):
    line, event, properties = GOOD_LINES[name]
    rows, tally = read(around[0] + line + b"\n" + around[1], MixpanelSource(deduplicate="off"))
    assert len(rows) == 1 + sum(map(bool, around))
    assert [(row["event"], row["properties"]) for row in rows if row["event"] != "good"] == [(event, properties)]
    assert tally.rejects == []


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_lines_are_rejected(name):
    body = GOOD + b"\n" + BAD_LINES[name] + b"\n" + GOOD + b"\n"
    rows, tally = read(body)
    assert len(rows) == 1
    assert [(one.position, one.record) for one in tally.rejects] == [(len(GOOD) + 1, BAD_LINES[name])]


lines = st.one_of(
    st.sampled_from([line for line, _, _ in GOOD_LINES.values()] + list(BAD_LINES.values())[:-1] + [GOOD, b"", b" "]),
    st.builds(
        lambda event, properties: json.dumps(
            {"event": event, "properties": properties}, ensure_ascii=False, separators=(",", ":")
        ).encode(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        st.dictionaries(
            st.sampled_from(["time", "distinct_id", "$insert_id", "mp_processing_time_ms", "amount", "é"]),
            st.one_of(
                st.none(),
                st.booleans(),
                st.integers(),
                st.floats(allow_nan=False, allow_infinity=False),
                st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
                st.just([{}]),
            ),
        ),
    ),
)


@given(st.lists(lines, max_size=12), st.integers(1, 400))
def test_the_cuts_of_blocks_change_nothing(some, block_bytes):
    body = b"\n".join([GOOD, *some, GOOD]) + b"\n"
    source = MixpanelSource(deduplicate="off", promote={"amount": "double"})
    one, one_tally = read(body, source)
    many, many_tally = read(body, source, block_bytes, chunk_bytes=block_bytes)
    order = lambda row: (row["record_key"], row["properties"], row["event"])  # noqa: E731
    assert sorted(one, key=order) == sorted(many, key=order)
    assert one_tally == many_tally or (one_tally.rejects, one_tally.counts) == (many_tally.rejects, many_tally.counts)
    for row in one:
        json.loads(row["properties"])


def test_a_record_key_is_made_from_four_fields_or_all_properties():
    (row,), _ = read(GOOD + b"\n")
    expected = xxhash.xxh3_128_hexdigest(b"\xff".join([b"good", b"d", b"1772323200", b"i"]))
    assert (row["record_key"], row["key_origin"]) == (expected, "vendor")
    (row,), _ = read(record() + b"\n")
    assert (row["record_key"], row["key_origin"]) == (xxhash.xxh3_128_hexdigest(b"\xfee\xff{}"), "fallback")


@pytest.mark.parametrize(
    ("time", "expected", "count"),
    [
        (b"1772323200", dt.datetime(2026, 3, 1, tzinfo=dt.UTC), 0),
        (b"1772323200.5", dt.datetime(2026, 3, 1, 0, 0, 0, 500000, tzinfo=dt.UTC), 0),
        (b'"1772323200"', None, 1),
        (b"true", None, 1),
        (b"null", None, 1),
        (b"253402300800", None, 1),
        (b"-99999999999999999999999", None, 1),
    ],
)
def test_times_are_instants_or_null(time, expected, count):
    (row,), tally = read(record(properties=b'{"time":' + time + b"}") + b"\n")
    assert (row["time"], tally.counts["time_unreadable"]) == (expected, count)


@pytest.mark.parametrize(
    ("value", "text"), [(b"12", "12"), (b"1.50", "1.50"), (b"true", None), (b"null", None), (b'""', ""), (b"{}", None)]
)
def test_identifiers_keep_their_text_or_are_null(value, text):
    rows, _ = read(GOOD + b"\n" + record(properties=b'{"distinct_id":' + value + b"}") + b"\n")
    assert rows[1]["distinct_id"] == text


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", [("1.5", 1.5), ("2", 2.0), ('"3"', None), ("true", None), ("1" * 400, None)]),
        ("bigint", [("1", 1), ("1.5", None), (str(2**63), None), (str(-(2**63)), -(2**63)), ("false", None)]),
        ("boolean", [("true", True), ("0", None), ('"true"', None)]),
        ("string", [('"a"', "a"), ("1", None), ("[]", "[]")]),
    ],
)
def test_promoted_properties_are_typed_columns(kind, values):
    for text, expected in values:
        body = record(properties=b'{"a b":%s}' % text.encode()) + b"\n" + record() + b"\n"
        rows, tally = read(body, MixpanelSource(promote={"a b": kind}, deduplicate="off"))
        assert [row["a_b"] for row in rows] == [expected, None], text
        assert tally.counts["promote_null.a b"] == (expected is None)


def test_a_base_property_is_promoted_next_to_its_column():
    rows, _ = read(GOOD + b"\n", MixpanelSource(promote={"$insert_id": "string"}))
    assert rows[0]["$insert_id"] == "i"


@pytest.mark.parametrize(
    "options",
    [
        {"promote": {"event": "string"}},
        {"promote": {"Day": "string"}},
        {"promote": {"a b": "string", "A_b": "string"}},
        {"promote": {"a": "varchar"}},
        {"zone": "Mars/Base"},
        {"timestamps": "local"},
        {"event": []},
        {"max_rejects": -1},
    ],
)
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        MixpanelSource(**options)


def test_rows_that_cannot_be_placed_on_a_day_are_rejects():
    inside = record(properties=b'{"time":1772323200,"n":1}')
    outside = record(properties=b'{"time":1772323199,"n":1}')
    midnight = record(properties=b'{"time":1772409600,"n":1}')  # of the next day
    rows, tally = read(b"\n".join([inside, outside, midnight, record(), b""]), only_day=True)
    assert [row["properties"] for row in rows] == ['{"time":1772323200,"n":1}']
    assert tally.counts["other_day"] == 2
    position = len(inside) + len(outside) + len(midnight) + 3
    assert [(one.position, one.record) for one in tally.rejects] == [(position, record())]


def connection(**fields):
    return Connection(conn_id="m", **({"password": "canary", "login": "user", "extra": {"project_id": "1"}} | fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"password": None}, "password"),
        ({"login": "a:b"}, "colon"),
        ({"extra": {}}, "project_id"),
        ({"extra": {"project_id": "x"}}, "project_id"),
        ({"extra": {"project_id": 1, "region": "mars"}}, "us, eu, in"),
        ({"extra": {"project_id": 1, "timestamps": "x"}}, "project_local"),
        ({"extra": {"project_id": 1, "proxy": "canary"}}, "proxy"),
        ({"host": "http://example.com"}, "https"),
        ({"host": "https://user:canary@example.com"}, "without user"),
        ({"host": "https://:canary@example.com"}, "without user"),
        ({"host": "canary@example.com"}, "without user"),
        ({"host": "ftp://example.com"}, "https"),
        ({"host": "http://127.0.0.1.example.com"}, "https"),
    ],
)
def test_check_names_what_is_wrong(fields, text):
    found = MixpanelSource().check(connection(**fields))
    assert len(found) == 1
    assert text in found[0]
    assert "canary" not in found[0]


def test_check_reports_every_problem_and_the_missing_regime():
    assert len(MixpanelSource().check(connection(password="", extra={"region": "x"}, host="http://a.b"))) == 4
    (problem,) = MixpanelSource(zone="US/Pacific").check(connection())
    assert "1 January 2023" in problem
    assert MixpanelSource(zone="US/Pacific", timestamps="utc").check(connection()) == []
    assert MixpanelSource(zone="US/Pacific").check(connection(extra={"project_id": 1, "timestamps": "utc"})) == []
    assert MixpanelSource().check(connection(login=None, extra={})) == []
