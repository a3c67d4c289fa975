"""The page that begins: its lines, run in an empty folder, load a day. One run stands for Airflow's scheduler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "start.md"


def test_the_lines_of_the_page_load_a_day(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shop, dag = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    _, start, look, change = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "shop_daily.py").write_text(dag)
    assert "airflow standalone" in start
    once = "airflow db migrate && airflow dags test shop_daily 2026-11-02"
    run("python shop.py", tmp_path)
    run(start.replace("airflow standalone", once), tmp_path)
    counted = run(look.partition("\n")[2], tmp_path)
    assert re.search(r"day: \[\[2026-11-02\]\]\s*id_count: \[\[1000\]\]", counted), counted
    run(change, tmp_path)


def run(script: str, folder: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    ended = subprocess.run(
        ["sh", "-e", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
    return ended.stdout
