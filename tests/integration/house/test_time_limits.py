"""A test that hangs is a failure with a stack, and no hang stops the session."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    """Run tests as ours are run: the same settings, the same limits by marker."""
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "tests.equipment.time_limits", "-p", "no:cacheprovider", *options, "test_it.py"]
    command += ["-p", "pytest_timeout", "-p", "xdist.plugin"]
    # Other plugins take as long to load as all the rest.
    env = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


HANG = """
import threading

def wait_for_ever():
    threading.Event().wait()

def test_hangs():
    threading.Thread(target=wait_for_ever, name="another", daemon=True).start()
    wait_for_ever()

def test_next():
    pass
"""


def test_a_test_that_hangs_fails_with_every_stack_and_the_next_one_runs(tmp_path: Path):
    code, output = run(tmp_path, HANG, "-o", "timeout=0.5")
    assert code == 1, output
    assert "1 failed, 1 passed" in output
    assert "Timeout (>0.5s)" in output
    assert output.count("in wait_for_ever") >= 2, "the stack of one of the threads is missing"


def test_a_hang_inside_a_workers_test_fails_that_test_alone(tmp_path: Path):
    code, output = run(tmp_path, HANG, "-o", "timeout=0.5", "-n", "1")
    assert code == 1, output
    assert "1 failed, 1 passed" in output
    assert "in wait_for_ever" in output


DEAF = """
import signal
from tests.equipment import time_limits

time_limits.DEAF_SECONDS = 0.3

def test_hangs_where_no_signal_is_heard():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    signal.sigwait({signal.SIGUSR1})
"""


def test_a_hang_that_hears_no_signal_ends_the_process_with_its_stack(tmp_path: Path):
    code, output = run(tmp_path, DEAF, "-o", "timeout=0.5")
    assert code == 1, output
    assert "in test_hangs_where_no_signal_is_heard" in output
    code, output = run(tmp_path, DEAF, "-o", "timeout=0.5", "-n", "1")
    assert code == 1, output
    assert "crashed while running 'test_it.py::test_hangs_where_no_signal_is_heard'" in output


HANGS_AFTER_A_FAILURE = """
import threading
import pytest
from tests.equipment import time_limits

time_limits.DEAF_SECONDS = 0.3

@pytest.fixture
def server():
    yield
    threading.Event().wait()

def test_fails(server):
    assert False
"""


def test_clearing_up_after_a_failure_has_a_limit_too(tmp_path: Path):
    code, output = run(tmp_path, HANGS_AFTER_A_FAILURE, "-o", "timeout=0.5")
    assert code == 1, output
    assert re.search(r'test_it.py", line \d+ in server$', output, re.MULTILINE), output


MARKERS = """
import pytest

def limit(request):
    return request.node.get_closest_marker("timeout").args[0]

@pytest.mark.slow
def test_slow(request):
    assert limit(request) == 900

@pytest.mark.slow
@pytest.mark.catchup
def test_many_days(request):
    assert limit(request) == 3600

@pytest.mark.slow
@pytest.mark.catchup
@pytest.mark.campaign
def test_campaign(request):
    assert limit(request) == 86400

@pytest.mark.slow
@pytest.mark.timeout(7)
def test_own(request):
    assert limit(request) == 7
"""


def test_slow_tests_have_longer_limits(tmp_path: Path):
    code, output = run(tmp_path, MARKERS)
    assert code == 0, output
    assert "4 passed" in output
