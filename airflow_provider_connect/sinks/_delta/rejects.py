"""The source's rejected records of a Delta table's days, in files of the attempts that polled them.

No sweep, vacuum or erase deletes a published attempt's rejects. A transaction names each generation's attempt for good.
The number of rejects is only in the commit's metadata, which the log's clean-up deletes.
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
"""A day and a generation."""


def rejects_of(view: LedgerView, stage: Folder, first: dt.date, last: dt.date) -> Iterator[DayRejects]:
    """Yield the rejects of each published day's newest answer.

    :param stage: the attempts' folder.
    """
    if not view.belongs_to_stream:
        return
    answers, counts, attempts = _answer_generations(view), _reject_counts(view), _attempts_with_rejects(view, stage)
    for day in (first + ONE_DAY * i for i in range((last - first).days + 1)):
        generation = answers.get(day)
        if generation is None:
            continue
        counted, attempt = counts.get((day, generation)), attempts.get((day, generation))
        if counted or attempt is not None:
            location = f"{stage.url}/{_ATTEMPTS}"
            records = () if attempt is None else stored_source_rejects(stage.url, _reject_files(stage, attempt))
            yield DayRejects(day, generation, counted, location, records)


def _answer_generations(view: LedgerView) -> dict[dt.date, int]:
    """Return each day's newest generation that a poll published, not an erase."""
    erase_generations: dict[dt.date, set[int]] = {}
    for attempt, generation in _published_attempts(view).items():
        day = day_of_attempt(attempt)
        if day is not None and attempt.startswith(ERASE_PREFIX):
            erase_generations.setdefault(day, set()).add(generation)
    answers = {}
    for day in view.days():
        generation = view.transaction(day) or 0
        while generation in erase_generations.get(day, ()):
            generation -= 1
        answers[day] = generation
    return answers


def _reject_counts(view: LedgerView) -> dict[_Answer, int]:
    counts = {}
    stream_metadata = {"connect.connector": view.key.connector, "connect.stream": view.key.stream}
    for commit in view.commits:
        if stream_metadata.items() <= commit.items() and "connect.counts" in commit:
            day, generation = dt.date.fromisoformat(commit["connect.day"]), int(commit["connect.generation"])
            counts[day, generation] = json.loads(commit["connect.counts"]).get("rejected", 0)
    return counts


def _attempts_with_rejects(view: LedgerView, stage: Folder) -> dict[_Answer, str]:
    generations = _published_attempts(view)
    attempts = {}
    for entry in stage.files(_ATTEMPTS):
        attempt, _, name = entry.name.removeprefix(f"{_ATTEMPTS}/").partition("/")
        day, generation = day_of_attempt(attempt), generations.get(attempt, 0)
        if day is not None and generation > 0 and name.startswith("rejects-"):
            attempts[day, generation] = attempt
    return attempts


def _reject_files(stage: Folder, attempt: str) -> list[StagedFile]:
    """Return an attempt's files of rejects, ordered by partition.

    Spark may have written two for a partition. Without a readable manifest, returns either.
    """
    try:
        manifest = Manifest.model_validate_json(stage.read(manifest_file(attempt)))
        require_own_files(manifest.polled, manifest.day, attempt)
    except (FileNotFoundError, ValueError):
        names = sorted(entry.name for entry in stage.files(attempt_folder(attempt)) if "/rejects-" in entry.name)
        by_part = {name.rpartition("-")[0]: StagedFile(path=name, rows=0, size_bytes=0) for name in names}
        return list(by_part.values())
    return list(manifest.polled.rejects)


def _published_attempts(view: LedgerView) -> dict[str, int]:
    prefix = f"{app_prefix(view.key)}attempt/"
    return {
        app.removeprefix(prefix): generation
        for app, generation in view.app_transactions.items()
        if app.startswith(prefix)
    }
