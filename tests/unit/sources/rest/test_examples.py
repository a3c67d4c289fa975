"""The declarations of the example DAGs, against APIs of their shape: the exact rows of a day, faults included."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_connect.clients.http import json_api
from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.clients.http.pool import OpenResponses
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.sources.rest import RestSource
from airflow_provider_connect.testing.polls import Poll
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.reading import counts, ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi
from tests.equipment.rest_api.vendors import GitHub, Stripe, Zendesk, at, out_of_requests

DAGS = Path(__file__).parents[4] / "dags"


def source(dag_id: str, task_id: str, **options: Any) -> RestSource:
    """Return the source of a task in an example DAG, for the API of the tests."""
    task: Any = DagBag(dag_folder=DAGS / f"{dag_id}.py").dags[dag_id].get_task(task_id)
    given = task.source.serialize() | {"conn_id": "api"} | options
    if given.get("parent"):
        given["parent"]["conn_id"] = "api"
    return RestSource(**given)


def rows(polled: Poll) -> list[dict[str, Any]]:
    return [row for _, _, batch in polled.batches for row in batch.to_pylist()]


@pytest.fixture(autouse=True)
def _paces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget who rests until when: another test's API may have had the same port."""
    monkeypatch.setattr(pacing, "_paces", {})


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that would have been made: time passes without them."""
    pauses: list[float] = []
    monkeypatch.setattr(json_api._PollClock, "now", lambda _: CLOCK.now() + sum(pauses))
    monkeypatch.setattr(OpenResponses, "sleep", lambda _, seconds: pauses.append(seconds))
    return pauses


def once(api: RestApi, answer: Answer, *, at_request: int) -> None:
    """Let the API give another answer to one request."""

    def fault(_: Request) -> Answer | None:
        return answer if len(api.asked) == at_request else None

    api.faults.append(fault)


def test_github_issues_are_those_whose_latest_change_was_on_the_day() -> None:
    with GitHub() as api:
        polled = read(api, source("github_issues_daily", "issues"))
    assert ids(polled) == [1000 + number for number in range(3, 27)]  # changed at 00:00 to 23:00
    assert counts(polled)["other_day"] == 6  # since has no other end
    found = rows(polled)[7]
    assert json.loads(found.pop("document"))["user"] == {"login": "octocat"}
    assert len(found.pop("record_key")) == 32
    assert found == {
        "id": 1010,
        "number": 10,
        "title": "Issue 10",
        "state": "open",
        "author": "octocat",
        "pull_request_url": "https://pulls/10",
        "created_at": at(-24 * 30),
        "updated_at": at(7),
    }
    assert {request.headers["x-github-api-version"] for request in api.asked} == {"2022-11-28"}


def test_github_s_limit_is_a_403_with_nothing_left_and_is_waited_for(waited: list[float]) -> None:
    with GitHub() as api:
        whole = read(api, source("github_issues_daily", "issues"))
        asked = len(api.asked)
        once(api, out_of_requests(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=90)), at_request=asked + 2)
        polled = read(api, source("github_issues_daily", "issues"))
    assert polled.rows == whole.rows
    assert 80 < sum(waited) < 140
    assert len(api.asked) == 2 * asked + 1, "only the page that was refused is asked again"


def test_github_s_limit_on_bursts_is_told_in_words(waited: list[float]) -> None:
    said = {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}
    with GitHub() as api:
        once(api, Answer(said, 403, {"Retry-After": "60"}), at_request=2)
        assert len(ids(read(api, source("github_issues_daily", "issues")))) == 24
    assert 60 <= sum(waited) < 95, "as long as told, and up to half of that more"


def test_github_comments_of_issues_that_changed_again_on_a_later_day() -> None:
    with GitHub() as api:
        polled = read(api, source("github_issues_daily", "comments"))
    assert [(row["issue_number"], row["id"], row["created_at"]) for row in rows(polled)] == [
        (3, 301, at(0)),
        (3, 302, at(2)),
        (5, 500, at(23.9997).replace(microsecond=0)),
        (30, 3000, at(1)),
    ]
    assert (counts(polled)["parents"], counts(polled)["other_day"]) == (30, 2)


def test_a_github_issue_that_was_deleted_meanwhile_is_left_out_and_counted() -> None:
    with GitHub() as api:

        def delete(request: Request) -> None:
            if request.path.endswith("/issues/4/comments"):
                api.changed.pop(5, None)

        api.faults.append(delete)
        polled = read(api, source("github_issues_daily", "comments"))
    assert ids(polled) == [301, 302, 3000]
    assert counts(polled)["ignored_parents"] == 1


def test_stripe_events_are_the_day_s_and_end_with_has_more() -> None:
    with Stripe() as api:
        polled = read(api, source("stripe_events_daily", "events"))
    assert [row["id"] for row in rows(polled)] == [f"evt_{number}" for number in range(25, 0, -1)]
    assert [request.first("starting_after") for request in api.asked] == ["", "evt_16", "evt_6"]
    found = rows(polled)[-1]
    assert json.loads(found.pop("document"))["data"]["object"]["amount"] == 100
    assert len(found.pop("record_key")) == 32
    assert found == {
        "id": "evt_1",
        "type": "charge.succeeded",
        "created": at(0),
        "livemode": True,
        "api_version": "2026-10-29",
        "object_id": "ch_1",
        "request_id": "req_1",
    }


def test_a_day_without_stripe_events_is_empty_and_a_429_without_a_time_is_asked_again(waited: list[float]) -> None:
    with Stripe() as api:
        once(api, Answer({"error": {"type": "rate_limit"}}, 429), at_request=1)
        polled = read(api, source("stripe_events_daily", "events"), Day(date=DATE - dt.timedelta(days=9)))
    assert rows(polled) == []
    assert (len(api.asked), len(waited)) == (2, 1)


def test_stripe_s_answer_without_has_more_is_no_end() -> None:
    with Stripe() as api:
        once(api, Answer({"object": "list", "data": api.events[2:5]}), at_request=2)
        with pytest.raises(RetriableError, match="page 2 has no value at 'has_more'"):
            read(api, source("stripe_events_daily", "events", retry_budget_seconds=0))


def test_zendesk_events_come_twice_between_pages_and_the_last_page_has_a_link(waited: list[float]) -> None:
    with Zendesk() as api:
        polled = read(api, source("zendesk_ticket_events_daily", "ticket_events"))
    assert ids(polled) == list(range(2, 26))
    assert counts(polled)["duplicates"] == 2  # at the ends of the pages of the day
    assert waited == [], "the limit of ten requests a minute is one day's"
    assert [request.query for request in api.asked] == [
        [("start_time", str(int(at(hour).timestamp())))] for hour in (0, 9, 18, 27, 36, 45)
    ]
    found = rows(polled)[0]
    document, child_events = json.loads(found.pop("document")), json.loads(found.pop("child_events"))
    assert document["child_events"] == child_events == [{"id": 902, "status": "open"}]
    assert len(found.pop("record_key")) == 32
    assert found == {"id": 2, "ticket_id": 7002, "updater_id": -1, "event_type": "Audit", "happened_at": at(0)}


def test_more_zendesk_events_in_a_second_than_on_a_page_are_told() -> None:
    """zendesk_api_client_rb #168: the next link is the same again, for ever."""
    with Zendesk() as api:
        for each in api.events[5:20]:
            each["timestamp"] = int(at(3).timestamp())
        with pytest.raises(RetriableError, match="named the same next page twice"):
            read(api, source("zendesk_ticket_events_daily", "ticket_events", retry_budget_seconds=0))
