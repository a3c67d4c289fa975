"""Runs bqemulator, corrected where our sink would notice a difference from BigQuery, in the emulator's own Python.

The corrections:

* a column added by a change of the table's metadata can be queried, and a list of tables includes their labels;
* a job id is accepted once (409 the second time), and an upload's job has the requested id;
* a write stream reports when it was committed, and a second commit answers ``STREAM_ALREADY_COMMITTED``;
* unknown columns and lost conflicts are reported in BigQuery's words;
* ``ALTER COLUMN … SET DATA TYPE`` changes the table's metadata too.

It also takes half of the time for a statement, see :func:`_a_text_is_parsed_once`.

It imports nothing of this package: the emulator has its own environment.
"""

from __future__ import annotations

import datetime as dt
import gc
import re
from contextvars import ContextVar
from typing import Any

from bqemulator.api.routes import jobs, tables, upload  # type: ignore[import-not-found]
from bqemulator.catalog.memory_repository import MemoryCatalogRepository  # type: ignore[import-not-found]
from bqemulator.cli import main  # type: ignore[import-not-found]
from bqemulator.domain.errors import AlreadyExistsError, InvalidQueryError, ValidationError  # type: ignore[import-not-found]
from bqemulator.grpc_api.write_servicer import BigQueryWriteHandler  # type: ignore[import-not-found]
from bqemulator.jobs import error_mapper  # type: ignore[import-not-found]
from bqemulator.storage.sql_identifiers import quoted_table_ref  # type: ignore[import-not-found]
from bqemulator.storage.type_map import bq_schema_to_duckdb_columns  # type: ignore[import-not-found]
from sqlglot.dialects.dialect import Dialect  # type: ignore[import-not-found]

_CONFLICT = re.compile(
    r"transactioncontext error|write-write conflict|conflict on (?:update|tuple)|transaction conflict", re.IGNORECASE
)
_UNKNOWN_COLUMN = re.compile(
    r'Referenced column "([^"]*)" not found|does not have a column named "([^"]*)"'
    r'|Column "([^"]*)" referenced that exists in the SELECT clause'  # where the query gives its own result that name
)
_NEW_TYPE = re.compile(
    r"ALTER TABLE `(?P<table>[^`]+)` ALTER COLUMN `(?P<column>[^`]+)` SET DATA TYPE (?P<type>[A-Z0-9]+)"
)
_ABORTED = "Transaction is aborted due to concurrent update against one of its tables."
_CACHED_TREES = 200  # one statement's are a dozen
_requested_job_id: ContextVar[str | None] = ContextVar("asked_id", default=None)
_used_job_ids: set[tuple[str, str]] = set()
_committed: dict[str, dt.datetime] = {}


def _make_added_columns_real() -> None:
    change = MemoryCatalogRepository.update_table

    def update_table(self: Any, table: Any) -> Any:
        stored_table = self.get_table(table.project_id, table.dataset_id, table.table_id)
        known_names = {field.name.lower() for field in stored_table.schema_.fields} if stored_table else set()
        added = [
            tables._field_to_rest(field) for field in table.schema_.fields if field.name.lower() not in known_names
        ]
        result = change(self, table)
        table_reference = quoted_table_ref(table.project_id, table.dataset_id, table.table_id)
        for name, kind in bq_schema_to_duckdb_columns(added) if stored_table else ():
            self._engine.execute(f'ALTER TABLE {table_reference} ADD COLUMN IF NOT EXISTS "{name}" {kind}')
        return result

    MemoryCatalogRepository.update_table = update_table


def _add_labels_to_listed_tables() -> None:
    item = tables._table_to_list_item
    tables._table_to_list_item = lambda table: item(table) | {"labels": tables._table_to_rest(table).get("labels", {})}


def _claim_job_id(project_id: str, job_id: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,1024}", job_id):
        raise ValidationError(f"Invalid job ID {job_id!r}")
    if (project_id, job_id) in _used_job_ids:
        raise AlreadyExistsError(f"Already Exists: Job {project_id}:US.{job_id}")
    _used_job_ids.add((project_id, job_id))


def _refuse_repeated_job_ids() -> None:
    query, load, upload_load = jobs._handle_query_job, jobs._handle_load_job_with_async_envelope, upload._run_load
    envelope, made_up = upload._load_configuration_from_envelope, upload._new_job_id

    async def handle_query(project_id: str, job_id: str, config: Any, *, dry_run: bool, **more: Any) -> Any:
        if not dry_run:
            _claim_job_id(project_id, job_id)
        return await query(project_id, job_id, config, dry_run=dry_run, **more)

    async def handle_load(project_id: str, job_id: str, config: Any, ctx: Any) -> Any:
        _claim_job_id(project_id, job_id)
        return await load(project_id, job_id, config, ctx)

    def read_envelope(body: Any) -> Any:
        job_id = (body.get("jobReference") or {}).get("jobId")
        return envelope(body) | ({"connectJobId": job_id} if job_id else {})

    async def run_load(*, project_id: str, configuration: Any, **more: Any) -> Any:
        job_id = configuration.get("connectJobId")
        plain = {name: value for name, value in configuration.items() if name != "connectJobId"}
        if job_id:
            _claim_job_id(project_id, job_id)
        _requested_job_id.set(job_id)
        return await upload_load(project_id=project_id, configuration=plain, **more)

    jobs._handle_query_job, jobs._handle_load_job_with_async_envelope = handle_query, handle_load
    upload._load_configuration_from_envelope, upload._run_load = read_envelope, run_load
    upload._new_job_id = lambda: _requested_job_id.get() or made_up()


