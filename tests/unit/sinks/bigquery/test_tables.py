"""Tables in a dataset that does what no emulator does: defaults that expire, required filters, lost etags."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from google.api_core.exceptions import BadRequest, Forbidden, NotFound, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import create_table
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._bigquery import target as module
from airflow_provider_connect.sinks._bigquery.ledger_rows import LEDGER_FIELDS
from airflow_provider_connect.sinks._bigquery.names import distinct_label
from airflow_provider_connect.sinks._bigquery.staging import create_staging_table
from airflow_provider_connect.sinks._bigquery.tables import ensure_table
from airflow_provider_connect.sinks._bigquery.target import PreparedTarget, ensure_target
from tests.equipment.bigquery.fixtures import options
from tests.equipment.clock import NoTime

TARGET = TableRef("some-project", "d", "events")
MONTH = dt.timedelta(days=60)
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


@dataclass
class Dataset:
    """What BigQuery answers about one dataset.

    :param ends: the defaults for new tables and partitions.
    :param billing: without it, nothing may live for ever.
    :param stale: so many changes are refused because another was faster.
    :param known_after: so many queries know no new column yet.
    :param refused: the answer to every query.
    """

    ends: dt.timedelta | None = None
    billing: bool = True
    stale: int = 0
    known_after: int = 0
    refused: str = ""
    tables: dict[str, Any] = field(default_factory=dict)
    queries: list[str] = field(default_factory=list)

    def create_table(self, table: Any, **_: Any) -> Any:
        made = bigquery.Table.from_api_repr({**table.to_api_repr(), "type": "TABLE"})
        if self.ends is not None:
            if made.time_partitioning is None and made.expires is None:
                made.expires = dt.datetime.now(dt.UTC) + self.ends
            if made.time_partitioning is not None and made.time_partitioning.expiration_ms is None:
                made.time_partitioning.expiration_ms = int(self.ends.total_seconds() * 1000)
        self.tables[str(made.reference)] = made
        return self.get_table(str(made.reference))

    def get_table(self, name: str, **_: Any) -> Any:
        if name not in self.tables:
            raise NotFound("Not found: Table")
        return bigquery.Table.from_api_repr(self.tables[name].to_api_repr())

    def update_table(self, table: Any, fields: list[str], **_: Any) -> Any:
        if self.stale:
            self.stale -= 1
            raise PreconditionFailed("Precondition check failed.")
        if not self.billing:
            raise Forbidden("Billing has not been enabled for this project.")
        kept = self.tables[str(table.reference)]
        for name in fields:
            setattr(kept, name, getattr(table, name))
        return self.get_table(str(table.reference))

    def query(self, sql: str, **_: Any) -> None:
        self.queries.append(sql)
        if self.refused:
            raise BadRequest(self.refused)
        kept = self.tables[TARGET.id]
        by = kept.time_partitioning.field
        if kept.require_partition_filter and f"`{by}` IS" not in sql:
            raise BadRequest(f"Cannot query over table 'd.events' without a filter over column(s) '{by}'")
        if len(self.queries) <= self.known_after:
            raise BadRequest("Unrecognized name: extra at [1:8]")


def api(dataset: Dataset) -> BigQueryApi:
    """Return the real class, whose calls are answered by a :class:`Dataset`."""
    connection = Connection(conn_id="g", conn_type="google_cloud_platform")
    made = BigQueryApi(connection, "some-project", AnonymousCredentials(), retry_budget_seconds=5)
    made.__dict__["client"] = dataset
    return made


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())


def target(dataset: Dataset, schema: pa.Schema = SCHEMA, **chosen: Any) -> PreparedTarget:
    return ensure_target(api(dataset), TARGET, options(**chosen), schema)


def test_expirations_of_the_datasets_defaults_are_removed() -> None:
    dataset = Dataset(ends=MONTH)
    ready = target(dataset)
    assert ready.table.time_partitioning.expiration_ms is None
    ledger = TARGET.sibling("events__ledger")
    ensure_table(api(dataset), ledger, LEDGER_FIELDS, description="x")
    rejects = TARGET.sibling("events__rejects")
    ensure_table(api(dataset), rejects, [{"name": "day", "type": "DATE"}], description="x",
                 partition_by="day")  # fmt: skip
    assert [kept.expires for kept in dataset.tables.values()] == [None] * 3
    assert dataset.tables[rejects.id].time_partitioning.expiration_ms is None


def test_a_configured_partition_expiration_stays() -> None:
    dataset = Dataset(ends=MONTH)
    assert target(dataset, partition_expiration_days=7).table.time_partitioning.expiration_ms == 7 * 86_400_000
    place = TARGET.sibling("events__stage_a")
    create_staging_table(api(dataset), place, [{"name": "id", "type": "INTEGER"}])
    left = dataset.tables[place.id].expires - dt.datetime.now(dt.UTC)
    assert dt.timedelta(hours=23) < left < dt.timedelta(hours=25)


def test_the_expiration_of_a_ledger_is_removed_even_if_others_change_the_table() -> None:
    dataset = Dataset(ends=MONTH)
    ledger = bigquery.Table(
        TARGET.sibling("l").id, schema=[bigquery.SchemaField(f["name"], f["type"]) for f in LEDGER_FIELDS]
    )
    dataset.create_table(ledger)
    dataset.stale = 6
    ensure_table(api(dataset), TARGET.sibling("l"), LEDGER_FIELDS, description="x")
    assert dataset.tables[TARGET.sibling("l").id].expires is None


def test_a_project_that_keeps_the_expiration_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"events and its published days would expire\. Enable billing"):
        create_table(api(Dataset(ends=MONTH, billing=False)), TARGET, [{"name": "id", "type": "INTEGER"}])


def evolved(dataset: Dataset) -> PreparedTarget:
    target(dataset, partition_by="at")
    dataset.tables[TARGET.id].require_partition_filter = True
    return target(dataset, pa.schema([*SCHEMA, pa.field("extra", pa.string())]), partition_by="at")


def test_new_columns_of_a_table_that_requires_a_filter_on_another_column_than_day() -> None:
    dataset = Dataset()
    assert [column.name for column in evolved(dataset).columns] == ["id", "at", "extra"]
    assert len(dataset.queries) == 1


def test_columns_that_queries_do_not_know_yet_are_waited_for() -> None:
    dataset = Dataset(known_after=3)
    evolved(dataset)
    assert len(dataset.queries) == 4


def test_another_error_while_waiting_for_columns_is_raised_immediately() -> None:
    dataset = Dataset(refused="Syntax error: Unexpected end of script")
    with pytest.raises(ConfigError, match=r"look for the new columns of some-project.d.events"):
        evolved(dataset)
    assert len(dataset.queries) == 1


def test_waiting_for_columns_ends_with_a_retriable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COLUMN_WAIT_SECONDS", -1.0)
    with pytest.raises(RetriableError, match="`extra` were added, but queries do not know them"):
        evolved(Dataset(known_after=99))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ledger", "ledger", True),
        ("ledger", "Ledger", False),
        ("l" * 100, "l" * 99 + "L", False),
        ("L" * 300, "l", False),
    ],
)
def test_ledger_labels_are_legal_and_distinct(one: str, other: str, same: bool) -> None:
    found = [distinct_label(name) for name in (one, other)]
    assert (found[0] == found[1]) == same
    assert all(len(value) <= 63 and value == value.lower() for value in found)
