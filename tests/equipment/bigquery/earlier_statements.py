"""The SQL that reads a ledger and an erase list of an earlier version of this package."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.erase_list import erase_list_table, read_erase_list
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger
from tests.equipment.bigquery.analyzer import Analyzer
from tests.equipment.bigquery.recorder import Recorder
from tests.equipment.bigquery.statements import KEY, World, read_all


def of_earlier_version(lacked: Collection[str]) -> list[str]:
    """Return the SQL that reads a ledger and its erase list that lack columns, refused queries among it."""
    world = World()
    known = world.known()
    earlier = {
        place: [field for field in known[place] if field["name"] not in lacked]
        for place in (world.tables.ledger, erase_list_table(world.tables.target))
    }
    api = Recorder({}, Analyzer(earlier))
    read_all(BigQueryLedger(api, world.tables.target, world.tables.ledger, KEY, replaces_whole=True))
    with suppress(ConfigError):  # nobody has filled it
        read_erase_list(api, world.tables.target, 1)
    return api.queries
