"""The source's rejected records of a Delta table's days, in files of the attempts that polled them.

No sweep, vacuum or erase deletes a published attempt's rejects. A transaction names each generation's attempt for good.
The number of rejects is only in the commit's metadata, which the log's clean-up deletes.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterator

from airflow_provider_connect.sinks._delta.app_transactions import app_prefix
from airflow_provider_connect.sinks._delta.eraser import ERASE_PREFIX
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.slots import FILE_SUFFIX
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
_Answer = tuple[dt.date, int, int]
"""A day, the number of an increment's span or 0, and the generation that published an answer of the source."""


def rejects_of(view: LedgerView, stage: Folder, first: dt.date, last: dt.date) -> Iterator[DayRejects]:
    """Yield the rejects of each published day's newest answer.

    :param stage: the attempts' folder.
    """
    if not view.belongs_to_stream:
        return
    answers, counts, attempts = _answer_generations(view), _reject_counts(view), _attempts_with_rejects(view, stage)
    location = f"{stage.url}/{_ATTEMPTS}"
    for day in (first + ONE_DAY * i for i in range((last - first).days + 1)):
        found = [
            (answer[2], counts.get(answer), attempts.get(answer))
            for answer in answers.get(day, ())
            if counts.get(answer) or answer in attempts
        ]
        if found:
            generations, counted, names = zip(*found, strict=True)
            files = [_reject_files(stage, attempt) for attempt in names if attempt is not None]
            records = itertools.chain.from_iterable(stored_source_rejects(stage.url, each) for each in files)
            total = None if None in counted else sum(filter(None, counted))
            yield DayRejects(day, max(generations), total, location, records if files else ())


def _answer_generations(view: LedgerView) -> dict[dt.date, list[_Answer]]:
    """Return by day the newest generation that a poll published, of each span of increments.

    Skips generations that an erase published.
    """
    erase_generations: set[_Answer] = set()
    for attempt, generation in _published_attempts(view).items():
        day = day_of_attempt(attempt)
        if day is not None and attempt.startswith(ERASE_PREFIX):
            erase_generations.add((day, _number_of_attempt(view, day, attempt), generation))
    answers: dict[dt.date, list[_Answer]] = {}
    for day in view.days():
        for slot in view.slots_of(day):
            generation = view.transaction(day, slot.suffix) or 0
            while (day, slot.number, generation) in erase_generations:
                generation -= 1
            answers.setdefault(day, []).append((day, slot.number, generation))
    return answers


def _number_of_attempt(view: LedgerView, day: dt.date, attempt: str) -> int:
    """Return the number of the span that an attempt published. 0 if the day is no increment."""
    slots = view.slots_of(day)
    of_attempt = [slot for slot in slots if view.transaction(day, f"{slot.suffix}{FILE_SUFFIX}{attempt}") is not None]
    return next((slot.number for slot in (*of_attempt, *slots)), 0)


def _reject_counts(view: LedgerView) -> dict[_Answer, int]:
    counts = {}
    stream_metadata = {"connect.connector": view.key.connector, "connect.stream": view.key.stream}
    for commit in view.commits:
        if stream_metadata.items() <= commit.items() and "connect.counts" in commit:
            day, generation = dt.date.fromisoformat(commit["connect.day"]), int(commit["connect.generation"])
            span = json.loads(commit["connect.span"]) if commit.get("connect.span", "None") != "None" else {}
            counts[day, span.get("number", 0), generation] = json.loads(commit["connect.counts"]).get("rejected", 0)
    return counts


def _attempts_with_rejects(view: LedgerView, stage: Folder) -> dict[_Answer, str]:
    generations = _published_attempts(view)
    attempts = {}
    for entry in stage.files(_ATTEMPTS):
        attempt, _, name = entry.name.removeprefix(f"{_ATTEMPTS}/").partition("/")
        day, generation = day_of_attempt(attempt), generations.get(attempt, 0)
        if day is not None and generation > 0 and name.startswith("rejects-"):
            attempts[day, _number_of_attempt(view, day, attempt), generation] = attempt
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
