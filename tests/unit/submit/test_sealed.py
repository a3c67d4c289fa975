"""What can become of the two halves of connections on their way to a driver elsewhere."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.submit.sealed import MAX_AGE, delete_sealed, seal, unseal

SECRETS = ["it's", 'a "quote"', "100%", "{{ ds }}", "two\nlines", "x", "sécrèt✓", "$HOME `id` \\"]
CONNECTIONS = {"c": Connection(conn_id="c", host="api.example.com", password="canary")}


def half(folder: Path, attempt: str = "a-1") -> Path:
    return folder / "sealed" / attempt


@pytest.mark.parametrize("secret", SECRETS)
def test_neither_half_tells_anything_and_both_give_all(tmp_path: Path, secret: str) -> None:
    connections = {"c": Connection(conn_id="c", password=secret + "canary", extra={"token": secret})}
    sealed = seal(str(tmp_path), "a-1", connections)
    assert b"canary" not in half(tmp_path).read_bytes()
    assert b"canary" not in bytes.fromhex(sealed.pad)
    assert sealed.pad not in repr(sealed)
    assert unseal(sealed) == connections
    assert seal(str(tmp_path), "a-1", connections).pad != sealed.pad


def test_the_driver_leaves_nothing_of_what_it_has_read(tmp_path: Path) -> None:
    unseal(seal(str(tmp_path), "a-1", CONNECTIONS))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_host_that_somebody_changed_in_the_stage_gets_no_password(tmp_path: Path) -> None:
    sealed = seal(str(tmp_path), "a-1", CONNECTIONS)
    there = half(tmp_path).read_bytes()
    # Who knows the plain text of a place can write another one there without knowing the pad.
    plain = b'{"c": {"conn_id": "c", "conn_type": "", "host": "api.example.com"'
    wanted = b'{"c": {"conn_id": "c", "conn_type": "", "host": "evil.attack.org"'
    changed = bytes(a ^ b ^ c for a, b, c in zip(there, plain, wanted, strict=False))
    half(tmp_path).write_bytes(changed + there[len(changed) :])
    with pytest.raises(ConfigError, match=r"sealed/a-1 are not what the task wrote"):
        unseal(sealed)
    assert not half(tmp_path).exists()


@pytest.mark.parametrize("cut", [0, 1, 31, 32, 33, -1])
def test_a_half_that_was_cut_is_named(tmp_path: Path, cut: int) -> None:
    sealed = seal(str(tmp_path), "a-1", CONNECTIONS)
    half(tmp_path).write_bytes(half(tmp_path).read_bytes()[:cut])
    with pytest.raises(ConfigError, match=r"sealed/a-1 are not what the task wrote.*changed, cut or exchanged"):
        unseal(sealed)


def test_every_single_bit_counts(tmp_path: Path) -> None:
    sealed = seal(str(tmp_path), "a-1", CONNECTIONS)
    there = half(tmp_path).read_bytes()
    for place in range(len(there)):
        half(tmp_path).write_bytes(there[:place] + bytes([there[place] ^ 1]) + there[place + 1 :])
        with pytest.raises(ConfigError):
            unseal(sealed)


def test_the_half_of_another_attempt_is_refused(tmp_path: Path) -> None:
    first, second = (seal(str(tmp_path), attempt, CONNECTIONS) for attempt in ("a-1", "a-2"))
    half(tmp_path, "a-1").replace(half(tmp_path, "a-2"))
    with pytest.raises(ConfigError, match=r"sealed/a-2 are not what the task wrote"):
        unseal(second)
    half(tmp_path, "a-2").write_bytes(b"")
    moved = first.model_copy(update={"url": second.url})
    with pytest.raises(ConfigError, match="exchanged"):
        unseal(moved)


def test_a_half_that_is_gone_is_tried_again(tmp_path: Path) -> None:
    sealed = seal(str(tmp_path), "a-1", CONNECTIONS)
    unseal(sealed)
    with pytest.raises(RetriableError, match=r"sealed/a-1 are gone. Another driver of this attempt"):
        unseal(sealed)


@pytest.mark.parametrize("pad", ["", "no hex", "ab" * 32])
def test_the_job_file_s_half_is_named_when_it_cannot_be_read(tmp_path: Path, pad: str) -> None:
    sealed = seal(str(tmp_path), "a-1", CONNECTIONS).model_copy(update={"pad": pad})
    with pytest.raises(ConfigError, match="half of the connections that travels with the job file cannot be read"):
        unseal(sealed)


def test_what_dead_tasks_left_is_swept_and_what_may_still_be_read_stays(tmp_path: Path) -> None:
    dead, waiting = (seal(str(tmp_path), attempt, CONNECTIONS) for attempt in ("a-1", "a-2"))
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "a-1.json").touch()
    old = time.time() - MAX_AGE.total_seconds() - 3600
    for path in (half(tmp_path, "a-1"), tmp_path / "reports" / "a-1.json"):
        os.utime(path, (old, old))
    own = seal(str(tmp_path), "a-3", CONNECTIONS)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"a-2", "a-3"}
    assert unseal(waiting) == unseal(own) == CONNECTIONS
    delete_sealed(dead)


def test_a_sweep_counts_by_the_storage_s_clock(tmp_path: Path) -> None:
    seal(str(tmp_path), "a-1", CONNECTIONS)
    ahead = time.time() + 10 * MAX_AGE.total_seconds()
    os.utime(half(tmp_path), (ahead, ahead))
    seal(str(tmp_path), "a-2", CONNECTIONS)
    assert half(tmp_path).exists()
