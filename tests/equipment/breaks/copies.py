"""Copies of this tree in which a break is put. The checkout itself is never changed.

A copy has an environment of its own: links to all that is installed, without the line that makes the checkout
importable. So every interpreter that tests start (subprocesses, Spark's driver and executors) imports the broken
package or none.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.equipment.breaks.breaks import PACKAGE, ROOT, Break

COPIED = ("airflow_provider_connect", "tests", "docs", "dags")
_FILES = ("pyproject.toml", "constraints.txt", "Makefile", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore")
_EDITABLE = "_editable_impl_airflow_provider_connect"


def tree_digest() -> str:
    """Return a digest of package and tests, without the list of breaks and what runs it."""
    digest, own = hashlib.sha256(), (Path(__file__).parent, ROOT / "tests" / "unit" / "equipment")
    for path in sorted(path for top in ("airflow_provider_connect", "tests") for path in (ROOT / top).rglob("*")):
        if path.is_file() and path.suffix != ".pyc" and path.parent not in own:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


class Copy:
    """One copy of the tree, made anew."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in COPIED:
            # Compiled files go along: their sources keep their times.
            shutil.copytree(ROOT / name, folder / name, symlinks=True)
        for name in _FILES:
            shutil.copy2(ROOT / name, folder / name)
        self._make_environment()
        self._require_own()

    @property
    def python(self) -> Path:
        """The interpreter that imports this copy."""
        return self.root / ".venv" / "bin" / "python"

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of this copy's processes."""
        own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        scripts = sysconfig.get_path("scripts")
        others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != scripts]
        paths = os.pathsep.join([str(self.python.parent), *others])
        return own | {"PATH": paths, "VIRTUAL_ENV": str(self.root / ".venv")}

    @contextmanager
    def broken(self, fault: Break) -> Iterator[None]:
        """Put a break into this copy while the block runs."""
        path, source = fault.applied(self.root / PACKAGE.name)
        before = path.read_text(encoding="utf-8")
        try:
            self._write(path, source)
            yield
        finally:
            self._write(path, before)

    @staticmethod
    def _write(path: Path, source: str) -> None:
        path.write_text(source, encoding="utf-8")
        # Python tells a stale compiled file by the second alone.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def _make_environment(self) -> None:
        own, base = self.root / ".venv", Path(sys.prefix)
        packages = Path(sysconfig.get_path("purelib"))
        mine = own / packages.relative_to(base)
        mine.mkdir(parents=True)
        for entry in packages.iterdir():
            if not entry.name.startswith((_EDITABLE, "__editable__", "__pycache__")):
                (mine / entry.name).symlink_to(entry)
        (mine / f"{_EDITABLE}.pth").write_text(f"{self.root}\n", encoding="utf-8")
        shutil.copy2(base / "pyvenv.cfg", own / "pyvenv.cfg")
        (own / "bin").mkdir()
        for entry in Path(sysconfig.get_path("scripts")).iterdir():
            copy = own / "bin" / entry.name
            if entry.is_symlink():
                copy.symlink_to(entry.readlink())
            elif entry.is_file():
                copy.write_bytes(entry.read_bytes().replace(os.fsencode(base), os.fsencode(own)))
                copy.chmod(entry.stat().st_mode)

    def _require_own(self) -> None:
        code = "import airflow_provider_connect, tests; print(airflow_provider_connect.__file__, tests.__file__)"
        # From another folder, as Spark's executors are started.
        printed = subprocess.run(
            [self.python, "-c", code], cwd="/", env=self.environ, capture_output=True, text=True, check=True
        ).stdout.split()
        if not all(Path(path).is_relative_to(self.root) for path in printed):
            raise RuntimeError(f"the copy in {self.root} does not import itself, but {printed}")
