"""`make test` says at its end that a kind of database was left out, and whoever has decided nothing tests on all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("value", "line"), [("1", "WITHOUT_MYSQL=1: nothing was tested on MySQL itself\n"), ("0", ""), ("", "")]
)
def test_the_last_line_of_make_test_says_what_was_left_out(value: str, line: str) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")} | {"WITHOUT_MYSQL": value}
    # As if the tests themselves had passed.
    passed = [part for target in ("check", "integration", "system") for part in ("-o", target)]
    made = subprocess.run(["make", *passed, "test"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert made.stdout == line
