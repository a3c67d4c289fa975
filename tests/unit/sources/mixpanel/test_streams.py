"""The frame: what a stream says of itself, which options go with it, where it is asked, and what refusals mean."""

from __future__ import annotations

import datetime as dt
import pickle
from contextlib import suppress
from typing import get_args

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.options import StreamName
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import DAY, NEEDED, connection, poll
from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

QUERIES = [name for name, stream in STREAMS.items() if stream.api == "query"]
OURS = ["engage", "cohorts", "cohort_members"]


@pytest.fixture(scope="module")
def standin():
    with StandIn(Project(events_per_day=20)) as server:
        yield server


def test_every_stream_name_has_a_definition():
    assert set(STREAMS) == set(get_args(StreamName))
    assert all(name == stream.name for name, stream in STREAMS.items())


@pytest.mark.parametrize("name", STREAMS)
def test_a_streams_key_and_options_exist(name):
    stream = STREAMS[name]
    assert set(stream.key) <= set(stream.columns)
    assert stream.columns["record_key"].required
    assert stream.options <= set(MixpanelSource.model_fields)


def test_the_exports_name_in_ledgers_stays():
    source = MixpanelSource(conn_id="c")
    assert (source.stream, source.kind, source.stream_key) == ("export", "day", "c.export")


@pytest.mark.parametrize("name", OURS)
def test_kind_and_key_follow_the_stream(name):
    source = MixpanelSource(conn_id="c", stream=name)
    assert (source.kind, source.stream_key) == ("snapshot", f"c.{name}")


FOREIGN = [
    ("export", {"data_group_id": "1"}, "engage"),
    ("export", {"cohorts": [1]}, "cohort_members"),
    ("export", {"output_properties": ["a"]}, "engage"),
    ("engage", {"event": ["a"]}, "export"),
    ("engage", {"timestamps": "utc"}, "export"),
    ("engage", {"deduplicate": "off"}, "export"),
    ("engage", {"cohorts": [1]}, "cohort_members"),
    ("cohorts", {"where": "x"}, "export, engage"),
    ("cohorts", {"errors_tolerance": "all"}, "export, engage, cohort_members"),
    ("cohort_members", {"promote": {"a": "string"}}, "export, engage"),
    ("cohort_members", {"filter_by_cohort": 1}, "engage"),
]


@pytest.mark.parametrize(("stream", "options", "users"), FOREIGN)
def test_an_option_that_the_stream_has_no_use_for_is_refused_with_the_streams_that_do(stream, options, users):
    (name,) = options
    with pytest.raises(
        ConfigError, match=f"{name}: stream '{stream}' does not use it. Remove it, or use stream .*{users}"
    ):
        MixpanelSource(stream=stream, **options)


def test_every_unused_option_is_reported():
    with pytest.raises(ConfigError, match=r"event: .*; where: "):
        MixpanelSource(stream="cohorts", where="x", event="a")


@pytest.mark.parametrize("name", OURS)
def test_a_source_that_travelled_is_the_same_and_its_defaults_are_no_foreign_options(name):
    source = MixpanelSource(stream=name)
    assert MixpanelSource.from_options(source.serialize()) == source
    assert pickle.loads(pickle.dumps(source)) == source


def test_templates_are_validated_after_rendering():
    source = MixpanelSource(stream="cohorts", where="{{ ds }}").rendered(lambda text: "2026-01-01")
    with pytest.raises(ConfigError, match="where: stream 'cohorts'"):
        source.checked()


@pytest.mark.parametrize("name", ["distinct_id", "LAST_SEEN", "day", "properties"])
def test_promoted_columns_do_not_take_the_place_of_the_streams_own(name):
    with pytest.raises(ConfigError, match="promote: property"):
        MixpanelSource(stream="engage", promote={name: "string"})


def test_a_column_of_another_stream_is_free():
    assert MixpanelSource(stream="engage", promote={"event": "string"})


def test_promoted_properties_must_be_among_output_properties():
    with pytest.raises(ConfigError, match="'plan' is not among output_properties"):
        MixpanelSource(stream="engage", promote={"plan": "string"}, output_properties=["name"])


@pytest.mark.parametrize("group", ["x", "1;2", "", "1" * 30])
def test_a_group_id_is_a_number(group):
    with pytest.raises(ConfigError, match="data_group_id"):
        MixpanelSource(stream="engage", data_group_id=group)


