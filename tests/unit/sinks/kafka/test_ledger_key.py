"""What ledger records are made of: keys that are told apart, values that travel, and foreign ones that are refused."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.kafka.topic_reader import written_spans
from airflow_provider_connect.clients.kafka.transaction import transactional_id
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger.records import (
    KEY_KINDS,
    NO_DAY,
    Claim,
    DayEntry,
    LedgerKey,
    parse_record,
)

DAY = dt.date(2026, 10, 5)
KEYS = st.builds(
    LedgerKey,
    st.text(max_size=5),
    st.text(max_size=5),
    st.text(max_size=5),
    st.dates(),
    st.sampled_from(KEY_KINDS),
    st.none() | st.integers(0, 99),
)


@given(KEYS)
def test_a_key_comes_back_as_it_was(key: LedgerKey) -> None:
    assert LedgerKey.parse(key.encode()) == key


@given(KEYS, KEYS)
def test_different_keys_are_different_bytes(one: LedgerKey, other: LedgerKey) -> None:
    assert (one.encode() == other.encode()) == (one == other)


def test_a_key_is_what_the_docs_say() -> None:
    assert LedgerKey("mixpanel", "export", "t_{event}", DAY).encode() == (
        b'["mixpanel","export","t_{event}","2026-10-05","day"]'
    )
    assert json.loads(LedgerKey("c", "s", "t", DAY, "part", 3).encode()) == ["c", "s", "t", "2026-10-05", "part", 3]


EARLIER_KEY = re.compile(
    rb'\["[^"\\]*","[^"\\]*","[^"\\]*","\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])","(?:day|part|claim|erased)"(?:,\d+)?\]'
)
"""The keys that the version before notes takes without a closer look; it keeps those of its own stream alone."""


@pytest.mark.parametrize("what", ["in_force", "definition", "acceptance", "alarm", "resumption"])
def test_an_earlier_version_takes_a_record_beside_the_days_for_a_claim_of_a_stream_that_nobody_has(what: Any) -> None:
    """It fails at keys that it does not know, so that a stream's notes would end everybody who shares the topic."""
    key = LedgerKey("mixpanel", "export", "t_{event}", NO_DAY, what, int("f" * 15, 16))
    assert EARLIER_KEY.fullmatch(key.encode())
    connector, stream, topic, day, taken_for, number = json.loads(key.encode())
    assert (connector, stream, topic) == (f"/{what}/mixpanel", "export", "t_{event}")
    assert (day, taken_for, number) == ("0001-01-01", "claim", 2**60 - 1)


def test_a_record_beside_the_days_of_a_later_version_is_a_claim_of_nobodys_stream() -> None:
    later = b'["/judgement/mixpanel","export","events","0001-01-01","claim",7]'
    assert LedgerKey.parse(later)[:2] == ("/judgement/mixpanel", "export")
    assert LedgerKey.parse(later).kind == "claim"


@pytest.mark.parametrize(
    "foreign",
    [None, b"", b"mine", b"\xff", b"7", b"{}", b"[]", b'["c","s","t","2026-10-05"]', b'["c","s","t","today","day"]',
     b'["c","s","t","2026-10-05","week"]', b'["c","s",7,"2026-10-05","day"]', b'["c","s","t","2026-10-05","day",1,2]',
     b'["c","s","t","2026-10-05","part","one"]', b'["c","s","t","2026-10-05",["day"]]'],
)  # fmt: skip
def test_a_foreign_key_is_not_parsed(foreign: bytes | None) -> None:
    with pytest.raises((ValueError, TypeError)):
        LedgerKey.parse(foreign)


def test_ledger_values_survive_encoding() -> None:
    row = LedgerRow(day=DAY, generation=2, token="t", rows=3)
    entry = DayEntry(row=row, offsets={"t": {0: (1, 5), 3: (0, 2)}}, columns={"event": "string"})
    text = entry.model_dump_json().encode()
    assert parse_record(DayEntry, text, "ledger") == entry
    assert json.loads(text)["offsets"] == {"t": {"0": [1, 5], "3": [0, 2]}}
    claim = Claim(token="t", run="r", attempt="a", parts=2, at=dt.datetime(2026, 10, 5, tzinfo=dt.UTC))
    assert parse_record(Claim, claim.model_dump_json().encode(), "ledger") == claim


@pytest.mark.parametrize("value", [b"", b"canary", b"{}", b'{"row": {"canary": 1}, "run": "r"}'])
def test_a_foreign_value_is_an_error_without_it(value: bytes) -> None:
    with pytest.raises(ConfigError, match="'ledger' holds a record that cannot be read") as caught:
        parse_record(DayEntry, value, "ledger")
    assert "canary" not in str(caught.value)


def test_a_transactional_id_is_the_same_for_every_try_and_begins_as_rights_are_given() -> None:
    one = transactional_id("c", "s", "t", "2026-10-05")
    assert one == transactional_id("c", "s", "t", "2026-10-05")
    assert one.startswith("connect-")
    others = [("c", "s", "t", "2026-10-06"), ("c", "s", "t", "2026-10-05", 0), ("c", "s", "t2", "2026-10-05"),
              ("cs", "", "t", "2026-10-05")]  # fmt: skip
    assert len({one, *(transactional_id(*names) for names in others)}) == len(others) + 1


def test_spans_cover_only_partitions_that_grew() -> None:
    before = {"a": {0: 5, 1: 7}, "b": {0: 0}}
    after = {"a": {0: 9, 1: 7}, "b": {0: 0}, "new": {0: 2, 1: 0}}
    assert written_spans(before, after) == {"a": {0: (5, 9)}, "new": {0: (0, 2)}}
