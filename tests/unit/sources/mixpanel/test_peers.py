"""What users of other connectors saw in their profiles, by the issue that told of it, and what ours does.

Numbers are those of https://github.com/airbytehq/airbyte/issues.
"""

from __future__ import annotations

import json
import time

import pytest

from airflow_provider_connect.errors import ConfigError
from tests.equipment.mixpanel import poll
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

PEOPLE = People(users=3000)


@pytest.fixture(scope="module")
def standin():
    limits = Limits(queries_per_hour=60, concurrent=5)
    with StandIn(Project(), people=PEOPLE, engage=Engage(page_size=100), query_limits=limits) as server:
        yield server


def test_three_thousand_profiles_took_five_minutes_because_each_page_waited_for_sixty_seconds_57513(standin):
    started = time.monotonic()
    rows, tally = poll(standin, stream="engage")
    assert (len(rows), tally.requests) == (3000, 1)
    assert time.monotonic() - started < 30, "thirty pages, and no minute for any"
    assert "429" not in standin.stats["requests"]["engage pages"]


def test_every_sync_read_all_profiles_again_40583(standin):
    rows, tally = poll(standin, stream="engage", where='properties["$last_seen"] >= "2026-03-01T11:00:00"')
    _, of_all = poll(standin, stream="engage")
    changed = [one for one in PEOPLE.all() if one["$properties"].get("$last_seen", "") >= "2026-03-01T11:00:00"]
    assert len(rows) == len(changed) < 100
    assert tally.raw_bytes < of_all.raw_bytes / 10, "the server left the others out"


def test_an_id_that_is_a_number_lost_its_digits_or_its_row(standin):
    rows, _ = poll(standin, stream="engage")
    numbers = [str(one["$distinct_id"]) for one in PEOPLE.all() if isinstance(one["$distinct_id"], int)]
    found = {row["distinct_id"] for row in rows}
    assert len(numbers) == 60
    assert set(numbers) <= found
    assert all(float(one) != int(one) for one in numbers if one.endswith("49")), "a double would not hold them"


def test_nested_objects_became_the_repr_of_a_python_dict_73493(standin):
    rows, _ = poll(standin, stream="engage")
    nested = [row for row in rows if '"address"' in row["properties"]]
    assert nested
    for row in nested:
        address = json.loads(row["properties"])["address"]
        assert address == {"city": "Zürich", "geo": {"lat": 47.37, "tags": ["home", None, True]}}
        assert "{'" not in row["properties"]


def test_user_name_and_username_became_one_column_5355(standin):
    rows, _ = poll(standin, stream="engage", promote={"userName": "string"})
    both = [row for row in rows if '"username"' in row["properties"]]
    assert both
    for row in both:
        properties = json.loads(row["properties"])
        assert (properties["userName"], properties["username"]) == ("Ada", "ada")
        assert row["userName"] == "Ada"
    with pytest.raises(ConfigError, match=r"'username' would become column 'username'.*of property 'userName'"):
        poll(standin, stream="engage", promote={"userName": "string", "username": "string"})
