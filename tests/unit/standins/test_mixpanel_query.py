"""The stand-in's Query API: profiles in sessions of pages, cohorts, and what may go wrong with them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import Cohort, People
from tests.standins.mixpanel.server import StandIn

PEOPLE = People(users=250, groups={"42": 30})
ENGAGE = "/api/query/engage"


@pytest.fixture
def standin() -> Iterator[StandIn]:
    limits = Limits(queries_per_hour=100, concurrent=5)
    with StandIn(Project(), people=PEOPLE, engage=Engage(page_size=100), query_limits=limits) as server:
        yield server


def ask(standin: StandIn, path: str = ENGAGE, project: int | None = 1234567, **form: Any) -> requests.Response:
    account = standin.account
    params = {} if project is None else {"project_id": project}
    auth = (account.username, account.secret)
    return requests.post(standin.url + path, params=params, data=form, auth=auth, timeout=10)


def pages(standin: StandIn, **form: Any) -> list[dict[str, Any]]:
    found = [ask(standin, **form).json()]
    while len(found[-1]["results"]) == found[-1]["page_size"]:
        found.append(ask(standin, **form, session_id=found[0]["session_id"], page=len(found)).json())
    return found


def test_pages_of_a_session_hold_every_profile_once(standin: StandIn) -> None:
    found = pages(standin)
    assert [page["page"] for page in found] == [0, 1, 2]
    assert {(page["page_size"], page["status"]) for page in found} == {(100, "ok")}
    assert [page.get("total") for page in found] == [250, None, None], "as Airbyte and Estuary see it"
    assert len({page["session_id"] for page in found}) == 1
    assert [profile for page in found for profile in page["results"]] == list(PEOPLE.all())
    assert {type(profile["$distinct_id"]) for profile in PEOPLE.all()} == {int, str}


def test_questions_narrow_the_profiles(standin: StandIn) -> None:
    everybody = list(PEOPLE.all())
    (group,) = pages(standin, data_group_id="42")
    assert [profile["$distinct_id"] for profile in group["results"]] == [f"company-{n}" for n in range(30)]
    (cohort,) = pages(standin, filter_by_cohort=json.dumps({"id": 1002}))
    assert cohort["results"] == everybody[::7]
    (recent,) = pages(standin, where='properties["$last_seen"] > "2026-03-01T11:30:00"')
    assert recent["results"] == [p for p in everybody if p["$properties"].get("$last_seen", "") > "2026-03-01T11:30:00"]
    (plans,) = pages(standin, data_group_id="42", output_properties='["plan"]')
    assert {tuple(profile["$properties"]) for profile in plans["results"]} == {("plan",)}


def test_a_session_keeps_its_profiles_while_they_change(standin: StandIn) -> None:
    first = ask(standin).json()
    standin.people = People(seed=9, users=10)
    assert len(ask(standin, session_id=first["session_id"], page=2).json()["results"]) == 50
    assert ask(standin).json()["total"] == 10


@pytest.mark.parametrize(
    "form",
    [
        {"page": "1"},
        {"page": "1", "session_id": "unknown"},
        {"page": "-1", "session_id": "unknown"},
        {"where": "what?"},
        {"filter_by_cohort": "7"},
        {"filter_by_cohort": '{"id":7}'},
        {"output_properties": "plan"},
    ],
)
def test_wrong_questions_are_400(standin: StandIn, form: dict[str, str]) -> None:
    answer = ask(standin, **form)
    assert (answer.status_code, list(answer.json())) == (400, ["request", "error"])


def test_a_session_ends_after_its_time_and_belongs_to_its_question(standin: StandIn) -> None:
    first = ask(standin).json()
    later = {"session_id": first["session_id"], "page": 1}
    assert ask(standin, **later, data_group_id="42").status_code == 400
    assert ask(standin, **later).status_code == 200
    standin.engage.forget()
    gone = ask(standin, **later)
    assert (gone.status_code, gone.json()["error"]) == (400, "request for page in uncached query")
    standin.engage.session_seconds = -1
    assert ask(standin, session_id=ask(standin).json()["session_id"], page=1).status_code == 400


def test_later_pages_are_free_of_the_hour(standin: StandIn) -> None:
    limits = Limits(queries_per_hour=1, concurrent=5)
    with StandIn(Project(), people=PEOPLE, engage=Engage(page_size=10), query_limits=limits) as server:
        assert len(pages(server)) == 26
        refused = ask(server)
        assert refused.status_code == 429
        assert "2/1 queries running in the last hour" in refused.json()["error"]
        assert server.stats["requests"] == {"engage": {"200": 1, "429": 1}, "engage pages": {"200": 25}}


@pytest.mark.parametrize(
    ("access", "status"), [("no_plan", 402), ("no_query_plan", 402), ("no_role", 403), ("other_region", 401)]
)
@pytest.mark.parametrize("path", [ENGAGE, "/api/query/cohorts/list"])
def test_who_may_not_query(access: Any, status: int, path: str) -> None:
    with StandIn(Project(), account=Account(access=access)) as server:
        assert ask(server, path).status_code == status
        date = str(server.today - dt.timedelta(days=2))
        params = {"from_date": date, "to_date": date, "project_id": "1234567"}
        auth = (server.account.username, server.account.secret)
        export = requests.get(server.url + "/api/2.0/export", params=params, auth=auth, timeout=10)
        assert export.status_code == (200 if access == "no_query_plan" else status)


def test_a_service_account_names_its_project(standin: StandIn) -> None:
    assert ask(standin, project=None).status_code == 400
    assert ask(standin, project=7).status_code == 403


def test_cohorts_are_listed(standin: StandIn) -> None:
    listed = ask(standin, "/api/query/cohorts/list").json()
    assert [(one["id"], one["name"], one["count"]) for one in listed] == [
        (cohort.id, cohort.name, PEOPLE.members(cohort)) for cohort in PEOPLE.cohorts
    ]
    assert {one["project_id"] for one in listed} == {1234567}


def test_unknown_paths_and_methods(standin: StandIn) -> None:
    assert ask(standin, "/api/query/jql").status_code == 405
    assert requests.get(standin.url + ENGAGE, timeout=10).status_code == 404


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("other_session", {"session_id"}),
        ("page_again", {"results"}),
        ("empty_page", {"results"}),
        ("short_page", {"results"}),
        ("bad_profile", {"results"}),
        ("wrong_page", {"page"}),
        ("wrong_total", {"total"}),
    ],
)
def test_what_is_wrong_with_a_page(standin: StandIn, kind: str, changed: set[str]) -> None:
    first, right, *_ = pages(standin)
    standin.faults.replace([Fault(kind, path=ENGAGE, page=1)])
    assert ask(standin).json()["results"] == first["results"], "it waits for page 1"
    wrong = ask(standin, session_id=first["session_id"], page=1).json()
    assert {name for name in wrong if right.get(name) != wrong[name]} == changed
    if kind == "page_again":
        assert wrong["results"] == first["results"]
    assert ask(standin, session_id=first["session_id"], page=1).json() == right


def test_a_cohort_whose_data_group_was_deleted_is_listed_and_cannot_be_read(standin: StandIn) -> None:
    standin.people = People(users=10, cohorts=(Cohort(7, "Lost", 1, has_group=False),))
    assert [cohort["id"] for cohort in ask(standin, "/api/query/cohorts/list").json()] == [7]
    answer = ask(standin, filter_by_cohort='{"id":7}')
    assert (answer.status_code, answer.json()["error"]) == (404, "Missing Datagroup")


def test_a_session_that_expires_before_a_page(standin: StandIn) -> None:
    first = ask(standin).json()
    standin.faults.replace([Fault("expired", path=ENGAGE, page=1)])
    assert ask(standin, session_id=first["session_id"], page=1).status_code == 400


def test_faults_of_the_export_do_not_hit_the_query_api(standin: StandIn) -> None:
    standin.faults.replace([Fault("html")])
    assert ask(standin).headers["Content-Type"] == "application/json"
    assert len(standin.faults.remaining()) == 1


def test_people_are_the_same_on_every_machine() -> None:
    assert PEOPLE.profile(0).startswith('{"$distinct_id":"müller+0@example.com","$properties":{"$last_seen":'.encode())
    assert [json.loads(PEOPLE.profile(n))["$properties"] for n in range(5)] == [PEOPLE.properties(n) for n in range(5)]
    assert People(seed=1).profile(1) != People(seed=2).profile(1)
