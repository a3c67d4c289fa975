"""The docs say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_options_is_made_from_the_code():
    spec = importlib.util.spec_from_file_location("make_options", ROOT / "docs" / "make_options.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "options.md").read_text() == module.page(), "run: make docs"


def test_readme_names_only_targets_and_files_that_exist():
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link
    for file in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / file).exists(), file


def test_the_architecture_section_names_every_room():
    text = (ROOT / "README.md").read_text().partition("## Architecture")[2].partition("## Write")[0]
    rooms = {path.stem for path in (ROOT / "airflow_provider_connect").glob("*.py") if not path.stem.startswith("__")}
    rooms |= {path.name for path in (ROOT / "airflow_provider_connect").iterdir() if (path / "__init__.py").exists()}
    unnamed = {room for room in rooms - {"provider_info"} if f"`{room}" not in text}
    assert not unnamed