@pytest.mark.parametrize(
    ("region", "host"),
    [(None, "mixpanel.com"), ("us", "mixpanel.com"), ("eu", "eu.mixpanel.com"), ("in", "in.mixpanel.com")],
)
def test_each_region_has_its_query_host(region, host):
    extra = {"project_id": "1"} | ({"region": region} if region else {})
    there = Connection(conn_id="m", conn_type="mixpanel", login="u", password="p", extra=extra)
    assert MixpanelAccess.from_connection(there, "query").url == f"https://{host}"
    assert (
        MixpanelAccess.from_connection(there).url
        == f"https://data{'-' + region if region not in (None, 'us') else ''}.mixpanel.com"
    )


def test_profiles_need_no_time_regime(standin):
    zone = {"zone": "US/Pacific"}
    assert "timestamps: required" in MixpanelSource(**zone).check(connection(standin))[0]
    assert MixpanelSource(stream="engage", **zone).check(connection(standin)) == []


@pytest.mark.parametrize("name", OURS)
def test_a_snapshot_may_be_taken_while_its_day_lasts_but_not_before(standin, name, monkeypatch):
    monkeypatch.setattr(client, "current_time", lambda: dt.datetime(2026, 3, 1, 0, 0, 1, tzinfo=dt.UTC))
    with MixpanelSource(stream=name).open(connection(standin), PollContext()) as there:
        assert there.plan([DAY])
        with pytest.raises(ConfigError, match="2026-03-02 is in the future"):
            there.plan([Day(date=dt.date(2026, 3, 2))])


# Refusals

REFUSED = {
    "no_plan": "402: the project's plan does not include the Query API, which needs Growth or Enterprise",
    "no_role": "403: the account has no role that may query in this project",
    "other_region": r"401: the credentials or the region are wrong. Check login, password and region \(us, eu, in\)",
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("access", REFUSED)
def test_errors_for_a_person_name_the_remedy(name, access):
    with StandIn(Project(), account=Account(access=access)) as server:
        with pytest.raises(ConfigError, match=REFUSED[access]) as caught:
            poll(server, stream=name, **NEEDED.get(name, {}))
        assert server.account.secret not in str(caught.value)


@pytest.mark.parametrize("name", OURS)
def test_a_stream_that_the_plan_lacks_fails_alone(name):
    day = Day(date=dt.date(2026, 3, 1))
    with StandIn(Project(events_per_day=20), account=Account(access="no_query_plan")) as server:
        with pytest.raises(ConfigError, match="stream='export' works without it"):
            poll(server, stream=name)
        assert len(poll(server, day=day)[0]) == 20


def test_a_missing_plan_of_the_export_names_this_api():
    with StandIn(Project(), account=Account(access="no_plan")) as server, pytest.raises(ConfigError) as caught:
        poll(server)
    assert "answered 402: the project's plan does not include this API. Mixpanel said" in str(caught.value)


@pytest.mark.parametrize("name", OURS)
def test_a_used_up_hour_is_a_quota_error(name):
    with StandIn(Project(), query_limits=Limits(queries_per_hour=1)) as server:
        with suppress(RetriableError):  # the members' second query is one of the first poll
            poll(server, stream=name)
        with pytest.raises(RetriableError, match="query limit is reached") as caught:
            poll(server, stream=name)
        assert caught.value.retry_after_seconds == 900
        assert len(poll(server)[0]) == 1000, "the export has an hour of its own"


@pytest.mark.parametrize("name", OURS)
def test_an_unknown_project_is_a_config_error(standin, name):
    other = connection(standin).model_copy(update={"extra": {"project_id": "1"}})
    with MixpanelSource(stream=name).open(other, PollContext()) as there:
        (part,) = there.plan([DAY])
        with pytest.raises(ConfigError, match="403"):
            list(there.poll(part, Tally()))


@pytest.mark.parametrize("document", ['{"results":', "[1]", '{"a":1}', '[{"name":"no id"}]', "null", "7"])
def test_a_broken_list_of_cohorts_is_refused(standin, document):
    fault = Fault("status", path="/api/query/cohorts/list", status=200, body=document)
    with pytest.raises(Exception, match=r"incomplete answer|without an id"):
        poll(standin, fault, stream="cohorts")
