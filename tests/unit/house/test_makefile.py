"""Tests of `make test` with MySQL: its packages' mirror, and the last line if MySQL was left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.equipment.sql.mysql_files import mirror

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("value", "line"), [("1", "WITHOUT_MYSQL=1: nothing was tested on MySQL itself\n"), ("0", ""), ("", "")]
)
def test_the_last_line_of_make_test_reports_that_mysql_was_left_out(value: str, line: str) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")} | {"WITHOUT_MYSQL": value}
    # Skips the tests themselves, as if they had passed.
    passed = [part for target in ("check", "slow") for part in ("-o", target)]
    process = subprocess.run(["make", *passed, "test"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert process.stdout == line


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "debian.sources",
            "Types: deb\n# a comment\nURIs: http://mirror.example/debian-security\nSuites: x\n\n"
            "Types: deb\nURIs: http://mirror.example/debian/\nSigned-By: /keys.gpg\n",
            ("http://mirror.example/debian/", "/keys.gpg"),
        ),
        (
            "debian.list",
            "# deb http://old.example/debian x main\n"
            "deb http://mirror.example/debian-security x main\n"
            "deb [arch=amd64 signed-by=/k] https://mirror.example/proxy/debian-main x main\n",
            ("https://mirror.example/proxy/debian-main", "/k"),
        ),
        ("debian.list", "deb http://mirror.example/debian x main\n", ("http://mirror.example/debian", "")),
        ("ubuntu.list", "deb http://mirror.example/ubuntu x main\n", None),
    ],
)
def test_the_mirror_is_read_from_the_machines_package_sources(
    tmp_path: Path, name: str, text: str, expected: tuple[str, str] | None
) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / name).write_text(text)
    if expected is not None:
        assert mirror(tmp_path) == expected
    else:
        with pytest.raises(RuntimeError, match="leave MySQL out with WITHOUT_MYSQL=1"):
            mirror(tmp_path)
