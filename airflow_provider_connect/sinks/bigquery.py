"""BigQuery table: a day appears whole, once, typed, and can be loaded again.

A frozen day goes into a staging table of this attempt's own, and **one** script puts it in place: a multi-statement
transaction that deletes the day, inserts it from the staging table and writes the ledger row. Readers see the old day
or the new one, never a part. The staging table is dropped at the end, and expires by itself after a day.

**Connection.** Airflow's ``google_cloud_platform`` type, with the Google provider installed or without it: ``project``,
``keyfile_dict``, ``key_path``, ``credential_config_file``, ``scope``, ``impersonation_chain``; with none of these,
Application Default Credentials, which the Airflow task, the driver and the executors all need. Rights: BigQuery Data
Editor on the dataset (tables, also to be made, and their data) and BigQuery Job User on the project. ``rest_endpoint``
(``https://host``) and ``grpc_endpoint`` (``host:443``) name private endpoints, ``universe_domain`` another universe.

**Delivery.** ``write_mode="replace"`` (default): each day once; a reload replaces it, deletions included.
``"merge"``: each key once; the newest source position wins and the reload of an older day leaves newer rows alone.
``"append"``: a day that the ledger has is refused, unless ``on_published_day="append"``. Two publishers of one stream
cannot commit at once: BigQuery aborts one of them, which then decides anew.

**Ways in.** ``load_method="storage_write"``: executors append Arrow to pending streams of the Storage Write API, the
driver compares the row counts and commits all streams at once. ``"load_job"``: one job for all Parquet files, from
``gs://`` by their URI, else as one upload through the driver; free of charge, slower. ``"auto"`` takes load jobs for a
stage on ``gs://``.

**Ledger.** Table ``<table>__ledger`` in the same dataset, one row for each publish: stream, day, generation, intent,
run, attempt, rows, digest, counts, job and streams. It is written by the same transaction as the data. A day that
somebody else has published since the attempt began to poll is refused inside it, before the first change to the data.

**Schema.** Types and names as in ``docs/bigquery.md``. Every table has a column ``day`` (DATE), by which it is
partitioned unless ``partition_by`` says otherwise. ``schema_contract="evolve"`` adds columns and relaxes REQUIRED to
NULLABLE, ``"freeze"`` fails the day, ``"discard_columns"`` leaves new columns out. A changed type fails the day.

**Limits.** Rows of up to 8 MB. A publish costs a small constant of calls whatever its size: one table made and one
dropped, one script, one question to the ledger, and a stream for each staged file. Keys that
``delete_where`` deleted are remembered in ``<table>__tombstones``: the reload of an older day does not bring them back.

**Errors.** Rate limits, 5xx, a cut or dead connection and lost races are retriable; an exhausted quota is retriable in
an hour. Missing datasets and rights, wrong locations and partitions are for a person to mend, and found before the poll
begins. With ``errors_tolerance="all"`` rows that BigQuery cannot hold go to ``<table>__rejects`` in the same
transaction; else the first one fails the day.

Vendor facts: https://cloud.google.com/bigquery/docs/write-api, …/transactions, …/loading-data-cloud-storage-parquet,
https://cloud.google.com/bigquery/quotas (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from airflow_provider_connect.clients.bigquery.place import MAX_TARGET_BYTES, Place, project_of
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.sinks._bigquery.partitions import contradictions
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger
    from airflow_provider_connect.sinks._bigquery.publisher import Publisher
    from airflow_provider_connect.sinks._bigquery.put import FileReceipt, Staging


class BigQuerySink(Sink):
    """Options of a BigQuery table as a sink."""

    name: ClassVar[str] = "bigquery"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("google_cloud_platform", "gcpbigquery")}

    conn_id: str = Field(
        default="google_cloud_default", description="Airflow connection that holds the project and the credentials."
    )
    table: str = Field(
        description="'dataset.table', or 'project.dataset.table' when the project is not the connection's own.",
        examples=["analytics.mixpanel_events"],
    )
    write_mode: Literal["replace", "merge", "append"] = Field(
        default="replace",
        description="'replace' puts a day in the place of the same day, 'merge' updates rows by key, 'append' adds.",
    )
    key: tuple[str, ...] = Field(
        default=(), description="Source columns that identify a row: for write_mode='merge', and only there."
    )
    newest_by: str | None = Field(
        default=None,
        description="Source column whose highest value wins among rows of one key, over days too; without it the later "
        "day wins, and within a day the later row. For write_mode='merge'.",
    )
    delete_where: str | None = Field(
        default=None, description="Boolean source column: where it is true the key is deleted. For write_mode='merge'."
    )
    on_published_day: Literal["refuse", "append"] = Field(
        default="refuse",
        description="With write_mode='append', what happens to a day the ledger has already: 'append' doubles it.",
    )
    load_method: Literal["auto", "storage_write", "load_job"] = Field(
        default="auto",
        description="How rows reach the staging table; 'auto' takes load jobs where the stage lies on gs://, else the "
        "Storage Write API.",
    )
    create_disposition: Literal["if_needed", "never"] = Field(
        default="if_needed", description="Whether the table is made when it is missing."
    )
    partition_by: str = Field(
        default="day",
        description="What partitions a new table: 'day', a DATE or TIMESTAMP source column, 'ingestion_time' (when "
        "rows arrive) or 'none'. For a table that exists: what it is partitioned by.",
    )
    partition_type: Literal["hour", "day", "month", "year", "range"] = Field(
        default="day",
        description="Size of a new table's partitions; 'hour' needs a TIMESTAMP column or 'ingestion_time'. 'range' is "
        "for a table that exists, by ranges of an INTEGER column.",
    )
    partition_filter: Literal["optional", "required"] = Field(
        default="optional", description="Whether queries on a new table must name its partitions."
    )
    partition_expiration_days: int | None = Field(
        default=None, ge=1, description="Age at which BigQuery deletes a new table's partitions."
    )
    cluster_by: tuple[str, ...] = Field(
        default=(), max_length=4, description="Up to four source columns that a new table is clustered by."
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels of tables that are made, and of every job beside dag, task and run."
    )
    kms_key: str | None = Field(
        default=None, description="Cloud KMS key for tables that are made: 'projects/…/cryptoKeys/…'."
    )
    location: str | None = Field(
        default=None, description="Where the dataset must lie; without it, wherever it does lie is right."
    )
    schema_contract: Literal["evolve", "freeze", "discard_columns"] = Field(
        default="evolve",
        description="What happens to a column the table lacks: 'evolve' adds it, 'freeze' fails, 'discard_columns' "
        "leaves it out.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="What happens to a row that BigQuery cannot hold: 'none' fails the day, 'all' sets it aside in "
        "'<table>__rejects'.",
    )
    max_rejects: int = Field(default=1000, ge=0, description="How many rows may be set aside before the day fails.")
    ledger_table: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_]{1,300}$",
        description="Name of the ledger's table, in the dataset of the table; '<table>__ledger' without it. Streams "
        "that share a ledger publish one after the other.",
    )
    staging_dataset: str | None = Field(
        default=None,
        description="Dataset for staging tables, 'dataset' or 'project.dataset', where the table's own lies; without "
        "it they lie beside the table.",
    )
    maximum_bytes_billed: int | None = Field(
        default=None,
        ge=10_000_000,
        description="Bytes that one statement may be billed for; one that would read more fails the day.",
    )
    timeout_seconds: float = Field(default=60.0, gt=0, description="How long one call may take to answer.")
    retry_budget_seconds: float = Field(
        default=90.0,
        ge=0,
        description="How long a call is tried again after retriable errors before they go to Airflow's own retry.",
    )
    sweep_after: dt.timedelta = Field(
        default=ONE_DAY,
        ge=dt.timedelta(hours=1),
        description="Age at which staging tables of dead attempts are dropped.",
    )

    _api: Any = PrivateAttr(default=None)

    @field_validator("table")
    @classmethod
    def _is_table(cls, table: str) -> str:
        try:
            place = Place.parse(table, project="the-connections-own")
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if len(place.table.encode()) > MAX_TARGET_BYTES:
            raise ValueError(
                f"the table's name takes {len(place.table.encode())} bytes of UTF-8: at most {MAX_TARGET_BYTES} bytes, "
                "since the ledger and staging tables have the same name and an end"
            )
        return table

    @field_validator("staging_dataset")
    @classmethod
    def _is_dataset(cls, dataset: str) -> str:
        try:
            Place.parse(f"{dataset}.x", project="the-connections-own")
        except ConfigError:
            raise ValueError(f"{dataset!r} is no dataset: write 'dataset' or 'project.dataset'") from None
        return dataset

    @model_validator(mode="after")
    def _modes(self) -> Self:
        if self.write_mode == "merge" and not self.key:
            raise ValueError("write_mode='merge' needs key=[…], the columns that identify a row")
        only_merge = [name for name in ("key", "newest_by", "delete_where") if getattr(self, name)]
        if self.write_mode != "merge" and only_merge:
            raise ValueError(f"{', '.join(only_merge)}: only with write_mode='merge'")
        if self.write_mode != "append" and self.on_published_day != "refuse":
            raise ValueError("on_published_day: only with write_mode='append'")
        of_partitions = {
            "partition_type": self.partition_type != "day",
            "partition_filter": self.partition_filter == "required",
            "partition_expiration_days": self.partition_expiration_days is not None,
        }
        if wrong := contradictions(self.partition_by, self.partition_type, of_partitions):
            raise ValueError("; ".join(wrong))
        return self

    @property
    def target(self) -> str:
        """``bigquery://`` and the table as it was given; for a missing project the connection's name stands."""
        return f"bigquery://{self._place_name}"

    @property
    def asset_uri(self) -> str:
        """``bigquery://project/dataset/table``, as the Google provider's assets have it.

        For a missing project the connection's name stands; the operator's ``asset=`` takes the real one.
        """
        dataset, _, table = self._place_name.rpartition(".")
        project, _, dataset = dataset.rpartition(".")  # a project of a domain has dots of its own
        return f"bigquery://{project}/{dataset}/{table}"

    @property
    def _place_name(self) -> str:
        return self.table if project_of(self.table) else f"{self.conn_id}.{self.table}"

    def replaces(self, kind: SourceKind) -> bool:
        """Only with ``write_mode="replace"``: the other modes delete nothing because of an empty answer."""
        return self.write_mode == "replace"

    def check(self, connections: Connections) -> list[str]:
        """Say what is wrong with the options and the connection; no network."""
        from airflow_provider_connect.clients.bigquery.credentials import check_connection  # noqa: PLC0415

        return check_connection(connections[self.conn_id])

    def preflight(
        self, schema: pa.Schema, key: StreamKey, days: Sequence[Day], connections: Connections, kind: SourceKind = "day"
    ) -> list[str]:
        """Find what would fail the publish; make the table and the ledger when nothing would."""
        return self._publisher(key, connections).preflight(schema, days)

    def ledger(self, key: StreamKey, connections: Connections) -> BigQueryLedger:
        """Return the ledger that lies in the table's dataset."""
        return self._publisher(key, connections).ledger

    def begin(self, publish: Publish, schema: pa.Schema, connections: Connections) -> Staging:
        """Bring the table to hold the source's columns, and make this attempt's staging table."""
        return self._publisher(publish.key, connections).begin(publish, schema)

    def put(
        self, token: Staging, files: tuple[StagedFile, ...], schema: pa.Schema, connections: Connections
    ) -> FileReceipt | None:
        """Append a staged file to the staging table, in a write stream of its own; nothing where files are loaded."""
        from airflow_provider_connect.sinks._bigquery.put import Tolerance, put_file  # noqa: PLC0415

        if token.load_method == "load_job" or token.kept is not None:
            return None
        (file,) = files
        with self._open(connections) as api:
            return put_file(api, token, file.path, Tolerance(self.errors_tolerance, self.max_rejects))

    def commit(
        self, publish: Publish, schema: pa.Schema, token: Staging, receipts: list[Any], connections: Connections
    ) -> LedgerRow:
        """Show all rows in the staging table, then put the day in place with its ledger row, in one transaction."""
        return self._publisher(publish.key, connections).commit(publish, token, receipts)

    def abort(self, publish: Publish, token: Staging, connections: Connections) -> None:
        """Drop this attempt's staging table, unless its rows are whole and only found no turn to be put in place.

        A transaction that still reads it fails whole.
        """
        self._publisher(publish.key, connections).abandon(publish, token)

    def sweep(self, key: StreamKey, connections: Connections) -> int:
        """Drop staging tables that are older than ``sweep_after``."""
        return self._publisher(key, connections).sweep()

    def _open(self, connections: Connections) -> Api:
        from airflow_provider_connect.clients.bigquery.api import Api  # noqa: PLC0415  # a DAG file does without it
        from airflow_provider_connect.sinks._bigquery.names import labels  # noqa: PLC0415

        api = Api.open(
            connections[self.conn_id],
            project_of(self.table),
            self.timeout_seconds,
            self.retry_budget_seconds,
            self.maximum_bytes_billed,
        )
        api.labels, api.kms_key = labels(self.labels), self.kms_key
        return api

    def _publisher(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher; all of one process share a client, and so one sign-in."""
        from airflow_provider_connect.sinks._bigquery.publisher import Publisher  # noqa: PLC0415

        if self._api is None or self._api.connection is not connections[self.conn_id]:
            self._api = self._open(connections)
        return Publisher(self, key, self._api)
