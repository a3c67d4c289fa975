"""Tests of the suites themselves: a correct sink passes, and each wrong connector fails exactly its own cases."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from airflow_provider_connect import testing
from airflow_provider_connect.testing import SinkConformance, Target
from airflow_provider_connect.testing.polls import PollCases, TogetherCases
from tests.conformance import (
    wrong_confirmations,
    wrong_definitions,
    wrong_sinks,
    wrong_snapshots,
    wrong_sources,
    wrong_sweeps,
)
from tests.conformance.folder import FolderSink, fresh, read

ROOT = Path(__file__).parents[2]

WRONG = (wrong_sinks, wrong_confirmations, wrong_definitions, wrong_snapshots, wrong_sweeps, wrong_sources)
EXPECTED = wrong_sinks.EXPECTED | wrong_sources.EXPECTED
WHOLE = {"TestDoublesOnRetry", "TestCountsAConfirmationAsAGeneration", "TestKeepsWhatVanished"}
"""Wrong sinks that run all cases. The others run only the cases that must fail, except in the campaign."""

AWAY = {
    "test_a_day_that_is_not_over_is_refused_before_any_request[0]",
    "test_an_unreachable_server_is_a_retriable_error_within_seconds_without_secrets",
}
"""Cases of sources that must fail although they do not poll."""

POLLS = {name for cases in (PollCases, TogetherCases) for name in vars(cases) if name.startswith("test_")}


def test_a_failed_assert_of_any_suite_shows_its_values() -> None:
    """Otherwise connector authors see only that a case failed."""
    modules = Path(str(testing.__file__)).parent.glob("[!_]*.py")
    asserting = {path.stem for path in modules if "\n        assert " in path.read_text(encoding="utf-8")}
    assert asserting - {*testing._SUITES.split()} == set()


class TestRightSink(SinkConformance):
    def target(self, tmp_path: Path) -> Target:
        sink = FolderSink(path=fresh(tmp_path))
        return Target(sink=sink, rows=lambda: read(sink.path))


def selected() -> list[str]:
    """Return pytest's arguments: classes that run all cases, and the single cases that must fail in the others."""
    arguments = []
    for module in WRONG:
        for name, cls in vars(module).items():
            if name in EXPECTED and cls.__module__ == module.__name__:
                cases = [""] if name in WHOLE else [f"::{case}" for case in sorted(EXPECTED[name] | _away(name))]
                arguments += [f"{module.__file__}::{name}{case}" for case in cases]
    return arguments


def _away(name: str) -> set[str]:
    return AWAY if name in wrong_sources.EXPECTED else set()


def failed(folder: Path, cases: list[str]) -> dict[str, set[str]]:
    """Run the cases as in another project, without this project's setup. Returns the failed cases by test class."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    process = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", str(folder / "pytest.ini"), f"--rootdir={ROOT}"),
            *("--noconftest", "--import-mode=importlib", "--tb=native", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *(f"--junit-xml={folder}/found.xml", "-k", "not import", *cases),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    failed_cases: dict[str, set[str]] = {name: set() for name in EXPECTED}
    for case in ET.parse(folder / "found.xml").iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed_cases[case.attrib["classname"].rpartition(".")[2]].add(case.attrib["name"])
    return failed_cases


@pytest.mark.slow
def test_wrong_connectors_fail_the_cases_listed_for_them(tmp_path: Path) -> None:
    """All classes run in one process, because each process would collect the suites again."""
    failed_cases = failed(tmp_path, selected())
    assert failed_cases == {name: cases | _away(name) for name, cases in EXPECTED.items()}


@pytest.mark.campaign
def test_a_wrong_connector_fails_no_other_case(tmp_path: Path) -> None:
    failed_cases = failed(tmp_path, [str(module.__file__) for module in WRONG])
    assert {name: failed_cases[name] for name in wrong_sinks.EXPECTED} == wrong_sinks.EXPECTED
    for name, expected in wrong_sources.EXPECTED.items():
        assert {case for case in failed_cases[name] if case.partition("[")[0] in POLLS} == expected, name
        assert failed_cases[name] >= AWAY
