"""The list of seeded breaks: each still has its place in the code, and what counts as found is no accident."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.window import zone
from tests.equipment.breaks.breaks import LISTS, PACKAGE, ROOT, AnchorError, Break, all_breaks
from tests.equipment.breaks.witness import judged

LEAST_BREAKS = 60


def test_every_break_has_its_place_and_leaves_the_code_python() -> None:
    problems = []
    for fault in all_breaks():
        try:
            fault.applied(PACKAGE)
        except AnchorError as error:
            problems.append(str(error))
    assert problems == []


def test_there_are_enough_breaks_and_each_names_test_files_that_exist() -> None:
    breaks = all_breaks()
    assert len(breaks) >= LEAST_BREAKS
    assert len(LISTS) > 1
    assert [name for name, count in Counter(fault.name for fault in breaks).items() if count > 1] == []
    assert [fault.name for fault in breaks if not fault.says.endswith(".")] == []
    missing = [(fault.name, file) for fault in breaks for file in fault.tests if not (ROOT / "tests" / file).exists()]
    assert missing == []


SOURCE = "def first():\n    return  1 + 1\n\n\ndef second():\n    return 1 + 1\n"


@pytest.mark.parametrize(
    ("text", "into", "within", "problem"),
    [
        ("1 + 2", "2", "", r"b: its text is in m\.py 0 times \(nowhere\), not once"),
        ("1 + 1", "2", "", r"b: its text is in m\.py 2 times \(m\.py\), not once"),
        ("1 + 1", "2", "third", r"b: its text is in m\.py, third 0 times"),
        ("1 + 1", "1 +", "second", r"b: m\.py is no Python with its replacement"),
        ("return 1 + 1", "break", "second", r"b: m\.py is no Python with its replacement"),
        ("1 + 1", "(1+1)", "second", "b: its replacement changes nothing"),
    ],
)
def test_a_break_that_lost_its_place_is_named(tmp_path: Path, text: str, into: str, within: str, problem: str) -> None:
    (tmp_path / "m.py").write_text(SOURCE)
    with pytest.raises(AnchorError, match=problem):
        Break("b", "It breaks.", "m.py", text, into, (), within=within).applied(tmp_path)


def test_white_space_does_not_count_and_a_room_may_stand_for_its_files(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "m.py").write_text(SOURCE)
    fault = Break("b", "It breaks.", "room", "return 1 + 1", "return 3", (), within="first")
    path, source = fault.applied(tmp_path)
    assert path == tmp_path / "room" / "m.py"
    assert source == SOURCE.replace("return  1 + 1", "return 3")


def _of_the_product() -> None:
    zone("Nowhere/At all")


def _of_the_test() -> None:
    raise OSError("the port is in use")


def _broken_import() -> None:
    raise ImportError("no module")


def _assertion() -> None:
    raise AssertionError("1 != 2")


def _result_that_lacks_something() -> None:
    counts: dict[str, int] = {}
    assert counts["erased"] == 1


def _several() -> None:
    raise ExceptionGroup("two failures", [OSError(), AssertionError()])


def _nothing_raised() -> None:
    with pytest.raises(ConfigError):
        pass


def _late() -> None:
    pytest.fail("Timeout (>300.0s) from pytest-timeout.")


@pytest.mark.parametrize(
    ("failure", "is_found"),
    [
        (_of_the_product, True),
        (_assertion, True),
        (_nothing_raised, True),
        (_several, True),
        (_result_that_lacks_something, True),
        (_of_the_test, False),
        (_broken_import, False),
        (_late, False),
    ],
)
def test_what_counts_as_found(failure: Callable[[], None], is_found: bool) -> None:
    call: pytest.CallInfo[None] = pytest.CallInfo.from_call(failure, "call")
    assert judged(call)[0] is is_found


def test_a_fixture_that_fails_by_itself_finds_nothing() -> None:
    call: pytest.CallInfo[None] = pytest.CallInfo.from_call(_result_that_lacks_something, "setup")
    assert judged(call)[0] is False
    assert judged(pytest.CallInfo.from_call(_of_the_product, "setup"))[0] is True
