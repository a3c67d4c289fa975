"""House rules that linters do not check: short files, small folders, specific module names, existing make targets."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = "airflow_provider_connect"
FOLDERS = (PACKAGE, "tests", "dags", "docs")
SMALL_FOLDERS = (PACKAGE, "dags", "tests")
MAX_LINES = 400
MEDIAN_LINES = 150
MAX_FILES = 25
FORBIDDEN = {"utils", "util", "helpers", "helper", "base", "common", "misc"}


def files() -> list[Path]:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100, "the files are not where this test looks for them"
    return paths


def test_no_file_is_too_long_to_read() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_most_files_of_the_package_are_short() -> None:
    package = [path for path in files() if path.parts[len(ROOT.parts)] == PACKAGE and path.name != "__init__.py"]
    assert statistics.median(len(path.read_text(encoding="utf-8").splitlines()) for path in package) <= MEDIAN_LINES


@pytest.mark.parametrize("top", SMALL_FOLDERS)
def test_no_folder_is_too_full_to_look_through(top: str) -> None:
    full = Counter(path.parent.relative_to(ROOT) for path in (ROOT / top).rglob("*.py"))
    assert {str(folder): count for folder, count in full.items() if count > MAX_FILES} == {}


def test_no_module_has_a_catch_all_name() -> None:
    for path in files():
        words = re.split(r"_+", path.stem.strip("_"))
        assert not FORBIDDEN & {path.stem.strip("_"), words[-1], path.parent.name}, path


def test_every_module_of_the_package_has_a_docstring() -> None:
    for path in (ROOT / "airflow_provider_connect").rglob("*.py"):
        first = path.read_text(encoding="utf-8").lstrip().removeprefix("r")
        assert first.startswith('"""'), f"{path} begins without a docstring"


def test_slow_tests_lie_where_the_makefile_looks_for_them() -> None:
    """The fast part collects only `unit` and `conformance`. The slow parts collect all folders except `unit`."""
    slow = re.compile(r"pytest\.mark\.slow")
    all_slow = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(?:slow|campaign)\b", re.MULTILINE)
    tests = {path.relative_to(ROOT / "tests"): path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert {path.parts[0] for path in tests} == {"unit", "conformance", "integration", "system"}
    assert [path for path, text in tests.items() if path.parts[0] == "unit" and slow.search(text)] == []
    slow_files = {path: text for path, text in tests.items() if path.parts[0] in ("integration", "system")}
    assert [path for path, text in slow_files.items() if not all_slow.search(text)] == []


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def test_the_targets_of_the_makefile_are_listed_and_phony() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    assert make_targets() == phony
    assert set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)) | {"clean"} == phony


def test_make_commands_on_pages_exist() -> None:
    written = {
        name
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for name in re.findall(r"(?:^|[`$ ])make ([a-z][a-z-]*)(?=[`\s;]|$)", _code_of(path), re.MULTILINE)
    }
    assert {"test", "demo"} <= written <= make_targets()


def _code_of(path: Path) -> str:
    """Return the code on a page, so that the verb "make" in a sentence does not count as a command."""
    text = path.read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
