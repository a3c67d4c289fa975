"""A disk that really gets full: a small tmpfs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE_BYTES = 4096


@dataclass
class Disk:
    """A small disk that can be filled."""

    path: Path

    def fill(self, free_pages: int = 0) -> None:
        """Leave ``free_pages`` pages of 4 KiB; every file takes whole pages."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / "filler").unlink()
        free = os.statvfs(self.path)
        assert free.f_frsize == PAGE_BYTES
        (self.path / "filler").write_bytes(b"\0" * PAGE_BYTES * (free.f_bavail - free_pages))

    def make_room(self) -> None:
        (self.path / "filler").unlink()


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Disk]:
    """Mount a disk of a size such as ``2m`` at a new folder; nobody may use it when the block ends."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "connect-test", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode and "CI" not in os.environ and os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    assert mounted.returncode == 0, mounted.stderr
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", path], check=True)
