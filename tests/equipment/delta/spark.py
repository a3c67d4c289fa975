"""Delta's own reader and writer: delta-spark from Maven Central, in a Spark of its own that takes SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.standins import server
from tests.standins.kafka_broker import fetch_jars, java

GROUP, MODULE, VERSION = "io.delta", "delta-spark_2.13", "4.4.0"
_SPARK = """
import json, os, sys
from pyspark.sql import SparkSession

answers, sys.stdout = sys.stdout, sys.stderr
settings = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.jars": sys.argv[1],
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",  # fifty, each a task, for a log of ten lines
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
builder = SparkSession.builder
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
for line in sys.stdin:
    rows = spark.sql(json.loads(line)).collect()
    print("ROWS", json.dumps([row.asDict() for row in rows], default=str), file=answers, flush=True)
spark.stop()
"""


def fetched(folder: Path = Path(sys.prefix) / "delta-spark") -> Path:
    """Return the folder with delta-spark and what it needs beside Spark; fetch them first if they are not there."""

    def fetch(empty: Path) -> None:
        fetch_jars(MODULE, empty, GROUP, VERSION)

    return server.fetched_once(folder, VERSION, fetch, f"{MODULE} {VERSION} from Maven Central (once)")


class DeltaSpark:
    """A Spark with delta-spark, in a process of its own.

    :param folder: for its warehouse and its log.
    """

    def __init__(self, folder: Path) -> None:
        # Spark has the rest in its own versions.
        found = sorted(jar for name in ("delta", "unitycatalog") for jar in (fetched() / "jars").glob(f"{name}-*.jar"))
        jars = ",".join(map(str, found))
        self.log = folder / "spark.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _SPARK, jars],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=os.environ | {"JAVA_HOME": str(java().parent.parent)},
            )

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Run a statement; return its rows."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(text), file=self.process.stdin, flush=True)
        for line in self.process.stdout:  # Delta prints there, too
            if line.startswith("ROWS "):
                rows: list[dict[str, Any]] = json.loads(line.removeprefix("ROWS "))
                return rows
        raise AssertionError(f"{text}\n{self.log.read_text()[-4000:]}")

    def close(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """One for the session."""
    spark = DeltaSpark(tmp_path_factory.mktemp("delta_spark"))
    try:
        yield spark
    finally:
        spark.close()
