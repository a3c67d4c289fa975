"""The commit decision: whether a publish may go through, and as which generation.

Every sink asks :func:`next_generation` in the step that commits the data, with what its ledger says at that very
moment. Where the step is a SQL script (BigQuery), the script compares the same generation; :func:`overtaken` and
:func:`superseded` word its refusals. The rule is a compare-and-set on the day's generation. No clock takes part in it.

An attempt reads the newest publish **before it polls** and keeps it in its manifest, as :class:`.Seen`. It may publish
only while the ledger still says the same. So whatever is replaced was published before the replacing answer was asked
for: the newest *answer* wins, whoever started first. Why that is enough:

* **Two runs of one day at once.** Both saw generation n. The sink lets one publish n + 1. The other finds n + 1, not n:
  its answer may be the older one, so it is thrown away, and the day is polled again.
* **A zombie of a cleared run.** It saw n, the cleared run has published n + 1: refused. If the zombie was faster, the
  cleared run is refused, polls again and publishes n + 2, whose answer is newer than the zombie's.
* **A remade run** has the run id of the deleted one, and counts its clears from 0 again. Its token is new, and its
  attempt saw whatever the deleted run had published: nothing stands in its way.
* **A retry from the stage** publishes without a poll what an earlier try of the same intent froze. The manifest says
  what that try saw. If the ledger has moved on, the manifest is stale, and the retry polls.
* **A retry after a commit whose answer was lost** finds its own intent in the ledger, even under a generation that a
  later one has covered. It has nothing to do.
* **An erase** between the poll and the commit. The attempt saw an older erase list, is refused and polls again
  (:mod:`.stage.erasing`).
* **An unchanged answer** counts a check instead of a generation. Checks are compared as well: otherwise an answer that
  is older than the confirmed one could land on top of it.
* **Two runs of increments at once**, of whatever days. Both saw the stream's newest and read what came behind it. One
  follows it; the other is refused and reads what came behind that one (:mod:`.stage.spans`).
* **A clear during a publish.** Airflow ends the running try. If its commit lands all the same, the cleared run either
  saw it before it polled, or is refused and polls again. Either way its answer is the newer one.

An attempt does not poll again if the last to publish was a later clear of its own run: that clear says that this try is
no longer wanted. (If yet another run has published after that clear, the attempt polls again. That costs one poll.)
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_connect.errors import OvertakenError, SupersededError
from airflow_provider_connect.sink import DefinitionInForce, LedgerRow, Publish
from airflow_provider_connect.stage.erasing import is_erase_run
from airflow_provider_connect.stage.manifest import Seen


def next_generation(publish: Publish, newest: LedgerRow | None, used: int = 0, *, erased: int = 0) -> int:
    """Return the generation under which a publish may be committed. Pure; called wherever the sink commits.

    The caller has looked before whether this intent itself is published already: that is no conflict.

    :param newest: the publish that this one must follow, as the ledger has it in the step that commits: the day's
        newest, or the stream's newest if a snapshot replaces the whole, or an increment follows another day's.
    :param used: the highest generation that records were sent under, published or not; 0 if no record is visible
        before it is published.
    :param erased: the version of the stream's erase list in that step.
    :raises SupersededError: this is a snapshot, and the target shows one of a later day.
    :raises OvertakenError: somebody else has published since this attempt looked.
    """
    day = publish.day.date
    if publish.kind != "increment" and newest is not None and newest.day > day:
        raise superseded(publish, newest)
    if seen_in(newest, erased) != publish.manifest.seen:
        raise overtaken(publish, newest, erased)
    published = newest.generation if newest is not None and newest.day == day else 0
    return max(published, used) + 1


def seen_in(newest: LedgerRow | None, erased: int = 0) -> Seen:
    """Return what an attempt keeps of the newest publish and of the erase list, to compare it at the commit."""
    if newest is None:
        return Seen(erased=erased)
    return Seen(day=newest.day, generation=newest.generation, checks=newest.checks, erased=erased)


def require_definition(publish: Publish, in_force: DefinitionInForce | None) -> None:
    """Refuse a publish if the stream's definition has changed since its attempt looked. Pure.

    Called in the step that commits. The attempt then looks again, and compares its definition with the one in force.

    :raises OvertakenError: another definition than the attempt's own is in force, and the attempt did not see it.
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
    """Tell whether an answer is the published one, so that publishing it again would change nothing."""
    if newest is None or publish.answer is None or publish.kind != "day":
        return False
    return (newest.day, newest.answer) == (publish.day.date, publish.answer)


def confirmed(publish: Publish, newest: LedgerRow | None, erased: int = 0) -> LedgerRow:
    """Return a day's row as this publish confirms it. Pure; called wherever the sink confirms.

    The caller has looked before whether this intent itself is published already: that is no conflict.

    :param newest: the day's newest row, as the ledger has it in the step that confirms.
    :param erased: the version of the stream's erase list in that step.
    :raises OvertakenError: somebody else has published or confirmed the day since this attempt looked.
    """
    if newest is None or seen_in(newest, erased) != publish.manifest.seen or not is_unchanged(publish, newest):
        raise overtaken(publish, newest, erased)
    return newest.model_copy(
        update={
            "checks": newest.checks + 1,
            "token": publish.intent.token,
            "run": publish.intent.run,
            "clear_number": publish.intent.clear_number,
            "polled_at": publish.manifest.polled_at,
        }
    )


def superseded(publish: Publish, newest: LedgerRow) -> SupersededError:
    """Return the error for a snapshot of an earlier day than the one that the target shows."""
    return SupersededError(
        f"{publish.key} {publish.day}: a snapshot of {newest.day} is published already (generation "
        f"{newest.generation}); what {publish.intent.run} staged is older and stays unpublished"
    )


def overtaken(publish: Publish, newest: LedgerRow | None, erased: int = 0) -> OvertakenError:
    """Return the error for a publish, or an erase, that came between this attempt's look at the ledger and its commit.

    :param newest: that publish; None if the ledger has lost what was seen.
    :param erased: the version of the stream's erase list now.
    """
    where, seen = f"{publish.key} {publish.day}", publish.manifest.seen.generation
    if erased != publish.manifest.seen.erased:
        return OvertakenError(
            f"{where}: rows were erased since this attempt began to poll (version {erased} of the stream's erase "
            f"list); what {publish.intent.run} staged may hold them and stays unpublished",
            by=f"erase {erased}",
            is_erase=True,
        )
    if newest is None:
        return OvertakenError(f"{where}: generation {seen} was there before the poll, and the ledger has none now")
    mine = publish.intent
    is_later_clear = newest.run == mine.run and newest.clear_number > mine.clear_number
    did = "confirmed" if newest.checks else "published"
    of_day = "" if newest.day == publish.day.date else f" of {newest.day}"
    return OvertakenError(
        f"{where}: {newest.run or 'another run'} has {did} generation {newest.generation}{of_day} since this attempt "
        f"began to poll at generation {seen}; what {mine.run} staged may be the older answer and stays unpublished",
        by=newest.token,
        may_poll_again=not is_later_clear,
        is_erase=is_erase_run(newest.run),  # perhaps an older one, which took longer
    )


def row_of(publish: Publish, generation: int, **fields: Any) -> LedgerRow:
    """Return the ledger row of a publish that goes through.

    :param fields: what the sink knows better: ``rows``, ``counts``, ``reference``, ``link``.
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
