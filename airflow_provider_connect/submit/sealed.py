"""Connections on their way to a driver on another machine: in two halves, hidden and authenticated.

The sealed half lies in the stage, where others may read and perhaps write. The other half, a one-time pad and a
one-time key, goes with the job file. Either half alone is noise. A sealed half is refused if a single bit of it was
changed, so nobody who can write to the stage can have a password sent to a host of their own. Only the standard library
is used, as the driver's machine may have no other cryptography.
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
"""How long a sealed half may wait for a driver that stands in a cluster's queue; older ones are swept."""

_KEY_BYTES = _SEAL_BYTES = 32
_log = logging.getLogger(__name__)


def seal(control: str, attempt: str, connections: dict[str, Connection]) -> SealedConnections:
    """Leave the sealed half where the driver finds it, and sweep what dead tasks left there.

    :param control: path or URL of the stage's folder for such files.
    :param attempt: a name that no other attempt has.
    """
    plain = dump_connections(connections)
    key, pad = secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(len(plain))
    hidden = _xor(plain, pad)
    name, folder = f"sealed/{attempt}", Folder(control)
    sealed = SealedConnections(url=f"{control}/{name}", pad=(key + pad).hex())
    folder.write(name, hidden + _seal_of(sealed.url, hidden, key))
    try:
        _sweep(folder, name)
    except ConnectError as error:
        # This must not stop the task; the next one sweeps again.
        _log.warning("what dead tasks left under %s could not be swept: %s", control, error)
    return sealed


def unseal(sealed: SealedConnections) -> dict[str, Connection]:
    """Join the halves, and delete the sealed one whatever it holds.

    :raises RetriableError: if it is gone.
    :raises ConfigError: if either half is not as the task made it.
    """
    folder, name = _place(sealed)
    try:
        found = folder.read(name)
    except FileNotFoundError:
        raise RetriableError(
            f"the sealed connections at {sealed.url} are gone: another driver of this attempt has read them, or "
            "somebody has cleaned the stage; the next try writes new ones"
        ) from None
    folder.delete(name)
    try:
        other = bytes.fromhex(sealed.pad)
    except ValueError:
        other = b""
    key, pad = other[:_KEY_BYTES], other[_KEY_BYTES:]
    if not pad:
        raise ConfigError(
            "the half of the connections that travels with the job file cannot be read: check how the cluster ships "
            "files to its drivers"
        )
    hidden = found[:-_SEAL_BYTES]
    if not hmac.compare_digest(found[-_SEAL_BYTES:], _seal_of(sealed.url, hidden, key)) or len(hidden) != len(pad):
        raise ConfigError(
            f"the sealed connections at {sealed.url} are not what the task wrote there, so none of them is used: they "
            "were changed, cut or exchanged; find out who else can write to that place"
        )
    return load_connections(_xor(hidden, pad))


def delete_sealed(sealed: SealedConnections) -> None:
    """Delete a sealed half that no driver has read."""
    folder, name = _place(sealed)
    folder.delete(name)


def _sweep(folder: Folder, own: str) -> None:
    """Delete halves and reports that are much older than the half just written, by the storage's own clock."""
    entries = [*folder.files("sealed"), *folder.files("reports")]
    now = next((entry.modified for entry in entries if entry.name == own), None)
    for entry in entries:
        if now is not None and now - entry.modified > MAX_AGE:
            folder.delete(entry.name)


def _place(sealed: SealedConnections) -> tuple[Folder, str]:
    place, _, name = sealed.url.rpartition("/")
    return Folder(place), name


def _seal_of(url: str, hidden: bytes, key: bytes) -> bytes:
    return hmac.digest(key, url.encode() + b"\0" + hidden, hashlib.sha256)


def _xor(text: bytes, pad: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(text, pad, strict=True))
