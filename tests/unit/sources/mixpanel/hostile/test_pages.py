"""Pages of profiles as no stand-in writes them: other white space and orders of keys, and what is not quite JSON."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.client import MixpanelClient
from airflow_provider_connect.sources._mixpanel.query.engage_pages import PageReader
from airflow_provider_connect.sources._mixpanel.query.profile_reader import ProfileReader
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.values.json.typed import read_instants
from tests.equipment.mixpanel import DAY

THERE = Connection(conn_id="m", conn_type="mixpanel", password="p", extra={"project_id": "1"})


def asking(**options):
    source = MixpanelSource(stream="engage", **options)
    return MixpanelClient(source, MixpanelAccess.from_connection(THERE, "query"), DAY, Tally())


def page(profiles: str, **more) -> bytes:
    head = {"page": 0, "page_size": 1000, "session_id": "s", "status": "ok", "total": 1} | more
    return f'{{"results":[{profiles}],{json.dumps(head)[1:]}'.encode("utf-8", "surrogatepass")


def rows_of(data: bytes, **options):
    there = asking(**options)
    with ProfileReader(STREAMS["engage"], there) as profiling:
        _, results = profiling._reader.read_page(data)
        return [row for batch in profiling._batches(results, {}) for row in batch.to_pylist()], there.tally


PROFILE = '{"$distinct_id":"a","$properties":{"plan":"free","n":[1, 2]}}'


@pytest.mark.parametrize(
    "profile",
    [
        PROFILE,
        '{ "$distinct_id" : "a" ,\t"$properties" : {"plan":"free","n":[1, 2]} }',
        '{"$properties":{"plan":"free","n":[1, 2]},"$distinct_id":"a"}',
        '{"$distinct_id":"a","new":{"$distinct_id":"b"},"$properties":{"plan":"free","n":[1, 2]}}',
        '{"$distinct_id":"\\u0061","$properties":{"plan":"free","n":[1, 2]}}',
        '\n{\n"$distinct_id":\n"a","$properties":{"plan":"free","n":[1, 2]}}\n',
    ],
)
def test_a_profile_is_read_in_any_json_form(profile):
    (row,), tally = rows_of(page(profile), promote={"plan": "string"})
    assert (row["distinct_id"], row["plan"], row["properties"]) == ("a", "free", '{"plan":"free","n":[1, 2]}')
    assert tally.counts == {}


def test_line_breaks_inside_properties_stay():
    text = '{\n  "plan": "free"\n}'
    (row,), _ = rows_of(page(f'{{"$distinct_id":"a","$properties":{text}}}'), promote={"plan": "string"})
    assert (row["plan"], row["properties"]) == ("free", text)


@pytest.mark.parametrize(
    ("number", "text"),
    [("4", "4"), ("-4", "-4"), ("10000000000000000000001", "10000000000000000000001"), ("1.50", "1.50")],
)
def test_a_number_keeps_its_text(number, text):
    (row,), _ = rows_of(page(f'{{"$distinct_id":{number},"$properties":{{}}}}'))
    assert row["distinct_id"] == text


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ('{"$properties":{}}', "no distinct_id"),
        ('{"$distinct_id":null,"$properties":{}}', "no distinct_id"),
        ('{"$distinct_id":true,"$properties":{}}', "no distinct_id"),
        ('{"$distinct_id":{"a":1},"$properties":{}}', "no distinct_id"),
        ('{"$distinct_id":"a"}', "properties are not an object"),
        ('{"$distinct_id":"a","$properties":null}', "properties are not an object"),
        ('{"$distinct_id":"a","$properties":["event"]}', "properties are not an object"),
    ],
)
def test_a_profile_that_cannot_be_a_row_is_rejected(profile, reason):
    with pytest.raises(DataError, match=f"profile 1 cannot be a row: .*{reason}"):
        rows_of(page(f"{PROFILE},{profile}"))
    (row,), tally = rows_of(page(f"{PROFILE},{profile},{PROFILE}"), errors_tolerance="all")
    assert row["distinct_id"] == "a"
    assert tally.counts == {"rejected": 1, "duplicates": 1}


def test_a_lone_surrogate_becomes_a_replacement_character():
    (row,), tally = rows_of(page('{"$distinct_id":"a","$properties":{"plan":"\\ud800x"}}'), promote={"plan": "string"})
    assert (row["plan"], row["properties"]) == ("\ufffdx", '{"plan":"\\ud800x"}')
    assert tally.counts == {"lone_surrogates": 1}


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b'"fr\xffee"', b'"a\nb"'])
def test_a_value_that_json_has_not_costs_its_profile_alone(value):
    bad = b'{"$distinct_id":"b","$properties":{"n":%b}}' % value
    data = page(f"{PROFILE},BAD").replace(b"BAD", bad)
    with pytest.raises(DataError, match="profile 1 cannot be a row: ") as caught:
        rows_of(data)
    assert value.decode("latin-1") not in str(caught.value).replace("NaN is no JSON", "").replace("Infinity is", "")
    (row,), tally = rows_of(data, errors_tolerance="all", promote={"plan": "string"})
    assert (row["distinct_id"], row["plan"], row["properties"]) == ("a", "free", '{"plan":"free","n":[1, 2]}')
    (reject,) = tally.rejects
    assert reject.position == 1
    assert value in reject.record


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"<html>",
        b"{}",
        page(PROFILE)[:-1],
        page(PROFILE)[:50],
        page(PROFILE, total="1"),
        page(PROFILE, page_size=True),
        page(PROFILE, status="failed"),
        page("1"),
        page('"a"'),
        b'{"results":{},"page":0,"page_size":1000,"total":1}',
        b'{"results":null,"page":0,"page_size":1000,"total":1}',
    ],
)
def test_an_answer_that_is_not_a_page_is_refused(data):
    with pytest.raises((RetriableError, DataError)):
        PageReader(asking(), ()).read_page(data)


@pytest.mark.parametrize(
    ("error", "kind"), [("rate limit exceeded", RetriableError), ("Unable to authenticate", ConfigError)]
)
def test_an_error_in_place_of_a_page_is_raised(error, kind):
    with pytest.raises(kind, match=error):
        PageReader(asking(), ()).read_page(json.dumps({"request": "/engage", "error": error}).encode())


plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
plain |= st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["plan", "$last_seen", "$distinct_id", "results", "é"]) | st.text(max_size=5)
ids = st.text(min_size=1, max_size=8) | st.integers(-(10**20), 10**20).map(str)
profiles = st.dictionaries(ids, st.dictionaries(names, values, max_size=4), max_size=6)


@given(profiles, st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (",\n", ":")]))
def test_whatever_the_profiles_are_their_rows_say_the_same(found, ascii_only, separators):
    text = ",".join(
        json.dumps({"$distinct_id": one, "$properties": properties}, ensure_ascii=ascii_only, separators=separators)
        for one, properties in found.items()
    )
    rows, tally = rows_of(page(text), promote={"plan": "string"})
    assert {row["distinct_id"]: json.loads(row["properties"]) for row in rows} == found
    for row in rows:
        plan = found[row["distinct_id"]].get("plan")
        if isinstance(plan, list | dict):
            assert json.loads(row["plan"]) == plan
        else:
            assert row["plan"] == (plan if isinstance(plan, str) else None)
    assert tally.rows == len(found)


UTC = dt.UTC
TIMES = {
    "2026-03-01T12:00:00": dt.datetime(2026, 3, 1, 12, tzinfo=UTC),
    "2026-03-01T12:00:00.250": dt.datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC),
    "2026-03-01T12:00:00+02:00": dt.datetime(2026, 3, 1, 10, tzinfo=UTC),
    "2026-03-01T12:00:00Z": dt.datetime(2026, 3, 1, 12, tzinfo=UTC),
    "2026-03-01": dt.datetime(2026, 3, 1, tzinfo=UTC),
    "2026-02-30T12:00:00": None,
    "2026-03-01T25:00:00": None,
    "2026-03-01T12:00:00\n": None,
    "0001-01-01T00:00:00+02:00": None,
    "undefined": None,
    "": None,
    1772366400: None,
    True: None,
    (): None,
    None: None,
}


@given(st.lists(st.sampled_from(list(TIMES)), max_size=12))
def test_times_are_read_independent_of_other_values(values):
    found, unreadable = read_instants(values)
    assert [None if one is None else one.replace(tzinfo=UTC) for one in found.to_pylist()] == [
        TIMES[value] for value in values
    ]
    assert unreadable == sum(TIMES[value] is None and value is not None for value in values)
    assert str(found.type) == "timestamp[us, tz=UTC]"