def _report_committed_streams() -> None:
    from google.cloud.bigquery_storage_v1 import types

    commit = BigQueryWriteHandler._handle_batch_commit_write_streams
    get = BigQueryWriteHandler._handle_get_write_stream

    def batch_commit(self: Any, request_bytes: bytes, context: Any) -> bytes:
        stream_names = list(types.BatchCommitWriteStreamsRequest.deserialize(request_bytes).write_streams)
        committed_names = [name for name in stream_names if name in _committed]
        if committed_names:
            code = types.StorageError.StorageErrorCode.STREAM_ALREADY_COMMITTED
            errors = [types.StorageError(code=code, entity=name) for name in committed_names]
            answer = types.BatchCommitWriteStreamsResponse(stream_errors=errors)
            return bytes(types.BatchCommitWriteStreamsResponse.serialize(answer))
        response: bytes = commit(self, request_bytes, context)
        answer = types.BatchCommitWriteStreamsResponse.deserialize(response)
        if not answer.stream_errors:
            _committed.update(dict.fromkeys(stream_names, dt.datetime.now(dt.UTC)))
        return response

    def get_stream(self: Any, request_bytes: bytes, context: Any) -> bytes:
        response: bytes = get(self, request_bytes, context)
        if not response:
            return response
        stream = types.WriteStream.deserialize(response)
        if stream.name in _committed:
            stream.commit_time = _committed[stream.name]
        return bytes(types.WriteStream.serialize(stream))

    BigQueryWriteHandler._handle_batch_commit_write_streams = batch_commit
    BigQueryWriteHandler._handle_get_write_stream = get_stream


def _unknown_column(raw: str, _sql: str | None) -> Any:
    match = _UNKNOWN_COLUMN.search(raw)
    name = match and (match[1] or match[2] or match[3])
    return InvalidQueryError(f"Unrecognized name: {name} at [1:8]", location="query") if match else None


def _translate_errors() -> None:
    error_mapper._DUCKDB_TRANSLATORS = (_unknown_column, *error_mapper._DUCKDB_TRANSLATORS)
    execute = jobs.execute_query_job

    async def execute_query_job(*args: Any, **kwargs: Any) -> Any:
        try:
            return await execute(*args, **kwargs)
        except Exception as error:
            if _CONFLICT.search(str(error)):
                raise InvalidQueryError(_ABORTED, location="query") from error
            raise

    jobs.execute_query_job = execute_query_job


def _make_new_types_known() -> None:
    execute = jobs.execute_query_job

    async def execute_query_job(project_id: str, job_id: str, sql: str, params: Any, ctx: Any, **more: Any) -> Any:
        match = _NEW_TYPE.fullmatch(sql)
        # DuckDB's own NUMERIC has 18 digits.
        sql = re.sub(r" NUMERIC$", " NUMERIC(38, 9)", sql) if match else sql
        result = await execute(project_id, job_id, sql, params, ctx, **more)
        if match:
            table = ctx.catalog.get_table(*match["table"].split("."))
            fields = tuple(
                field.model_copy(update={"type": match["type"], "precision": None, "scale": None, "max_length": None})
                if field.name == match["column"]
                else field
                for field in table.schema_.fields
            )
            schema = table.schema_.model_copy(update={"fields": fields})
            ctx.catalog.update_table(table.model_copy(update={"schema_": schema}))
        return result

    jobs.execute_query_job = execute_query_job


def _cache_parsed_statements() -> None:
    """Keep the trees of the last texts: thirty rewriters parse each statement anew, and a copy costs a third."""
    parse, trees = Dialect.parse, dict[Any, list[Any]]()

    def parse_once(self: Any, sql: str, **options: Any) -> list[Any]:
        if self.settings:
            return list(parse(self, sql, **options))
        key = type(self), sql, *sorted(options.items())
        if key not in trees:
            if len(trees) >= _CACHED_TREES:
                trees.clear()
            trees[key] = parse(self, sql, **options)
        return [tree and tree.copy() for tree in trees[key]]

    Dialect.parse = parse_once


_make_added_columns_real()
_add_labels_to_listed_tables()
_refuse_repeated_job_ids()
_report_committed_streams()
_translate_errors()
_make_new_types_known()
_cache_parsed_statements()
gc.freeze()  # what is imported stays
gc.set_threshold(50_000, 20, 100)
main()
