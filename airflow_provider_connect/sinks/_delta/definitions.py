"""Definitions (options that decide a day's rows) and notes of a Delta table's stream.

The log holds the definitions' digests as transactions. Files beside the log hold the notes.

``…/<day>/definition`` is a day's, and ``…/<day>/definition/of`` the generation that it describes: older packages leave
both unchanged. ``…/definition`` and ``…/definition/task`` are of the stream's newest publish, written only when they
change, so that publishes of different days do not refuse each other.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.publishing import require_definition
from airflow_provider_connect.sink import DefinitionInForce, Publish
from airflow_provider_connect.stage.definition import DIGEST_BITS
from airflow_provider_connect.stage.erase_list import is_erase_run
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER
from airflow_provider_connect.stage.notes import LedgerNote, NoteKind
from airflow_provider_connect.stage.storage import Folder

NOTES_FOLDER = f"{CONTROL_FOLDER}/notes"
_NOTE = ".json"
_OF_DAY, _GENERATION, _IN_FORCE, _TASK = "/definition", "/definition/of", "definition", "definition/task"


def in_force_transactions(publish: Publish, app_transactions: Mapping[str, int], prefix: str) -> dict[str, int]:
    """Return the transactions of a publish's definition and task, or {} if recorded.

    :raises OvertakenError: another definition was recorded since the attempt read the ledger.
    """
    require_definition(publish, definition_in_force(app_transactions, prefix))
    if publish.definition is None:
        return {}
    digest, task = int(publish.definition, 16), int(publish.intent.task_digest, 16)
    new_transactions = {f"{prefix}{_IN_FORCE}": digest, f"{prefix}{_TASK}": task}
    return (
        new_transactions
        if any(app_transactions.get(app) != version for app, version in new_transactions.items())
        else {}
    )


def day_definition_transactions(
    publish: Publish, generation: int, app_transactions: Mapping[str, int], app: str
) -> dict[str, int]:
    """Return the transactions that record the definition of a day's generation. An erase keeps the earlier one.

    :param app: the day's application id.
    """
    if publish.definition is not None:
        return {f"{app}{_OF_DAY}": int(publish.definition, 16), f"{app}{_GENERATION}": generation}
    is_carried = is_erase_run(publish.intent.run) and definition_of_day(app_transactions, app) is not None
    return {f"{app}{_GENERATION}": generation} if is_carried else {}


def definition_of_day(app_transactions: Mapping[str, int], app: str) -> str | None:
    """Return the definition digest of a day's newest generation, or None.

    :param app: the day's application id.
    """
    is_newest = app_transactions.get(f"{app}{_GENERATION}") == app_transactions.get(app)
    return _digest(app_transactions.get(f"{app}{_OF_DAY}")) if is_newest else None


def definition_in_force(app_transactions: Mapping[str, int], prefix: str) -> DefinitionInForce | None:
    """Return definition and task of the stream's newest publish, or None."""
    digest, task = (
        _digest(app_transactions.get(f"{prefix}{_IN_FORCE}")),
        _digest(app_transactions.get(f"{prefix}{_TASK}")),
    )
    return None if digest is None or task is None else DefinitionInForce(digest, task)


def _digest(version: int | None) -> str | None:
    return None if version is None else f"{version:0{DIGEST_BITS // 4}x}"


def read_notes(folder: Folder) -> list[LedgerNote]:
    """Return the notes beside a table but for positions. Skips files that are still written.

    :raises ConfigError: a file is not a note.
    """
    names = [file.name for file in folder.files(NOTES_FOLDER) if file.name.endswith(_NOTE)]
    return [_note(folder, name) for name in names if not name.startswith(_note_name("position", ""))]


def read_position(folder: Folder, note_id: str) -> LedgerNote | None:
    """Return the note with a long position, or None."""
    name = _note_name("position", note_id) + _NOTE
    return _note(folder, name) if folder.exists(name) else None


def _note_name(kind: NoteKind, note_id: str) -> str:
    return f"{NOTES_FOLDER}/{kind}-{note_id}"


def _note(folder: Folder, name: str) -> LedgerNote:
    try:
        return LedgerNote.model_validate_json(folder.read(name))
    except ValueError:
        raise ConfigError(
            f"{folder.url}/{name} is not a note of this version: it was changed by hand, or a later version wrote it. "
            "Restore it, or update this package"
        ) from None


def write_note(folder: Folder, note: LedgerNote) -> None:
    """Write a note beside a table, unless it exists, and flush it to the disk."""
    name = _note_name(note.kind, note.id) + _NOTE
    if not folder.exists(name):
        folder.write(name, note.model_dump_json().encode(), durable=True)
