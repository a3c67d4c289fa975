"""The plan of a day that is polled in many partitions, and a record of each complete partition.

The next try of the same intent may continue from them. The files lie next to those of :mod:`.manifest` ::

    _connect/attempts/<attempt>/plan.json           written before the first partition is read
    _connect/attempts/<attempt>/part-<part>.json    written by the driver once the partition's files are complete
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Collection, Iterator
from typing import Any, Self

from pydantic import Field

from airflow_provider_connect.stage.manifest import (
    ATTEMPT_PATTERN,
    TABLE_FILE_PATTERN,
    Manifest,
    PollResult,
    SeenPublish,
    StagedFile,
    attempt_folder,
    data_file,
    manifest_file,
    rejects_file,
    require_own_files,
)
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.together import call_together
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

PLAN_NAME = "plan.json"


class PollPlan(Wire):
    """The partitions in which an attempt polls a day.

    :param identity: digest of everything that decides the rows and the format of a partition.
    :param seen: the newest publish before the poll.
    :param begun: start of the first poll among the tries that share the plan, UTC.
    :param resumes: whether a later try may continue.
    :param parts: the partitions as plain JSON, by index.
    :param taken: results from earlier tries, by index. Their files belong to this attempt.
    :param follows: attempts that gave these results, the latest first.
    """

    day: Day
    attempt: str
    identity: str
    seen: SeenPublish
    begun: dt.datetime
    resumes: bool
    parts: dict[int, dict[str, Any]]
    taken: dict[int, PollResult] = Field(default_factory=dict)
    follows: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: bytes, day: Day, attempt: str) -> Self:
        """Read the plan of an attempt, as :meth:`.Manifest.read`.

        :raises ValueError: no plan of this version, day and attempt.
        """
        plan = cls.model_validate_json(text)
        if (plan.day, plan.attempt) != (day, attempt) or not ATTEMPT_PATTERN.fullmatch(attempt):
            raise ValueError("the plan belongs to another day or attempt")
        for index, polled in plan.taken.items():
            _require_part(plan, index, polled)
        return plan

    def write(self, root: Folder) -> None:
        """Write the plan so that it survives a power cut."""
        root.write(plan_file(self.attempt), self.model_dump_json().encode(), durable=True)


class PartRecord(Wire):
    """A complete partition and its result."""

    part: dict[str, Any]
    polled: PollResult


def plan_file(attempt: str) -> str:
    """Return the path of an attempt's plan."""
    return f"{attempt_folder(attempt)}/{PLAN_NAME}"


def part_record_file(attempt: str, part: int) -> str:
    """Return the path of a partition's record."""
    return f"{attempt_folder(attempt)}/part-{part:05d}.json"


def plan_file_prefixes(attempt: str) -> tuple[str, ...]:
    """Return the path prefixes of an attempt's plan and records."""
    return plan_file(attempt), f"{attempt_folder(attempt)}/part-"


def write_part_record(root: Folder, plan: PollPlan, part_index: int, polled: PollResult) -> None:
    """Write the record of a complete partition."""
    record = PartRecord(part=plan.parts[part_index], polled=polled)
    root.write(part_record_file(plan.attempt, part_index), record.model_dump_json().encode(), durable=True)


def complete_parts(root: Folder, plan: PollPlan, file_names: Collection[str]) -> dict[int, PollResult]:
    """Return the results of an attempt's complete partitions by index, including those from earlier tries.

    Skips unfit records.
    """
    recorded_parts = [part for part in plan.parts if part_record_file(plan.attempt, part) in file_names]

    def read_record(part: int) -> PollResult | None:
        try:
            record = PartRecord.model_validate_json(root.read(part_record_file(plan.attempt, part)))
            _require_part(plan, part, record.polled)
        except (FileNotFoundError, ValueError):
            return None
        return record.polled if record.part == plan.parts[part] else None

    results = call_together(root, read_record, recorded_parts)
    return plan.taken | {part: result for part, result in zip(recorded_parts, results, strict=True) if result}


def take_over_parts(root: Folder, day: Day, attempt: str, parts: dict[int, PollResult]) -> dict[int, PollResult]:
    """Give the files of partitions a second name under ``attempt``. Returns the renamed partitions.

    Leaves out partitions whose files are missing or have another size.
    """
    copy = secrets.token_hex(4)
    renamed_parts = {index: _rename_files(polled, day, attempt, index, copy) for index, polled in parts.items()}
    pairs = [
        (old.path, new)
        for index, polled in parts.items()
        for old, new in zip(_files_of(polled), _files_of(renamed_parts[index]), strict=True)
    ]

    def copy_file(pair: tuple[str, StagedFile]) -> bool:
        try:
            root.copy(pair[0], pair[1].path)
        except FileNotFoundError:
            return False
        return True

    are_copied = call_together(root, copy_file, pairs)
    copied_files = [new for (_, new), is_copied in zip(pairs, are_copied, strict=True) if is_copied]
    entries = root.entries([file.path for file in copied_files])
    root.sync(entries)
    intact_paths = {
        file.path for file in copied_files if file.path in entries and entries[file.path].size_bytes == file.size_bytes
    }
    return {
        index: polled
        for index, polled in renamed_parts.items()
        if intact_paths.issuperset(f.path for f in _files_of(polled))
    }


def discard_staged_answer(root: Folder, manifest: Manifest) -> None:
    """Delete a day's manifest and plans, so that the next try polls the day again."""
    root.delete(manifest_file(manifest.attempt))
    try:
        plan = PollPlan.read(root.read(plan_file(manifest.attempt)), manifest.day, manifest.attempt)
    except (FileNotFoundError, ValueError):
        return
    for attempt in (*plan.follows, plan.attempt):
        root.delete(plan_file(attempt))


def _files_of(polled: PollResult) -> Iterator[StagedFile]:
    yield from polled.files
    yield from polled.rejects


def _rename_files(polled: PollResult, day: Day, attempt: str, index: int, copy: str) -> PollResult:
    files = []
    for file in polled.files:
        match = TABLE_FILE_PATTERN.fullmatch(file.path)
        head = f"{match['table']}/" if match else ""
        files.append(file.model_copy(update={"path": head + data_file(day, attempt, index, copy)}))
    rejects = [
        file.model_copy(update={"path": rejects_file(attempt, index, f"{copy}{number}" if number else copy)})
        for number, file in enumerate(polled.rejects)
    ]
    update = {"files": tuple(files), "rejects": tuple(rejects), "retries": 0, "seconds": 0.0}
    return polled.model_copy(update=update)


def _require_part(plan: PollPlan, index: int, polled: PollResult) -> None:
    require_own_files(polled, plan.day, plan.attempt)
    own_suffix = rf"-{index:05d}-[0-9a-z]+\.parquet"
    if index not in plan.parts or any(re.search(f"{own_suffix}$", file.path) is None for file in _files_of(polled)):
        raise ValueError("a file is not this partition's")
