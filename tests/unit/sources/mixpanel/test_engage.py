"""Profiles, page by page, against the stand-in and each of its faults."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time

import pytest

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.patience import doubling_pauses
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel.query import profile_reader
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.mixpanel import DAY, ENGAGE, connection, expected_id, poll
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

USERS, PAGE, GROUP = 1030, 100, "-4567"
PEOPLE = People(users=USERS, groups={GROUP: 250})
PAGES = 11


@pytest.fixture(scope="module")
def standin():
    limits = Limits(concurrent=5)
    with StandIn(Project(), people=PEOPLE, engage=Engage(page_size=PAGE), query_limits=limits) as server:
        yield server


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(profile_reader, "_PAGE_PAUSES", doubling_pauses(0.01, 0.02))


def engage(server, *faults, **options):
    return poll(server, *faults, stream="engage", **options)


def fault(kind, page=None, **more):
    return Fault(kind, path=ENGAGE, page=page, **more)


@pytest.fixture(scope="module")
def whole(standin):
    return engage(standin)


def test_every_profile_is_a_row_in_the_order_sent(whole):
    rows, tally = whole
    sent = list(PEOPLE.all())
    assert [row["distinct_id"] for row in rows] == [expected_id(profile) for profile in sent]
    assert [json.loads(row["properties"]) for row in rows] == [profile["$properties"] for profile in sent]
    assert len({row["record_key"] for row in rows}) == tally.rows == tally.announced_rows == USERS
    assert tally.counts == {
        "last_seen_unreadable": sum(p["$properties"].get("$last_seen") == "undefined" for p in sent)
    }
    assert 0 < tally.wire_bytes < tally.raw_bytes


def test_properties_are_the_bytes_that_were_sent(whole):
    sent = [PEOPLE.profile(number) for number in range(USERS)]
    assert [b',"$properties":%b}' % row["properties"].encode() for row in whole[0]] == [
        profile[profile.index(b',"$properties":') :] for profile in sent
    ]


def test_only_page_0_counts_as_a_request(whole):
    assert whole[1].requests == 1


def test_last_seen_is_read_with_and_without_an_offset(whole):
    rows = {row["distinct_id"]: row for row in whole[0]}
    for number, profile in enumerate(PEOPLE.all()):
        text = profile["$properties"].get("$last_seen")
        found = rows[expected_id(profile)]["last_seen"]
        if text in (None, "undefined"):
            assert found is None
        else:
            read = dt.datetime.fromisoformat(text)
            assert found == (read if read.tzinfo else read.replace(tzinfo=dt.UTC)), number


def test_promoted_properties_are_columns_as_the_export_has_them(standin):
    rows, tally = engage(standin, promote={"plan": "string", "revenue": "double", "score": "double"})
    for row, profile in zip(rows, PEOPLE.all(), strict=True):
        properties = profile["$properties"]
        assert (row["plan"], row["revenue"]) == (properties["plan"], properties["revenue"])
    assert {row["score"] for row in rows} == {None}
    assert tally.counts["promote_null.score"] == sum("score" in p["$properties"] for p in PEOPLE.all()) > 0


def test_groups_have_keys_and_a_ledger_of_their_own(standin):
    rows, _ = engage(standin, data_group_id=GROUP)
    assert [row["distinct_id"] for row in rows] == [f"company-{number}" for number in range(250)]
    users, groups = MixpanelSource(stream="engage"), MixpanelSource(stream="engage", data_group_id=int(GROUP))
    assert (users.stream_key, groups.stream_key) == ("mixpanel_default.engage", f"mixpanel_default.engage.{GROUP}")
    standin.people, before = People(users=0, groups={GROUP: 1, "1": 1}), standin.people
    try:
        keys = {engage(standin, data_group_id=group)[0][0]["record_key"] for group in (GROUP, "1")}
    finally:
        standin.people = before
    assert len(keys) == 2


def test_where_output_properties_and_a_cohort_reach_the_server(standin):
    since = "2026-03-01T00:00:00"
    rows, _ = engage(
        standin,
        where=f'properties["$last_seen"] >= "{since}"',
        filter_by_cohort=1002,
        output_properties=["plan", "$last_seen"],
        promote={"plan": "string"},
    )
    sent = list(PEOPLE.all())[::7]
    wanted = [each for each in sent if each["$properties"].get("$last_seen", "") >= since]
    assert [row["distinct_id"] for row in rows] == [expected_id(each) for each in wanted] != []
    assert all(json.loads(row["properties"]).keys() <= {"plan", "$last_seen"} for row in rows)
    assert all(row["plan"] for row in rows)


def test_no_profiles_are_an_empty_snapshot(standin):
    rows, tally = engage(standin, data_group_id="999")
    assert (rows, tally.rows) == ([], 0)


def test_members_are_read_of_every_cohort_or_of_the_listed_ones(standin):
    rows, tally = poll(standin, stream="cohort_members")
    ids = [expected_id(profile) for profile in PEOPLE.all()]
    expected = {(cohort.id, one) for cohort in PEOPLE.cohorts for one in ids[:: cohort.every]}
    assert {(row["cohort_id"], row["distinct_id"]) for row in rows} == expected
    assert len({row["record_key"] for row in rows}) == len(rows) == len(expected)
    assert tally.requests == 1 + len(PEOPLE.cohorts)
    assert tally.announced_rows == 0  # of each cohort alone
    named, tally = poll(standin, stream="cohort_members", cohorts=[1003, 1003])
    assert {(row["cohort_id"], row["distinct_id"]) for row in named} == {each for each in expected if each[0] == 1003}
    assert tally.requests == 1


def test_cohorts_are_rows(standin):
    rows, _ = poll(standin, stream="cohorts")
    assert [(row["cohort_id"], row["name"], row["count"]) for row in rows] == [
        (cohort.id, cohort.name, PEOPLE.members(cohort)) for cohort in PEOPLE.cohorts
    ]
    assert rows[0]["created"] == dt.datetime.fromisoformat("2025-03-01T23:49:51")
    assert rows[0]["is_visible"] is True


# What may go wrong

UNFIT = {
    "page_again": "repeats page 3",
    "empty_page": "is empty, but must have 100 profiles .total 1030",
    "short_page": "has 99 profiles",
    "wrong_page": "is invalid: it has the number 5",
    "wrong_total": "contradicts page 0.*1031",
    "other_session": "another session.*the next try starts at page 0",
    "expired": "no longer exists.*the next try starts at page 0",
}


@pytest.mark.parametrize("kind", UNFIT)
def test_a_page_that_does_not_fit_ends_the_poll(standin, whole, kind):
    # A session that is gone fails the earlier pages too that are still on their way.
    page = "[1-4]" if kind == "expired" else "4"
    with pytest.raises(RetriableError, match=f"page {page} of {PAGES} .*{UNFIT[kind]}"):
        engage(standin, fault(kind, page=4))
    assert engage(standin)[0] == whole[0]


@pytest.mark.parametrize("kind", ["short_page", "empty_page", "wrong_total", "wrong_page"])
def test_a_page_0_that_contradicts_itself_ends_the_poll(standin, kind):
    with pytest.raises(RetriableError, match=r"page (0|1|10) of"):
        engage(standin, fault(kind, page=0))


PASSING = [
    ("status", {"status": 503}),
    ("status", {"status": 429, "headers": {"Retry-After": "0"}}),
    ("cut_chunked", {}),
    ("short_length", {}),
    ("cut_gzip", {}),
    ("no_trailer", {}),
    ("bad_crc", {}),
    ("eof_delimited", {}),
    ("reset", {}),
    ("refuse", {}),
    ("html", {}),
    ("slow", {"size_bytes": 4000, "seconds": 0.01}),
]


@pytest.mark.parametrize(("kind", "more"), PASSING, ids=str)
def test_a_later_page_that_fails_once_is_asked_for_again_in_its_session(standin, whole, kind, more):
    before = standin.stats["requests"]["engage"]["200"]
    rows, tally = engage(standin, fault(kind, page=5, **more))
    assert rows == whole[0]
    assert tally.requests == 1
    assert standin.stats["requests"]["engage"]["200"] == before + 1


@pytest.mark.parametrize("kind", ["status", "cut_chunked", "cut_gzip", "refuse", "html", "html_as_text", "empty"])
def test_a_page_that_keeps_failing_ends_the_poll(standin, kind):
    with pytest.raises(RetriableError):
        engage(standin, fault(kind, page=5, times=None))


@pytest.mark.parametrize("kind", ["status", "cut_chunked", "cut_gzip", "refuse", "html", "html_as_text", "empty"])
def test_page_0_is_left_to_the_next_poll(standin, kind):
    with pytest.raises(RetriableError):
        engage(standin, fault(kind, page=0))
    assert standin.faults.remaining() == []


def test_a_page_with_a_long_retry_after_ends_the_poll(standin):
    hour = fault("status", page=5, status=429, headers={"Retry-After": "900"}, times=None)
    started = time.monotonic()
    with pytest.raises(RetriableError, match="limit") as caught:
        engage(standin, hour)
    assert caught.value.retry_after_seconds == 900
    assert time.monotonic() - started < 10


def test_an_error_document_in_place_of_a_page_is_quoted(standin):
    with pytest.raises(RetriableError, match="An error occurred"):
        engage(standin, fault("error_document", page=2))


def test_a_profile_without_an_id_fails_the_poll_or_is_rejected(standin):
    with pytest.raises(DataError, match="profile 200 cannot be a row: it has no distinct_id"):
        engage(standin, fault("bad_profile", page=2))
    rows, tally = engage(standin, fault("bad_profile", page=2, count=3), errors_tolerance="all")
    assert len(rows) == USERS - 3
    assert tally.counts["rejected"] == len(tally.rejects) == 3
    assert [reject.position for reject in tally.rejects] == [200, 201, 202]
    assert b"nobody" in tally.rejects[0].record
    with pytest.raises(DataError, match="max_rejects=2"):
        engage(standin, fault("bad_profile", page=2, count=3), errors_tolerance="all", max_rejects=2)


def test_a_refusal_on_a_later_page_is_not_asked_again(standin):
    refused = fault("status", page=3, status=403, body='{"error":"no longer permitted"}', times=None)
    with pytest.raises(ConfigError, match="may query"):
        engage(standin, refused)


# How it is asked


def test_pages_overlap_within_the_limit(standin, monkeypatch):
    page, under_way, together = standin.engage.page, [], []

    def counted(*args, **others):
        under_way.append(1)
        together.append(len(under_way))
        try:
            return page(*args, **others)
        finally:
            under_way.pop()

    monkeypatch.setattr(standin.engage, "page", counted)
    monkeypatch.setattr(standin.engage, "page_seconds", 0.1)
    before = standin.stats["requests"]["engage pages"]
    rows, _ = engage(standin)
    assert len(rows) == USERS
    assert max(together) == profile_reader.CONCURRENT_PAGES
    asked = standin.stats["requests"]["engage pages"]
    assert asked.get("429", 0) == before.get("429", 0)
    assert asked["200"] == before["200"] + PAGES - 1


def test_pages_are_not_read_far_ahead_of_the_consumer(standin):
    before = standin.stats["requests"]["engage pages"]["200"]
    standin.faults.replace([])
    with MixpanelSource(stream="engage").open(connection(standin), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        rows = poller.poll(part, Tally())
        next(rows)
        next(rows)
        time.sleep(0.5)
        # Each of four is one page in hand, one that waits, and the next on its way.
        assert standin.stats["requests"]["engage pages"]["200"] - before <= PAGES - 2
        rows.close()


def test_an_abandoned_poll_does_not_wait_for_loading_pages(standin):
    slow = fault("slow", size_bytes=1, seconds=30, times=None, page=2)
    standin.faults.replace([slow])
    with MixpanelSource(stream="engage").open(connection(standin), PollContext()) as poller:
        (part,) = poller.plan([DAY])
        rows = poller.poll(part, Tally())
        next(rows)
        next(rows)
        time.sleep(0.2)
        started = time.monotonic()
        rows.close()
    assert time.monotonic() - started < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_a_wrong_page_fails_without_waiting_for_loading_pages(standin):
    started = time.monotonic()
    with pytest.raises(RetriableError, match="page 1 of 11 is invalid"):
        engage(standin, fault("wrong_page", page=1), fault("slow", size_bytes=1, seconds=30, times=None, page=2))
    assert time.monotonic() - started < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]
