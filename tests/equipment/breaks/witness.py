"""A pytest plugin that writes what failed, and in which way, for :mod:`.trials`."""

from __future__ import annotations

import json
import os
import traceback
from pathlib import Path
from typing import Any

import pytest

OUTPUT = "CONNECT_BREAKS_WITNESS"
_PACKAGE = f"{os.sep}airflow_provider_connect{os.sep}"
_NEVER = (ImportError, SyntaxError)
_witnessed: dict[str, Any] = {"failures": [], "passed": 0, "uncollected": []}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report: pytest.TestReport = yield
    if report.when == "call" and report.passed:
        _witnessed["passed"] += 1
    if report.failed and report.when != "teardown":
        is_found, reason = judged(call)
        _witnessed["failures"].append({"test": item.nodeid, "is_found": is_found, "reason": reason})
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _witnessed["uncollected"].append(report.nodeid)


def pytest_sessionfinish() -> None:
    Path(os.environ[OUTPUT]).write_text(json.dumps(_witnessed), encoding="utf-8")


def judged(call: pytest.CallInfo[None]) -> tuple[bool, str]:
    """Tell whether a failure says something of the product.

    An assertion does, and an error that came through the product's code; in the test itself also a library's error, as
    of a table that the product has left broken. A machine that lacks something does not: imports, ports, time.
    """
    if call.excinfo is None:
        return True, "passed, and is expected to fail"
    error = call.excinfo.value
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0][:160] if lines else ''}"
    return _is_of_product(error, is_in_test=call.when == "call"), reason


def _is_of_product(error: BaseException, *, is_in_test: bool) -> bool:
    if isinstance(error, BaseExceptionGroup):  # Hypothesis gathers failures that differ
        return any(_is_of_product(each, is_in_test=is_in_test) for each in error.exceptions)
    if isinstance(error, _NEVER) or (isinstance(error, pytest.fail.Exception) and "Timeout" in str(error)):
        return False
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return True
    if any(_PACKAGE in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
        return True
    return is_in_test and not isinstance(error, OSError) and not type(error).__module__.startswith("hypothesis")
