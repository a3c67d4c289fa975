from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.cli.connectors import write_scaffold
from airflow_provider_connect.errors import ConfigError


@pytest.mark.parametrize("name", ["Acme", "2acme", "acme-orders", "class", "../acme", "", "delta", "acme\n"])
def test_a_name_that_cannot_be_one_or_is_taken_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        write_scaffold("sink", name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_existing_file_stays(tmp_path: Path) -> None:
    mine = tmp_path / "test_acme.py"
    mine.write_text("mine")
    with pytest.raises(ConfigError, match=r"exists\. Nothing was written"):
        write_scaffold("source", "acme", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]
    assert mine.read_text() == "mine"
