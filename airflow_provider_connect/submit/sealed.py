"""Connections for a driver on another machine, split into two halves, encrypted and authenticated.

Either half alone is noise: one lies in the stage, the other travels with the job file.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import logging
import secrets

from airflow_provider_connect.connection import Connection, dump_connections, load_connections
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.job import SealedConnections
from airflow_provider_connect.stage.storage import Folder

MAX_AGE = dt.timedelta(days=7)
"""Longest wait of a sealed half for a driver. Older halves are swept."""

_KEY_BYTES = _SEAL_BYTES = 32
_log = logging.getLogger(__name__)


def seal(control: str, attempt: str, connections: dict[str, Connection]) -> SealedConnections:
    """Write the sealed half for the driver, and delete old ones of dead tasks.

    :param control: the stage's folder for sealed halves.
    """
    plain = dump_connections(connections)
    key, pad = secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(len(plain))
    hidden = _xor(plain, pad)
    name, folder = f"sealed/{attempt}", Folder(control)
    sealed = SealedConnections(url=f"{control}/{name}", pad=(key + pad).hex())
    folder.write(name, hidden + _make_seal(sealed.url, hidden, key))
    try:
        _sweep(folder, name)
    except ConnectError as error:
        # This must not stop the task; the next one sweeps again.
        _log.warning("sealed connections of dead tasks under %s could not be deleted: %s", control, error)
    return sealed


def unseal(sealed: SealedConnections) -> dict[str, Connection]:
    """Return the connections from both halves. The sealed half is deleted in any case.

    :raises RetriableError: the sealed half is missing.
    :raises ConfigError: a half was changed.
    """
    folder, name = _locate(sealed)
    try:
        sealed_bytes = folder.read(name)
    except FileNotFoundError:
        raise RetriableError(
            f"the sealed connections at {sealed.url} are gone. Another driver of this attempt has read them, or "
            "the stage was cleaned. The next try writes new ones"
        ) from None
    folder.delete(name)
    try:
        job_half = bytes.fromhex(sealed.pad)
    except ValueError:
        job_half = b""
    key, pad = job_half[:_KEY_BYTES], job_half[_KEY_BYTES:]
    if not pad:
        raise ConfigError(
            "the half of the connections that travels with the job file cannot be read. Check how the cluster ships "
            "files to its drivers"
        )
    hidden = sealed_bytes[:-_SEAL_BYTES]
    if not hmac.compare_digest(sealed_bytes[-_SEAL_BYTES:], _make_seal(sealed.url, hidden, key)) or len(hidden) != len(
        pad
    ):
        raise ConfigError(
            f"the sealed connections at {sealed.url} are not what the task wrote, so none is used. They "
            "were changed, cut or exchanged. Find out who else can write to that folder"
        )
    return load_connections(_xor(hidden, pad))


def delete_sealed(sealed: SealedConnections) -> None:
    """Delete a sealed half that no driver has read."""
    folder, name = _locate(sealed)
    folder.delete(name)


def _sweep(folder: Folder, new_name: str) -> None:
    entries = [*folder.files("sealed"), *folder.files("reports")]
    storage_time = next((entry.modified for entry in entries if entry.name == new_name), None)
    for entry in entries:
        if storage_time is not None and storage_time - entry.modified > MAX_AGE:
            folder.delete(entry.name)


def _locate(sealed: SealedConnections) -> tuple[Folder, str]:
    folder_url, _, name = sealed.url.rpartition("/")
    return Folder(folder_url), name


def _make_seal(url: str, hidden: bytes, key: bytes) -> bytes:
    return hmac.digest(key, url.encode() + b"\0" + hidden, hashlib.sha256)


def _xor(text: bytes, pad: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))
