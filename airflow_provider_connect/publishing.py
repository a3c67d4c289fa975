"""The commit decision: whether a publish may be committed, and as which generation.

The rule is a compare-and-set on the day's generation, without a clock. An attempt may publish only while the ledger has
the state that it read **before its poll** (:class:`.SeenPublish`).
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_connect.errors import OvertakenError, SupersededError
from airflow_provider_connect.sink import DefinitionInForce, LedgerRow, Publish
from airflow_provider_connect.stage.erase_list import is_erase_run
from airflow_provider_connect.stage.manifest import Manifest, SeenPublish


def next_generation(publish: Publish, newest: LedgerRow | None, used: int = 0, *, erased: int = 0) -> int:
    """Return the generation under which a publish may be committed.

    Pure. Called in the sink's commit step, if this intent is not published yet.

    :param newest: the publish that this one must follow (:meth:`.Ledger.newest`), read in the commit step.
    :param used: highest generation of sent records. 0 if records become visible only with the publish.
    :raises SupersededError: the target shows a later day's snapshot.
    :raises OvertakenError: another attempt has published since this one read the ledger.
    """
    day = publish.day.date
    if publish.kind != "increment" and newest is not None and newest.day > day:
        raise superseded_error(publish, newest)
    if seen_publish(newest, erased) != publish.manifest.seen:
        raise overtaken_error(publish, newest, erased)
    published = newest.generation if newest is not None and is_reload(publish.manifest, newest) else 0
    return max(published, used) + 1


def is_reload(manifest: Manifest, newest: LedgerRow | None) -> bool:
    """Return True if a ledger row is an earlier publish of the staged day or span."""
    if newest is None or newest.day != manifest.day.date:
        return False
    return manifest.span is None or manifest.span_number == newest.span_number


def seen_publish(newest: LedgerRow | None, erased: int = 0) -> SeenPublish:
    """Return the ledger state that the commit compares: newest publish, and version of the erase list."""
    if newest is None:
        return SeenPublish(erased=erased)
    return SeenPublish(
        day=newest.day,
        generation=newest.generation,
        checks=newest.checks,
        span=newest.span_number,
        erased=erased,
    )


def require_definition(publish: Publish, in_force: DefinitionInForce | None) -> None:
    """Refuse a publish if the stream's definition has changed since its attempt read the ledger.

    Pure, called in the commit step.

    :raises OvertakenError: another definition is in force.
    """
    if in_force is None or publish.definition is None:
        return
    if in_force.digest not in (publish.definition, publish.definition_seen):
        raise OvertakenError(
            f"{publish.key} {publish.day}: days with another definition ({in_force.digest}) were published since this "
            f"attempt looked. The day that {publish.intent.run} staged stays unpublished",
            by=f"definition {in_force.digest}",
        )


def is_unchanged(publish: Publish, newest: LedgerRow | None) -> bool:
    """Return True if the answer equals the published one."""
    if newest is None or publish.answer is None or publish.kind != "day":
        return False
    return (newest.day, newest.answer) == (publish.day.date, publish.answer)


def confirmed_row(publish: Publish, newest: LedgerRow | None, erased: int = 0) -> LedgerRow:
    """Return a day's ledger row with one more confirmation.

    Pure. Called in the sink's confirmation step, if this intent is not published yet.

    :param newest: the day's row, read in that step.
    :param erased: version of the stream's erase list, read in that step.

    :raises OvertakenError: another attempt has published or confirmed the day since this one read the ledger.
    """
    if newest is None or seen_publish(newest, erased) != publish.manifest.seen or not is_unchanged(publish, newest):
        raise overtaken_error(publish, newest, erased)
    return newest.model_copy(
        update={
            "checks": newest.checks + 1,
            "token": publish.intent.token,
            "run": publish.intent.run,
            "clear_number": publish.intent.clear_number,
            "polled_at": publish.manifest.polled_at,
        }
    )


def superseded_error(publish: Publish, newest: LedgerRow) -> SupersededError:
    """Return the error for a snapshot older than the published one."""
    return SupersededError(
        f"{publish.key} {publish.day}: a snapshot of {newest.day} is published already (generation "
        f"{newest.generation}). The snapshot that {publish.intent.run} staged is older and stays unpublished"
    )


def overtaken_error(publish: Publish, newest: LedgerRow | None, erased: int = 0) -> OvertakenError:
    """Return the error for an attempt whose ledger changed before its commit.

    :param newest: None if the ledger has lost it.
    """
    subject, seen_generation = f"{publish.key} {publish.day}", publish.manifest.seen.generation
    if erased != publish.manifest.seen.erased:
        return OvertakenError(
            f"{subject}: rows were erased since this attempt began to poll (version {erased} of the stream's erase "
            f"list). The day that {publish.intent.run} staged may contain them and stays unpublished",
            by=f"erase {erased}",
            is_erase=True,
        )
    if newest is None:
        return OvertakenError(
            f"{subject}: generation {seen_generation} was there before the poll, and the ledger has none now"
        )
    mine = publish.intent
    is_later_clear = newest.run == mine.run and newest.clear_number > mine.clear_number
    did = "confirmed" if newest.checks else "published"
    of_day = "" if newest.day == publish.day.date else f" of {newest.day}"
    return OvertakenError(
        f"{subject}: {newest.run or 'another run'} has {did} generation {newest.generation}{of_day} since this attempt "
        f"began to poll at generation {seen_generation}. The day that {mine.run} staged may be the "
        "older answer and stays unpublished",
        by=newest.token,
        may_poll_again=not is_later_clear,
        is_erase=is_erase_run(newest.run),  # perhaps an older one, which took longer
    )


def ledger_row(publish: Publish, generation: int, **fields: Any) -> LedgerRow:
    """Return the ledger row of a publish.

    :param fields: values that replace the manifest's: ``rows``, ``counts``, ….
    """
    polled = publish.manifest.polled
    values: dict[str, Any] = {
        "rows": polled.rows_written,
        "counts": polled.all_counts,
        "published_at": dt.datetime.now(dt.UTC),
    }
    return LedgerRow(
        day=publish.day.date,
        generation=generation,
        token=publish.intent.token,
        run=publish.intent.run,
        clear_number=publish.intent.clear_number,
        digest=polled.digest,
        answer=publish.answer,
        attempt=publish.manifest.attempt,
        polled_at=publish.manifest.polled_at,
        span=publish.manifest.span,
        definition=publish.definition,
        **(values | fields),
    )
