"""Airflow reads its home on import, so it gets a throwaway one before any test module loads."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest

from tests.equipment.one_core import stay_on_one_core

stay_on_one_core()  # before anything starts a thread
_home = tempfile.mkdtemp(prefix="airflow-home-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(
    AIRFLOW_HOME=_home,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__UNIT_TEST_MODE="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_home}/airflow.db",
    AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
)

from hypothesis import settings  # noqa: E402

# A busy machine may stop a test for seconds: pytest's own limit ends one that hangs. Every run of `make check` tries
# other examples, so few are enough; `make campaign` tries a thousand.
settings.register_profile("ours", deadline=None, max_examples=int(os.environ.get("CONNECT_TEST_EXAMPLES", "10")))
settings.load_profile("ours")

from tests.equipment.bigquery.fixtures import bigquery_target, dataset, emulator, google_connection, proxy  # noqa: E402
from tests.equipment.delta.spark import delta_spark  # noqa: E402
from tests.equipment.kafka.fixtures import broker, kafka_connection, kafka_proxy, kafka_target, proxied  # noqa: E402
from tests.equipment.kafka.java import kafka_java  # noqa: E402
from tests.equipment.kafka.registry import registry  # noqa: E402
from tests.equipment.sql.fixtures import (  # noqa: E402
    either,
    every,
    lone,
    lone_server,
    mariadb,
    mariadb_server,
    mysql,
    mysql_like,
    mysql_server,
    postgresql,
    postgresql_server,
    pytest_terminal_summary,
    pytest_testnodedown,
    run_folder,
    tell_versions,
)
from tests.equipment.time_limits import (  # noqa: E402
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_exception_interact,
    pytest_runtest_protocol,
    pytest_unconfigure,
)
from tests.equipment.time_limits import pytest_sessionfinish as end_time_limits  # noqa: E402


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take what collecting leaves, a million objects that all stay, out of every later search for garbage.

    Searches are rare from then on: they took a tenth of the fast tests' CPU, and no test leaves that much.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(300_000, 20, 50)


def pytest_sessionfinish(session: pytest.Session) -> None:
    end_time_limits()
    tell_versions(session.config)
    # What libraries tear down at the end must be found, but not by pytest, which looks through all objects five times.
    atexit.register(gc.unfreeze)


__all__ = [
    "bigquery_target",
    "broker",
    "dataset",
    "delta_spark",
    "either",
    "emulator",
    "every",
    "google_connection",
    "kafka_connection",
    "kafka_java",
    "kafka_proxy",
    "kafka_target",
    "lone",
    "lone_server",
    "mariadb",
    "mariadb_server",
    "mysql",
    "mysql_like",
    "mysql_server",
    "postgresql",
    "postgresql_server",
    "proxied",
    "proxy",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_exception_interact",
    "pytest_runtest_protocol",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_unconfigure",
    "registry",
    "run_folder",
]
