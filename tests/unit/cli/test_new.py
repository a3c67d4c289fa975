from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.cli.connectors import scaffold
from airflow_provider_connect.errors import ConfigError


def test_what_is_written_passes_the_test_beside_it(tmp_path: Path) -> None:
    written = [scaffold(kind, f"acme_{kind}", tmp_path) for kind in ("source", "sink")]
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


@pytest.mark.parametrize("name", ["Acme", "2acme", "acme-orders", "class", "../acme", "", "delta", "acme\n"])
def test_a_name_that_cannot_be_one_or_is_taken_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        scaffold("sink", name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    mine = tmp_path / "test_acme.py"
    mine.write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        scaffold("source", "acme", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]
    assert mine.read_text() == "mine"
