"""The fast way takes no line that is not one record by itself, whatever its neighbours complete."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.polling.jsonlines import Block
from airflow_provider_connect.sources._mixpanel.lines import find_line_bounds
from airflow_provider_connect.sources._mixpanel.records import RecordReader

READER = RecordReader()
GOOD = '{"event":"good","properties":{"time":1,"note":"}}"}}'
PIECES = [
    '{"event":"e","properties":{',
    '{"event":"',
    '","properties":{',
    '"properties":{"time":2}',
    r'"properti\u0065s":{}',
    '"event":"f"',
    r'"\u0065vent":"f"',
    "}{",
    "{}",
    "}}",
    '"',
    '"a":',
    "e",
    ",",
    ":",
    "[",
    "]",
    "\\",
    r"\"",
    "\\\\",
    r"\u0041",
    "é",
    "1",
    " ",
    "\r",
    '"x":"',
]
framed = st.lists(st.sampled_from(PIECES), max_size=9).map(lambda pieces: '{"event":"' + "".join(pieces) + "}}")
lines = st.one_of(framed, st.lists(st.sampled_from(PIECES), max_size=6).map("".join), st.just(GOOD))


def read(some):
    data = "\n".join([*some, ""]).encode()
    records, odd, count, blanks = READER.read_block(Block(0, data), find_line_bounds(data))
    starts = [sum(len(line.encode()) + 1 for line in some[:index]) for index in range(len(some))]
    blank = {index for index, line in enumerate(some) if not line.strip(" \r")}
    filled = [index for index in range(len(some)) if index not in blank]
    assert (count, blanks) == (len(filled), len(blank))
    odd = [(filled[number], start) for number, start in odd]
    assert [starts[index] for index, _ in odd] == [start for _, start in odd]
    found = {}
    if records is not None:
        for row, position in enumerate(records.positions.tolist()):
            values = [column[row] for column in records.field_values]
            found[starts.index(position)] = (records.events[row].as_py(), records.properties_of_row(row), values[0])
    assert sorted([*found, *(index for index, _ in odd)]) == filled
    return found


@settings(max_examples=4 * settings.default.max_examples)
@given(st.lists(lines, min_size=1, max_size=8))
@example(['{"event":"e","properties":{}{"a":"}}', '{"event":"e","properties":{"}}'])
@example(['{"event":"e","properties":{}}{"event":"e","properties":{}}', '{"event":"e","properties":{"a}}'])
@example([r'{"event":"\u0041\u0041\u0041\u0041\","properties":{12345","properties":{}}'])
@example([r'{"event":"a\\","properties":{}}'])
@example(['{"event":"e","properties":{"a":1},"properties":{"b":2}}'])
@example([r'{"event":"\u0041\u0041\u0041\u0041\","properties":{12345","x":1,"properties":{"y":{}}'])
@example([r'{"event":"' + r"\u0041" * 4 + r'\","properties":{12345","properties":{"y":{}}}'])
def test_a_line_accepted_by_the_fast_reader_is_one_record(some):
    for index, (event, properties, time) in read(some).items():
        pairs = json.loads(some[index], object_pairs_hook=list)
        assert [key for key, _ in pairs].count("properties") == 1
        whole = json.loads(some[index])
        assert whole == {"event": event, "properties": json.loads(properties)}
        assert time == whole["properties"].get("time")
        assert some[index].endswith('"properties":' + properties + "}")


@pytest.mark.parametrize(
    "line",
    [GOOD, r'{"event":"a\"b","properties":{}}', r'{"event":"a\\","properties":{}}', '{"event":"","properties":{}}'],
)
def test_usual_lines_next_to_broken_lines_are_read_fast(line):
    broken = '{"event":"e","properties":{"a}}'
    assert set(read([GOOD, broken, line, "", line, GOOD])) == {0, 2, 4, 5}
