"""A folder that comes and goes while it is listed, on as many cores as there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.stage.storage import Folder

pytestmark = pytest.mark.slow


def test_a_folder_that_comes_while_it_is_listed_is_no_error(tmp_path: Path) -> None:
    """pyarrow looks for it twice, and takes what came between for a broken folder."""
    flaps = f"""
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    os.mkdir({str(tmp_path / "new")!r})
    os.rmdir({str(tmp_path / "new")!r})
"""
    with subprocess.Popen([sys.executable, "-c", flaps]) as other:
        folder = Folder(str(tmp_path))
        while other.poll() is None:
            assert folder.files("new") == []
    assert other.returncode == 0
