"""Publishes the days of one ledger one after the other.

All stay below 25 DML statements in ten seconds on one table.

Vendor facts: https://cloud.google.com/bigquery/quotas#data-manipulation-language-statements (2026-11).
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_connect.clients.bigquery.api import LONG_WAIT_SECONDS
from airflow_provider_connect.clients.bigquery.errors import ColumnError, ConflictError, GoneError, missing_as_gone
from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.patience import Clock, Patience
from airflow_provider_connect.sinks._bigquery.decision import confirm_script, confirmed_row
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep, PublishPlan
from airflow_provider_connect.sinks._bigquery.script import IncompleteError, publish_script, published_row
from airflow_provider_connect.sinks._bigquery.staging import (
    REJECTS_SUFFIX,
    FilledStaging,
    layout_digest,
    list_staging_tables,
    note_name,
    prefix_of,
)
from airflow_provider_connect.sinks._bigquery.target import COLUMN_WAIT_SECONDS, has_schema_changed
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.sink import LedgerRow

Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)
PUBLISH_SECONDS = 600.0
"""Time limit for lost turns."""
DML_STATEMENTS, DML_SECONDS = 25, 10.0
DML_PER_PUBLISH = 2
"""Most statements of a publish on one table: fence row and ledger row. A new definition costs one more."""
_SHARE = 0.7
MAX_PAUSE_SECONDS = 60.0
ASSUMED_PUBLISHERS = 16


def pause_seconds(publishers: int, random_number: float) -> float:
    """Return the pause after a lost turn."""
    mean = max(publishers, 1) * DML_PER_PUBLISH * DML_SECONDS / (DML_STATEMENTS * _SHARE)
    return min(mean, MAX_PAUSE_SECONDS) * (0.5 + random_number)


def count_publishers(api: BigQueryApi, ledger_step: LedgerStep) -> int:
    """Count the attempts that compete for the ledger. Takes one listing.

    A confirmation adds :data:`ASSUMED_PUBLISHERS`.
    """
    try:
        table_refs = list_staging_tables(api, prefix_of(ledger_step.staging))
    except ConnectError:
        return ASSUMED_PUBLISHERS  # the count only decides the length of a pause, so its error must not fail the day
    staged = sum(not table_ref.table.endswith(REJECTS_SUFFIX) for table_ref in table_refs)
    return staged if isinstance(ledger_step, PublishPlan) else staged + ASSUMED_PUBLISHERS


def publish_or_keep_staging(api: BigQueryApi, plan: PublishPlan, labels: dict[str, str]) -> LedgerRow:
    """Run :func:`run_publish`. After a lost turn or a passing error, a note keeps the staging table."""
    folder, name, layout = Folder(plan.publish.stage), note_name(plan.publish), plan.layout

    def write_note() -> None:
        note = FilledStaging(
            table=layout.table.table,
            rejects_table=layout.rejects.table if layout.rejects else None,
            digest=layout_digest(layout),
            rejects=plan.rejects.rows if plan.rejects else 0,
            streams=plan.stream_count,
        )
        # An error of the stage must not hide the error that follows.
        with suppress(ConnectError):
            folder.write(name, note.model_dump_json().encode())

    try:
        return run_publish(api, plan, labels, write_note)
    except ConnectError as error:
        if isinstance(error, RetriableError) and not isinstance(error, (OvertakenError, IncompleteError, GoneError)):
            write_note()
        else:
            with suppress(ConnectError):
                folder.delete(name)
        raise


def run_publish(
    api: BigQueryApi,
    plan: PublishPlan,
    labels: dict[str, str],
    keep_staging: Callable[[], None],
    *,
    clock: Clock | None = None,
) -> LedgerRow:
    """Run the publish script, and repeat it after each lost turn.

    :param keep_staging: called when the first turn is lost.
    :raises RetriableError: see :func:`run_in_turn`. Or this attempt's table is gone, or its columns changed.
    """

    def script_for_job(job_id: str) -> str:
        row = plan.row.model_copy(update={"reference": job_id, "link": api.console_link(job_id)})
        return publish_script(replace(plan, row=row))

    def run() -> LedgerRow:
        job_id = f"connect_publish_{uuid.uuid4().hex}"
        try:
            with missing_as_gone(plan.action):
                [answer], _ = api.query(script_for_job, action=plan.action, labels=labels, job_id=job_id)
        except ConfigError as error:
            if any(has_schema_changed(api, table_ref, plan.layout.columns) for table_ref in plan.changed_tables):
                raise RetriableError(f"{error}. The target's columns were changed meanwhile") from None
            if not isinstance(error, ColumnError):
                raise
            # The publisher that adds columns waits until queries know them. Others see them in the table earlier.
            raise _unknown_columns_error(error, f"table {plan.target.id} or its ledger") from None
        return published_row(plan, dict(answer))

    return run_in_turn(plan.action, run, lambda: count_publishers(api, plan), keep_staging=keep_staging, clock=clock)


def _unknown_columns_error(error: ColumnError, table_text: str) -> RetriableError:
    return RetriableError(
        f"{error}. The columns exist in {table_text}, but queries do not know them yet. If this stays, look at the "
        "job in Google's console, and report it",
        retry_after_seconds=2 * COLUMN_WAIT_SECONDS,
    )


def run_confirmation(
    api: BigQueryApi, step: LedgerStep, labels: dict[str, str], *, clock: Clock | None = None
) -> LedgerRow:
    """Run the script of a confirmation, as :func:`run_in_turn` does."""

    def run() -> LedgerRow:
        job_id = f"connect_confirm_{uuid.uuid4().hex}"
        try:
            [answer], _ = api.query(confirm_script(step), action=step.action, labels=labels, job_id=job_id)
        except ColumnError as error:
            # Another job has just added columns to the ledger of an earlier version.
            raise _unknown_columns_error(error, "the ledger") from None
        return confirmed_row(step, dict(answer))

    return run_in_turn(step.action, run, lambda: count_publishers(api, step), clock=clock)


def run_in_turn(
    action: str,
    run: Callable[[], Answer],
    count_publishers: Callable[[], int],
    *,
    keep_staging: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> Answer:
    """Call ``run``, which changes the stream's fence row, until no other publisher is faster.

    :param keep_staging: called after the first lost turn.
    :raises RetriableError: other publishers were faster for :data:`PUBLISH_SECONDS`.
    """
    patience = Patience(PUBLISH_SECONDS, clock=clock)
    while True:
        try:
            return run()
        except RetriableError as error:
            if not _is_lost_turn(error) or patience.is_over:
                raise
            retry_after = error.retry_after_seconds or 0.0
        if patience.tries == 1:
            keep_staging()
        competitors = count_publishers()
        pause = max(pause_seconds(competitors, random.random()), patience.pause_as_requested(retry_after))  # noqa: S311
        message = "%s: other publishers were faster %d times. %d compete for a turn, next try in %.1f s"
        _log.info(message, action, patience.tries, competitors, pause)
        patience.sleep(pause)


def _is_lost_turn(error: RetriableError) -> bool:
    return isinstance(error, ConflictError) or 0 < (error.retry_after_seconds or 0) <= LONG_WAIT_SECONDS
