"""A real Schema Registry for tests: Apicurio, with the API of Confluent's; without it tests fail.

Its compatibility is NONE until a test sets another one for its subject; Confluent's own starts with BACKWARD.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import requests

from tests.standins import server
from tests.standins.kafka_broker import java

VERSION = "2.6.13.Final"  # the last line that runs on Java 17
URL = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
SHA1 = "28b56c85372e66e9ebcf569a31ad6b643e2bf33e"
START_SECONDS = 90
STOP_SECONDS = 10


def fetched(folder: Path = Path(sys.prefix) / "schema-registry", url: str = URL) -> Path:
    """Return the folder with the registry's jars; fetch them first if they are not there.

    :raises RuntimeError: they cannot be fetched: no network, or not the file that was published.
    """
    saying = f"Apicurio Registry {VERSION} from Maven Central (142 MB, once)"
    return server.fetched_once(folder, VERSION, lambda empty: _fetch(empty, url), saying)


def _fetch(folder: Path, url: str) -> None:
    archive = folder / "registry.tar.gz"
    _download(url, archive)
    with tarfile.open(archive) as opened:
        # Python before 3.11.4 has no filters; the archive's checksum was compared.
        opened.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    archive.unlink()


def _download(url: str, target: Path) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        with requests.get(url, stream=True, timeout=30) as answer, target.open("wb") as file:
            answer.raise_for_status()
            for block in answer.iter_content(1 << 20):
                digest.update(block)
                file.write(block)
    except requests.RequestException as error:
        raise RuntimeError(f"the tests need Apicurio Registry, and {url} cannot be fetched: {error}") from None
    if digest.hexdigest() != SHA1:
        raise RuntimeError(f"{url} is not the file it was: its SHA-1 is {digest.hexdigest()}, not {SHA1}")


@dataclass
class SchemaRegistry:
    """One registry, in memory.

    :param folder: for its log and whatever it writes.
    """

    folder: Path
    port: int = field(default_factory=server.free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for clients of Confluent's registry."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    @property
    def log(self) -> Path:
        return self.folder / "registry.log"

    def start(self) -> None:
        """Start it; return when it answers."""
        home = fetched()
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.log.level=WARN"]
        flags += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={self.port}"]
        self.process = server.start(
            [str(java()), *flags, "-jar", str(home / f"apicurio-registry-app-{VERSION}-runner.jar")],
            lambda: server.gives_ok(f"{self.url}/subjects"),
            name="the schema registry",
            log=self.log,
            cwd=self.folder,
            seconds=START_SECONDS,
        )

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            server.stop(self.process, STOP_SECONDS)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    """One running registry for the whole session."""
    started = SchemaRegistry(tmp_path_factory.mktemp("registry"))
    started.start()
    try:
        yield started
    finally:
        started.stop()
