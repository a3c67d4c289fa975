"""Cohorts that Mixpanel lists and does not let anybody read: named in the failure, or left out and counted."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ConfigError, DataError, Failure
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.mixpanel import ENGAGE, poll
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import Cohort, People
from tests.standins.mixpanel.server import StandIn

COHORTS = (Cohort(1001, "Everybody", 1), Cohort(1002, "Lost Müller", 7, has_group=False), Cohort(1003, "Some", 5))


@pytest.fixture(scope="module")
def standin():
    with StandIn(Project(), people=People(users=20, numbers=0, cohorts=COHORTS)) as server:
        yield server


def test_an_unreadable_cohort_fails_by_its_id_and_name(standin):
    with pytest.raises(ConfigError) as caught:
        poll(standin, stream="cohort_members")
    assert Failure.from_error(caught.value).type == "ConfigError"
    message = str(caught.value)
    assert "answered 404: cohort 1002 ('Lost Müller') cannot be read: its data group was deleted" in message
    assert "Mixpanel said: 'Missing Datagroup'" in message
    assert message.index("data group of the cohort in Mixpanel") < message.index("on_unreadable='skip'")


def test_a_named_cohort_that_cannot_be_read_fails_by_its_id(standin):
    with pytest.raises(ConfigError, match=r"cohort 1002 \(option cohorts\) cannot be read"):
        poll(standin, stream="cohort_members", cohorts=[1002])
    with pytest.raises(ConfigError, match=r"cohort 1002 \(option filter_by_cohort\) cannot be read") as caught:
        poll(standin, stream="engage", filter_by_cohort=1002)
    assert "on_unreadable" not in str(caught.value), "profiles of one cohort leave nothing over"


def test_unreadable_cohorts_are_left_out_and_counted(standin):
    rows, tally = poll(standin, stream="cohort_members", on_unreadable="skip")
    assert {row["cohort_id"] for row in rows} == {1001, 1003}
    assert len(rows) == 20 + 4
    assert tally.counts["unreadable_cohorts"] == 1
    assert tally.requests == 1 + len(COHORTS)


@pytest.mark.parametrize(
    ("status", "body"), [(404, '{"error":"Not found"}'), (400, '{"error":"bad cohort"}'), (403, '{"error":"no"}')]
)
def test_other_refusals_are_never_left_out(standin, status, body):
    """A wrong host answers 404, too: every cohort would be left out."""
    fault = Fault("status", path=ENGAGE, status=status, body=body)
    with pytest.raises(ConfigError, match=f"answered {status}"):
        poll(standin, fault, stream="cohort_members", on_unreadable="skip")


def test_an_unknown_cohort_is_named(standin):
    with pytest.raises(ConfigError, match=r"answered 400: .*Check cohort 77 \(option cohorts\)"):
        poll(standin, stream="cohort_members", cohorts=[77])


@pytest.mark.parametrize("properties", ['"$properties":{}', '"$properties":null', None])
@pytest.mark.parametrize("asked", [{"stream": "cohort_members", "cohorts": [1003]}, {"filter_by_cohort": 1003}])
def test_a_member_without_a_profile_is_a_row(standin, properties, asked):
    """Mixpanel lists them by default (include_all_users); how is not documented, and nobody shows it."""
    profile = ",".join(filter(None, ['{"$distinct_id":"a"', properties])) + "}"
    page = f'{{"page":0,"page_size":1000,"total":1,"session_id":"1-a","status":"ok","results":[{profile}]}}'
    (row,), tally = poll(standin, Fault("status", path=ENGAGE, status=200, body=page), **{"stream": "engage"} | asked)
    assert (row["distinct_id"], row["last_seen"], row.get("properties", "{}")) == ("a", None, "{}")
    assert not tally.counts["rejected"]


def test_a_profile_of_no_cohort_has_properties(standin):
    page = '{"page":0,"page_size":1000,"total":1,"session_id":"1-a","status":"ok","results":[{"$distinct_id":"a"}]}'
    with pytest.raises(DataError, match="cannot be a row"):
        poll(standin, Fault("status", path=ENGAGE, status=200, body=page), stream="engage")


def test_the_option_belongs_to_cohort_members():
    with pytest.raises(ConfigError, match="on_unreadable: stream 'engage' does not use it"):
        MixpanelSource(stream="engage", on_unreadable="skip")
