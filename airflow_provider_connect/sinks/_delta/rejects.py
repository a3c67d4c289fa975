"""What was set aside of a Delta table's days: the source's rejects, in files beside its attempts.

They stay as long as the attempts do: no sweep, no vacuum and no erase deletes those of a published attempt. Which
attempt published a generation is an application transaction, so it is known after the log was cleaned up. How many
rejects the ledger counted is in the commit's metadata alone, and leaves the log with them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

from airflow_provider_connect.sinks._delta.app_transactions import app_prefix
from airflow_provider_connect.sinks._delta.eraser import ERASE_PREFIX
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.stage.manifest import (
    CONTROL_FOLDER,
    Manifest,
    StagedFile,
    attempt_folder,
    day_of_attempt,
    manifest_file,
    require_own_files,
)
from airflow_provider_connect.stage.rejects import DayRejects, stored_source_rejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY

_ATTEMPTS = f"{CONTROL_FOLDER}/attempts"
_Answer = tuple[dt.date, int]
"""A day and the generation that published an answer of the source."""


def rejects_of(view: LedgerView, stage: Folder, first: dt.date, last: dt.date) -> Iterator[DayRejects]:
    """Yield what was set aside of each published day's newest answer.

    :param view: of the table whose log holds the ledger.
    :param stage: what the attempts lie under.
    """
    if not view.belongs_to_stream:
        return
    answers, counts, attempts = _answers(view), _counts(view), _setting_aside(view, stage)
    for day in (first + ONE_DAY * i for i in range((last - first).days + 1)):
        generation = answers.get(day)
        if generation is None:
            continue
        counted, attempt = counts.get((day, generation)), attempts.get((day, generation))
        if counted or attempt is not None:
            where = f"{stage.url}/{_ATTEMPTS}"
            records = () if attempt is None else stored_source_rejects(stage.url, _files(stage, attempt))
            yield DayRejects(day, generation, counted, where, records)


def _answers(view: LedgerView) -> dict[dt.date, int]:
    """Return of each published day the generation of its newest answer: an erase publishes rows that are there."""
    made: dict[dt.date, set[int]] = {}
    for attempt, generation in _attempts(view).items():
        day = day_of_attempt(attempt)
        if day is not None and attempt.startswith(ERASE_PREFIX):
            made.setdefault(day, set()).add(generation)
    found = {}
    for day in view.days():
        generation = view.transaction(day) or 0
        while generation in made.get(day, ()):
            generation -= 1
        found[day] = generation
    return found


def _counts(view: LedgerView) -> dict[_Answer, int]:
    """Return how many rejects each publish counted whose commit is still in the log."""
    found = {}
    mine = {"connect.connector": view.key.connector, "connect.stream": view.key.stream}
    for commit in view.commits:
        if mine.items() <= commit.items() and "connect.counts" in commit:
            day, generation = dt.date.fromisoformat(commit["connect.day"]), int(commit["connect.generation"])
            found[day, generation] = json.loads(commit["connect.counts"]).get("rejected", 0)
    return found


def _setting_aside(view: LedgerView, stage: Folder) -> dict[_Answer, str]:
    """Return which of the published attempts have files of rejects."""
    generations = _attempts(view)
    found = {}
    for entry in stage.files(_ATTEMPTS):
        attempt, _, name = entry.name.removeprefix(f"{_ATTEMPTS}/").partition("/")
        day, generation = day_of_attempt(attempt), generations.get(attempt, 0)
        if day is not None and generation > 0 and name.startswith("rejects-"):
            found[day, generation] = attempt
    return found


def _files(stage: Folder, attempt: str) -> list[StagedFile]:
    """Return an attempt's files of rejects, in the order of their partitions.

    A task that Spark ran twice has left two, of which the manifest names one. Without a manifest that can be read it is
    either: both hold the same, unless the source answered differently.
    """
    try:
        manifest = Manifest.model_validate_json(stage.read(manifest_file(attempt)))
        require_own_files(manifest.polled, manifest.day, attempt)
    except (FileNotFoundError, ValueError):
        names = sorted(entry.name for entry in stage.files(attempt_folder(attempt)) if "/rejects-" in entry.name)
        by_part = {name.rpartition("-")[0]: StagedFile(path=name, rows=0, size_bytes=0) for name in names}
        return list(by_part.values())
    return list(manifest.polled.rejects)


def _attempts(view: LedgerView) -> dict[str, int]:
    """Return each attempt of which the ledger knows what became, with the generation that it published."""
    prefix = f"{app_prefix(view.key)}attempt/"
    return {app.removeprefix(prefix): made for app, made in view.app_transactions.items() if app.startswith(prefix)}
