"""DAG files as commands read them: a broken one is shown, and hides no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_connect.cli.dag_files import read_dag_files
from airflow_provider_connect.errors import ConfigError

GOOD = """
import datetime as dt
from airflow.sdk import DAG
with DAG("shop_daily", schedule=None, start_date=dt.datetime(2026, 10, 1)):
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    kwargs = {"path": str(tmp_path)}
    bundle = {"name": "cli", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": kwargs}
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([bundle]))
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


def test_a_broken_file_hides_no_other_dag(folder: Path) -> None:
    (folder / "broken.py").write_text(
        "from airflow_provider_connect.timetables import daily\ndaily('Europe/Berln')  # DAG\n"
    )
    files = read_dag_files([], "shop_daily")
    assert files.require("shop_daily").dag_id == "shop_daily"
    with pytest.raises(ConfigError) as refused:
        files.require("orders_daily")
    text = "ConfigError: unknown time zone 'Europe/Berln': did you mean 'Europe/Berlin'?"
    assert str(refused.value) == f"no DAG 'orders_daily'. These files cannot be imported:\nbroken.py: {text}"


def test_every_line_of_an_error_is_shown(folder: Path) -> None:
    (folder / "broken.py").write_text("# airflow DAG\nraise ValueError('one: two\\n  three')\n")
    assert read_dag_files(["cli"]).import_errors == {"broken.py": "ValueError: one: two\n  three"}


def test_the_nearest_name_is_suggested(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no DAG 'shop_dayly'; did you mean 'shop_daily'"):
        read_dag_files([], "shop_dayly").require("shop_dayly")
    with pytest.raises(ConfigError, match="no DAG bundle 'cly'; did you mean 'cli'"):
        read_dag_files(["cly"])
