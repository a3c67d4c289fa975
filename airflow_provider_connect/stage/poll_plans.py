"""What a try leaves of a day that it reads in many partitions: its plan, and a record of each that is whole.

The next try of the same intent may go on from there. It plans the same partitions, gives the files of those that are
whole a second name, under its own attempt, and reads the rest. So every attempt owns its files alone: an earlier driver
that still lives, and an executor of it, write under their own names and are in nobody's way, and whoever publishes
first, the other's files are none of its. Beside the files of :mod:`.manifest` lie then ::

    _connect/attempts/<attempt>/plan.json           written before the first partition is read
    _connect/attempts/<attempt>/part-<part>.json    written by the driver once the partition's files are whole
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
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
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

PLAN_NAME = "plan.json"
_AT_ONCE = 8
"""How many files are read or copied at a time: in a store each takes a round trip."""


class PollPlan(Wire):
    """The partitions of a day, in which an attempt reads it.

    :param identity: digest of all that decides which rows a partition has, and what they look like.
    :param seen: read before the poll, as the manifest has it.
    :param begun: when the first try of those that share the plan began to poll, UTC.
    :param resumes: whether a later try may go on with it. If not, the plan only says that there was one.
    :param parts: the partitions as plain JSON, each by its index.
    :param taken: what was taken over from an earlier try, by the partition's index. The files are this attempt's own.
    :param follows: the attempts from which it was taken over, the last one first.
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
        """Read the plan that an attempt left.

        Others may write into a shared stage. So it names its own attempt's files only, and what its partitions say is
        for the source to judge.

        :raises ValueError: this version does not write such a plan, or it belongs to another attempt.
        """
        found = cls.model_validate_json(text)
        if (found.day, found.attempt) != (day, attempt) or not ATTEMPT_PATTERN.fullmatch(attempt):
            raise ValueError("it is the plan of another day or attempt")
        for index, polled in found.taken.items():
            _require_part(found, index, polled)
        return found

    def write(self, root: Folder) -> None:
        """Write the plan; it survives a power cut."""
        root.write(plan_file(self.attempt), self.model_dump_json().encode(), durable=True)


class PartRecord(Wire):
    """One partition that is whole: what was asked for, and what came."""

    part: dict[str, Any]
    polled: PollResult


def plan_file(attempt: str) -> str:
    """Return the path of an attempt's plan, relative to the stage root."""
    return f"{attempt_folder(attempt)}/{PLAN_NAME}"


def part_record_file(attempt: str, part: int) -> str:
    """Return the path of the record of a partition, relative to the stage root."""
    return f"{attempt_folder(attempt)}/part-{part:05d}.json"


def plan_file_prefixes(attempt: str) -> tuple[str, ...]:
    """Return what the names of an attempt's plan and records begin with: nobody needs them once it is published."""
    return plan_file(attempt), f"{attempt_folder(attempt)}/part-"


def write_part_record(root: Folder, plan: PollPlan, part_index: int, polled: PollResult) -> None:
    """Write the record of a partition whose files are whole."""
    record = PartRecord(part=plan.parts[part_index], polled=polled)
    root.write(part_record_file(plan.attempt, part_index), record.model_dump_json().encode(), durable=True)


def complete_parts(root: Folder, plan: PollPlan, file_names: Collection[str]) -> dict[int, PollResult]:
    """Return what an attempt read to the end, by the partition's index: its own, and what it had taken over.

    A record that is none of this plan's is left out: its partition is read again.

    :param names: those of the files in the attempt's folder.
    """
    there = [part for part in plan.parts if part_record_file(plan.attempt, part) in file_names]

    def polled(part: int) -> PollResult | None:
        try:
            found = PartRecord.model_validate_json(root.read(part_record_file(plan.attempt, part)))
            _require_part(plan, part, found.polled)
        except (FileNotFoundError, ValueError):
            return None
        return found.polled if found.part == plan.parts[part] else None

    with ThreadPoolExecutor(_AT_ONCE, "records") as pool:
        read = {part: found for part, found in zip(there, pool.map(polled, there), strict=True) if found}
    return plan.taken | read


def take_over_parts(root: Folder, day: Day, attempt: str, parts: dict[int, PollResult]) -> dict[int, PollResult]:
    """Give the files of partitions a second name, as those of an attempt; return the partitions with these.

    Left out are those whose files are gone or have another size.
    """
    copy = secrets.token_hex(4)
    named = {index: _renamed(polled, day, attempt, index, copy) for index, polled in parts.items()}
    pairs = [
        (old.path, new)
        for index, polled in parts.items()
        for old, new in zip(_files(polled), _files(named[index]), strict=True)
    ]

    def copied(pair: tuple[str, StagedFile]) -> bool:
        try:
            root.copy(pair[0], pair[1].path)
        except FileNotFoundError:
            return False
        return True

    with ThreadPoolExecutor(_AT_ONCE, "take-over") as pool:
        there = [new for (_, new), is_there in zip(pairs, pool.map(copied, pairs), strict=True) if is_there]
    entries = root.entries([file.path for file in there])
    root.sync(entries)
    right = {file.path for file in there if file.path in entries and entries[file.path].size_bytes == file.size_bytes}
    return {index: polled for index, polled in named.items() if right.issuperset(f.path for f in _files(polled))}


def discard_staged_answer(root: Folder, manifest: Manifest) -> None:
    """Have the next try poll a day again, all of it: the answer was read whole, and may have been a passing fault."""
    root.delete(manifest_file(manifest.attempt))
    try:
        plan = PollPlan.read(root.read(plan_file(manifest.attempt)), manifest.day, manifest.attempt)
    except (FileNotFoundError, ValueError):
        return
    for attempt in (*plan.follows, plan.attempt):
        root.delete(plan_file(attempt))


def _files(polled: PollResult) -> Iterator[StagedFile]:
    yield from polled.files
    yield from polled.rejects


def _renamed(polled: PollResult, day: Day, attempt: str, index: int, copy: str) -> PollResult:
    """Return what a partition brought as an attempt's own: with new names, and without the time it took."""
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
    """Refuse what names files of another attempt or another partition.

    :raises ValueError: it does.
    """
    require_own_files(polled, plan.day, plan.attempt)
    own = rf"-{index:05d}-[0-9a-z]+\.parquet"
    if index not in plan.parts or any(re.search(f"{own}$", file.path) is None for file in _files(polled)):
        raise ValueError("it names a file that is not this partition's")
