"""Stand-ins for object stores as fixtures: moto for S3, fake-gcs-server for GCS; if one is missing, tests fail.

Each is fetched once, into its own folder of this environment. Sinks find them like the real ones, by environment
variables.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.standins import server

PINS = Path(__file__).with_name("moto.txt")
FAKE_GCS = "github.com/fsouza/fake-gcs-server@v1.56.1"
START_SECONDS = 60
STOP_SECONDS = 10


def _fetch_moto(folder: Path) -> None:
    server.environment(folder, PINS, "fetching moto")


def _build_fake_gcs(folder: Path) -> None:
    server.run(["go", "install", FAKE_GCS], "building fake-gcs-server", env=os.environ | {"GOBIN": str(folder)})


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty S3."""
    home = server.fetched_once(Path(sys.prefix) / "moto", PINS.read_text(), _fetch_moto, "moto from PyPI (once)")
    port, folder = server.free_port(), tmp_path_factory.mktemp("s3")
    url = f"http://127.0.0.1:{port}"
    process = server.start(
        [str(home / "bin/moto_server"), "-H", "127.0.0.1", "-p", str(port)],
        lambda: server.gives_ok(f"{url}/moto-api/"),
        name="moto",
        log=folder / "moto.log",
        cwd=folder,
        seconds=START_SECONDS,
    )
    yield url
    server.stop(process, STOP_SECONDS)


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a place for a table in a bucket of this test's own."""
    bucket = f"bucket-{uuid.uuid4().hex}"
    with urllib.request.urlopen(urllib.request.Request(f"{s3_server}/{bucket}", method="PUT")):
        pass
    environment = {"ENDPOINT_URL": s3_server, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    environment |= {"ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "any"}
    for name, value in environment.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return f"s3://{bucket}/lake/table"


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The URLs of an empty GCS: its JSON API, and its XML API."""
    home = server.fetched_once(
        Path(sys.prefix) / "fake-gcs-server", FAKE_GCS, _build_fake_gcs, "fake-gcs-server with go (minutes, once)"
    )
    port, folder = server.free_port(), tmp_path_factory.mktemp("gcs")
    url = f"http://127.0.0.1:{port}"
    command = [str(home / "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}", "-external-url", url]
    process = server.start(
        command,
        lambda: server.gives_ok(f"{url}/storage/v1/b?project=p"),
        name="fake-gcs-server",
        log=folder / "gcs.log",
        cwd=folder,
        seconds=START_SECONDS,
    )
    # In a process of its own: delta-rs keeps Python's lock while it waits for an answer.
    xml_port = server.free_port()
    xml_url = f"http://127.0.0.1:{xml_port}"
    xml = server.start(
        [sys.executable, str(Path(__file__).with_name("gcs_xml.py")), str(xml_port), url],
        lambda: server.gives_ok(f"{xml_url}/storage/v1/b?project=p"),
        name="the XML API in front of fake-gcs-server",
        log=folder / "xml.log",
        cwd=folder,
        seconds=START_SECONDS,
    )
    yield url, xml_url
    server.stop(xml, STOP_SECONDS)
    server.stop(process, STOP_SECONDS)


@pytest.fixture
def gcs(gcs_server: tuple[str, str], tmp_path: Path, private_key: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a place for a table in a bucket of this test's own."""
    url, xml_url = gcs_server
    bucket = f"bucket-{uuid.uuid4().hex}"
    body = json.dumps({"name": bucket}).encode()
    made = urllib.request.Request(f"{url}/storage/v1/b?project=p", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(made):
        pass
    account = {"type": "service_account", "project_id": "p", "client_email": "r@p.iam.gserviceaccount.com"}
    account |= {"private_key_id": "1", "client_id": "1", "private_key": private_key, "token_uri": f"{url}/token"}
    key = tmp_path / "key.json"
    key.write_text(json.dumps(account))
    environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(key), "GOOGLE_BASE_URL": xml_url, "GOOGLE_ALLOW_HTTP": "true"}
    for name, value in (environment | {"CLOUD_STORAGE_EMULATOR_ENDPOINT": url}).items():
        monkeypatch.setenv(name, value)
    return f"gs://{bucket}/lake/table"
