"""Rows that were staged whole, but not put in place: the next attempt publishes them from where they are.

A note beside the day's manifest names the staging table and has a digest of how its rows were staged. An attempt that
would stage them differently, or finds no note, makes a table of its own. Others may write where the stage lies, and
what a note names is dropped at the end: so only names of this attempt's staging tables count, and only tables that
carry their label. The note goes with the manifest; the publish script counts the staged rows in any case.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from airflow_provider_connect.clients.bigquery.errors import GoneError
from airflow_provider_connect.clients.bigquery.tables import find
from airflow_provider_connect.errors import ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.sinks._bigquery.script import IncompleteError
from airflow_provider_connect.sinks._bigquery.staging import REJECTS_END, Kept, Staging, is_stage_of, is_staging
from airflow_provider_connect.sinks._bigquery.turns import put_in_place
from airflow_provider_connect.stage.manifest import attempt_folder
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sink import LedgerRow, Publish
    from airflow_provider_connect.sinks._bigquery.plan import PublishPlan


def put_or_keep(api: Api, publish: Publish, made: Staging, plan: PublishPlan, labels: dict[str, str]) -> LedgerRow:
    """Put a staged day in place; note that its staging table is filled when a turn is lost, or what fails may pass.

    :param labels: of the job.
    :raises ConnectError: as :func:`~.turns.put_in_place`.
    """
    rejects = plan.rejects.rows if plan.rejects else 0
    folder, name = Folder(publish.stage), _name(publish)

    def keep() -> None:
        tables = made.table.table, made.rejects.table if made.rejects else None
        kept = Kept(
            table=tables[0], rejects_table=tables[1], digest=digest_of(made), rejects=rejects, streams=plan.stream_count
        )
        # Whatever is wrong with the stage, it is worth less than the error that comes next.
        with suppress(ConnectError):
            folder.write(name, kept.model_dump_json().encode())

    try:
        return put_in_place(api, plan, labels, keep)
    except ConnectError as error:
        if isinstance(error, RetriableError) and not isinstance(error, (OvertakenError, IncompleteError, GoneError)):
            keep()
        else:
            with suppress(ConnectError):
                folder.delete(name)
        raise


def is_kept(publish: Publish, made: Staging) -> bool:
    """Tell whether the note names this staging table."""
    kept = _read(publish)
    return kept is not None and kept.table == made.table.table


def kept_before(api: Api, publish: Publish, made: Staging) -> Staging | None:
    """Return what an earlier attempt staged of this manifest, in the same way and still there; None if nothing.

    :param made: how this attempt would stage it; none of its tables need exist.
    """
    kept = _read(publish)
    if kept is None or kept.digest != digest_of(made):
        return None
    if not is_stage_of(made.table, publish.manifest.attempt, kept.table):
        return None
    if kept.rejects_table not in (None, f"{kept.table}{REJECTS_END}"):
        return None
    table = made.table.sibling(kept.table)
    rejects = made.table.sibling(kept.rejects_table) if kept.rejects_table else None
    if not all(_is_there(api, place) for place in (table, rejects) if place is not None):
        return None
    return replace(made, table=table, rejects=rejects, kept=kept)


def _is_there(api: Api, place: Place) -> bool:
    table = find(api, place)
    return table is not None and is_staging(table)


def digest_of(made: Staging) -> str:
    """Return what tells two ways to stage rows apart."""
    columns = [[column.name, column.expression, column.staging] for column in made.columns]
    staged = [column.staging for column in made.staged]
    text = json.dumps([columns, staged, made.position_column, made.load_method, made.rejects is not None])
    return hashlib.sha256(text.encode()).hexdigest()


def _read(publish: Publish) -> Kept | None:
    try:
        return Kept.model_validate_json(Folder(publish.stage).read(_name(publish)))
    except (FileNotFoundError, ValidationError):
        return None


def _name(publish: Publish) -> str:
    return f"{attempt_folder(publish.manifest.attempt)}/bigquery.json"
