"""A proposal says what a load of the same records would do, is an option that is accepted, and shows no value."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.polling.findings import ProposalRequest
from airflow_provider_connect.sources._mixpanel.columns import COLUMNS
from airflow_provider_connect.sources._mixpanel.proposals import propose_columns
from airflow_provider_connect.sources._mixpanel.proposals import propose_from_sample as proposed_of
from airflow_provider_connect.sources._mixpanel.records import REQUIRED_PROPERTIES
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.quota import Keys
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn
from tests.unit.sources.mixpanel.test_rows import read, record

FIXED = (*COLUMNS, "day")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.sampled_from(["undefined", "<null>", "2026-03-01", "2026-03-01T12:00:00", "2026-02-30", "\ud800"]),
)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.text(max_size=2), scalars, max_size=2)
names = st.sampled_from(
    ["a", "A", "a.b", "a_b", "a_b_2", "", "event", "caf\u00e9", "cafe\u0301", 'q"', "time", "\ud800"]
)
records = st.lists(st.dictionaries(names, values, max_size=6), min_size=1, max_size=8)


def proposed(found, **options):
    return propose_columns(
        [json.dumps(one) for one in found], fixed_columns=FIXED, excluded=REQUIRED_PROPERTIES, **options
    )


@given(records)
def test_a_load_of_the_sample_has_the_proposed_misfits(found):
    proposal = proposed(found)
    source = MixpanelSource(promote=proposal.promote, null_texts=list(proposal.null_texts), deduplicate="off")
    body = b"".join(record(properties=json.dumps(one).encode()) + b"\n" for one in found)
    rows, tally = read(body, source)
    assert len(rows) == proposal.records == len(found)
    for one in proposal.samples:
        assert tally.counts[f"promote_null.{one.property}"] == one.misfits
        assert tally.counts[f"promote_null_text.{one.property}"] == one.null_texts
        assert sum(row[one.column] is not None for row in rows) == one.values - one.misfits
    assert {one.property for one in source.promoted} == {one.property for one in proposal.samples}


@pytest.mark.parametrize(
    ("found", "kind", "misfits"),
    [
        ([True, False], "boolean", 0),
        ([1, 2], "bigint", 0),
        ([1, 2.5], "double", 0),
        ([9007199254740993, 1], "bigint", 0),
        (["2026-03-01", "2026-03-02"], "date", 0),
        (["2026-03-01", "2026-03-02T10:00:00"], "timestamp", 0),
        ([1772366400, 1772366401], "bigint", 0),
        (["a", "2026-03-01"], "string", 0),
        ([{"a": 1}, [1], "x"], "string", 0),
        ([12.5, 1, "12.5", "n/a", 2.5], "double", 2),
        ([1, "a", "b"], "string", 1),
        (["undefined", 3, "<null>"], "bigint", 0),
    ],
)
def test_the_proposed_type_fits_most_values(found, kind, misfits):
    (one,) = proposed([{"p": value} for value in found]).samples
    assert (one.type, one.misfits) == (kind, misfits)


def test_columns_that_would_collide_have_names_of_their_own():
    many = [{"userName": "a", "username": "b", "event": "c", "user.name": "d", "": "e"}] * 2 + [{"user_name": "f"}]
    assert proposed(many).promote == {
        "": ("unnamed_2", "string"),
        "event": ("event_2", "string"),
        "user.name": "string",
        "userName": "string",
        "username": ("username_2", "string"),
        "user_name": ("user_name_2", "string"),
    }


def test_a_proposal_is_bounded_and_lists_omissions():
    found = [{f"p{n}": 1 for n in range(number)} | {"empty": None, 'say "hi"': 1} for number in range(1, 9)]
    proposal = proposed(found, max_columns=3)
    assert list(proposal.promote) == ["p0", "p1", "p2"]
    assert (proposal.records, proposal.less_frequent, proposal.empty, proposal.unpromotable) == (8, 5, 1, 1)
    assert "5 in fewer records, 1 without any value, 1 whose names have quotes" in str(proposal)


def test_what_is_printed_can_be_pasted_and_shows_no_value():
    found = [
        {"plan": "s3cret", "amount": 987654321, "born": "1999-12-31"},
        {"plan": "undefined", "amount": "n/a-s3cret"},
    ]
    proposal = proposed(found)
    text = str(proposal)
    assert not any(value in text for value in ("s3cret", "987654321", "1999-12-31"))
    assert "50 % of its values do not fit and become null" in text
    pasted = {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
    }
    assert pasted == {"promote": proposal.promote, "null_texts": ["undefined"]}
    assert MixpanelSource(**pasted).promoted


@pytest.fixture(scope="module")
def standin():
    with StandIn(Project(events_per_day=300), people=People(users=300), engage=Engage(page_size=100)) as server:
        yield server


@pytest.fixture
def there(standin, monkeypatch):
    account = standin.account
    connection = {
        "conn_type": "mixpanel",
        "host": standin.url,
        "login": account.username,
        "password": account.secret,
        "extra": {"project_id": str(account.project_id)},
    }
    monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps(connection))
    return credentials.resolve_connection("mixpanel_default")


def asked(standin):
    return {kind: sum(found.values()) for kind, found in standin.stats["requests"].items()}


def test_a_proposal_sends_one_request_for_events(standin, there):
    before = asked(standin)
    proposal = proposed_of(there, ProposalRequest(records=120, columns=20))
    assert proposal.records == 120
    assert len(proposal.promote) == 20
    assert proposal.promote["$screen_width"] == "bigint"
    after = asked(standin)
    assert sum(after.values()) - sum(before.values()) == 1
    assert MixpanelSource(promote=proposal.promote).promoted


def test_a_proposal_reads_profiles_of_engage(standin, there):
    before = asked(standin)
    proposal = proposed_of(there, ProposalRequest(stream="engage", records=100))
    wanted = {"plan": "string", "logins": "bigint", "revenue": "double", "is_admin": "boolean"}
    assert proposal.promote.items() >= wanted.items()
    assert "$last_seen" not in proposal.promote
    assert proposal.null_texts == ("undefined",)
    after = asked(standin)
    assert sum(after.values()) - sum(before.values()) == 1, "page 0 is enough"


@pytest.mark.parametrize("options", [{"stream": "funnels"}, {"records": 0}, {"records": 100_001}, {"columns": 0}])
def test_an_invalid_proposal_request_is_refused_before_anything_is_sent(standin, there, options):
    before = asked(standin)
    with pytest.raises(ConfigError, match="export, engage, records between 1 and 100000"):
        proposed_of(there, ProposalRequest(**options))
    assert asked(standin) == before


def test_a_proposal_warns_if_the_count_cannot_be_reached(there, monkeypatch, caplog):
    def gone(_):
        raise OSError("hush-hush")

    keys = Keys()
    monkeypatch.setattr(keys, "keys", gone)
    assert proposed_of(there, ProposalRequest(records=1), store=keys).records == 1
    assert "the count of requests is unreachable (OSError)" in caplog.text
    assert "hush-hush" not in caplog.text
