"""Days of one ledger are put in place one after the other: who loses a turn waits, and for how long.

BigQuery takes 25 DML statements in ten seconds on one table, those of aborted transactions among them. A lost turn
costs one, the change of the fence; a publish costs about two on each of its tables. If losers came back at once, their
lost turns would use up the limit, and the table would stand still. So a loser counts who else wants a turn (each
attempt has a staging table), and pauses so long that all of them together stay below the limit: of sixteen, each comes
back about once in twenty seconds.

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
"""How long a publish goes on losing its turn before it leaves the rest to Airflow's retry."""
DML_STATEMENTS, DML_SECONDS = 25, 10.0
DML_PER_PUBLISH = 2
"""On the ledger, its fence and its row; no other table has more. A definition that comes into force costs one more."""
_SHARE = 0.7
"""How much of that limit publishes use; the rest is for chance, and for other people."""
MAX_PAUSE_SECONDS = 60.0
ASSUMED_PUBLISHERS = 16


def pause_seconds(publishers: int, randomness: float) -> float:
    """Return how long to pause after a lost turn.

    :param publishers: how many want a turn, this one included.
    :param chance: from 0 to 1.
    """
    mean = max(publishers, 1) * DML_PER_PUBLISH * DML_SECONDS / (DML_STATEMENTS * _SHARE)
    return min(mean, MAX_PAUSE_SECONDS) * (0.5 + randomness)


def publishers(api: BigQueryApi, ledger_step: LedgerStep) -> int:
    """Count the attempts that want a turn at the same ledger, by the target's staging tables. One listing.

    Confirmations have none, and nobody can count them. So one that has lost its turn assumes that there are many:
    sixteen daily runs that look back lose at once, and would come back at once.
    """
    try:
        found = list_staging_tables(api, prefix_of(ledger_step.staging))
    except ConnectError:
        return ASSUMED_PUBLISHERS  # a day does not fail for what only tells how long to wait
    staged = sum(not place.table.endswith(REJECTS_SUFFIX) for place in found)
    return staged if isinstance(ledger_step, PublishPlan) else staged + ASSUMED_PUBLISHERS


def publish_or_keep_staging(api: BigQueryApi, plan: PublishPlan, labels: dict[str, str]) -> LedgerRow:
    """Put a staged day in place; note that its staging table is filled when a turn is lost, or what fails may pass.

    :param labels: of the job.
    :raises ConnectError: as :func:`run_publish`.
    """
    folder, name, made = Folder(plan.publish.stage), note_name(plan.publish), plan.layout

    def keep() -> None:
        kept = FilledStaging(
            table=made.table.table,
            rejects_table=made.rejects.table if made.rejects else None,
            digest=layout_digest(made),
            rejects=plan.rejects.rows if plan.rejects else 0,
            streams=plan.stream_count,
        )
        # Whatever is wrong with the stage, it is worth less than the error that comes next.
        with suppress(ConnectError):
            folder.write(name, kept.model_dump_json().encode())

    try:
        return run_publish(api, plan, labels, keep)
    except ConnectError as error:
        if isinstance(error, RetriableError) and not isinstance(error, (OvertakenError, IncompleteError, GoneError)):
            keep()
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
    """Run the script until it has an outcome; a lost turn only costs another one.

    :param labels: of the job.
    :param keep: called when the first turn is lost: what is staged should outlive this driver.
    :raises RetriableError: others kept winning for :data:`PUBLISH_SECONDS`; a table of this is gone, or the target's
        columns are others by now; queries do not know its columns yet; or as :func:`~.script.published_row`.
    """

    def script(job_id: str) -> str:
        row = plan.row.model_copy(update={"reference": job_id, "link": api.console_link(job_id)})
        return publish_script(replace(plan, row=row))

    def run() -> LedgerRow:
        job_id = f"connect_publish_{uuid.uuid4().hex}"
        try:
            with missing_as_gone(plan.action):
                [answer], _ = api.query(script, action=plan.action, labels=labels, job_id=job_id)
        except ConfigError as error:
            if any(has_schema_changed(api, place, plan.layout.columns) for place in plan.changed_tables):
                raise RetriableError(f"{error}; the target's columns were changed meanwhile") from None
            if not isinstance(error, ColumnError):
                raise
            # Who adds columns waits until queries know them; another publisher sees them in the table before that.
            raise _unknown_columns(error, f"table {plan.target.id}, or its ledger,") from None
        return published_row(plan, dict(answer))

    return run_in_turn(plan.action, run, lambda: publishers(api, plan), keep_staging=keep_staging, clock=clock)


def _unknown_columns(error: ColumnError, where: str) -> RetriableError:
    """Return the error for columns that queries do not know yet: Airflow's number of retries is the bound."""
    return RetriableError(
        f"{error}; {where} has these columns, and queries do not know them yet: if it stays, look at the job in "
        "Google's console, and report it",
        retry_after_seconds=2 * COLUMN_WAIT_SECONDS,
    )


def run_confirmation(
    api: BigQueryApi, step: LedgerStep, labels: dict[str, str], *, clock: Clock | None = None
) -> LedgerRow:
    """Run the script of a confirmation until it has an outcome.

    :raises RetriableError: others kept winning for :data:`PUBLISH_SECONDS`; or as
        :func:`~.decision.confirmed_row`.
    """

    def run() -> LedgerRow:
        job_id = f"connect_confirm_{uuid.uuid4().hex}"
        try:
            [answer], _ = api.query(confirm_script(step), action=step.action, labels=labels, job_id=job_id)
        except ColumnError as error:
            # Another job has just added columns to the ledger of an earlier version.
            raise _unknown_columns(error, "the ledger") from None
        return confirmed_row(step, dict(answer))

    return run_in_turn(step.action, run, lambda: publishers(api, step), clock=clock)


def run_in_turn(
    action: str,
    run: Callable[[], Answer],
    count_publishers: Callable[[], int],
    *,
    keep_staging: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> Answer:
    """Run what changes the stream's fence row until it has an outcome.

    :param publishers: tells how many want a turn.
    :param keep: called when the first turn is lost.
    :raises RetriableError: others kept winning for :data:`PUBLISH_SECONDS`.
    """
    patience = Patience(PUBLISH_SECONDS, clock=clock)
    while True:
        try:
            return run()
        except RetriableError as error:
            if not _is_lost_turn(error) or patience.is_over:
                raise
            after = error.retry_after_seconds or 0.0
        if patience.tries == 1:
            keep_staging()
        together = count_publishers()
        pause = max(pause_seconds(together, random.random()), patience.pause_as_requested(after))  # noqa: S311
        lost = "%s: others were faster %d times; %d want a turn, next try in %.1f s"
        _log.info(lost, action, patience.tries, together, pause)
        patience.sleep(pause)


def _is_lost_turn(error: RetriableError) -> bool:
    """Tell whether another publisher won, or all of them have come to BigQuery's rate limit."""
    return isinstance(error, ConflictError) or 0 < (error.retry_after_seconds or 0) <= LONG_WAIT_SECONDS
