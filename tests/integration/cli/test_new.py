"""What `connect new` writes passes the tests that it writes, in a project of a stranger's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.cli.connectors import write_scaffold

pytestmark = pytest.mark.slow


def test_a_scaffold_passes_its_own_test(tmp_path: Path) -> None:
    written = [write_scaffold(kind, f"acme_{kind}", tmp_path) for kind in ("source", "sink")]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", *(test.name for _, test in written)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    for _, test in written:
        assert f"PASSED {test.name}::" in run.stdout
    lint = subprocess.run(
        [
            *(Path(sys.executable).with_name("ruff"), "check", "--isolated", "--line-length=120"),
            *(str(module) for module, _ in written),
        ],
        check=False,
        capture_output=True,
    )
    assert lint.returncode == 0, lint.stdout
