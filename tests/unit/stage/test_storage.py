from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.stage.storage import Folder, normalise_path, storage_error
from tests.equipment.stores.nobody import as_nobody


@pytest.mark.parametrize(
    ("given", "spelled"),
    [
        ("/a/b/", "/a/b"),
        ("//a/./b/../c", "/a/c"),
        ("file:///a%20b/", "/a b"),
        ("file://localhost/a", "/a"),
        ("s3://bucket/a//b/", "s3://bucket/a/b"),
        ("S3://Bucket", "s3://Bucket"),
        ("abfss://container@account.dfs.core.windows.net/t/", "abfss://container@account.dfs.core.windows.net/t"),
    ],
)
def test_a_path_has_one_spelling(given: str, spelled: str) -> None:
    assert normalise_path(given) == spelled
    assert normalise_path(spelled) == spelled


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("a/b", "relative"),
        ("~/b", "relative"),
        ("", "relative"),
        ("s3://key:hush@bucket/a", "credentials"),
        ("s3://key@bucket/a", "credentials"),
        ("gs://bucket/a?sig=hush", "query"),
        ("file://host/a", "host"),
        ("s3:///a", "no bucket"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_without_its_secret(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        normalise_path(path)
    assert "hush" not in str(caught.value)


def test_files_are_written_listed_read_and_deleted(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "a b é"))
    assert folder.files() == []
    assert not folder.exists()
    folder.write("x/y.json", b"1")
    folder.write("x/y.json", b"22")
    folder.write("z", b"")
    assert folder.read("x/y.json") == b"22"
    assert sorted((f.name, f.size_bytes) for f in folder.files()) == [("x/y.json", 2), ("z", 0)]
    assert [f.name for f in folder.files("x")] == ["x/y.json"]
    found = folder.entries(["z", "x", "none"])
    assert list(found) == ["z"], "a folder is no file"
    assert found["z"].modified.timestamp() == pytest.approx((tmp_path / "a b é" / "z").stat().st_mtime, abs=0.001)
    folder.delete("z")
    folder.delete("z")
    folder.delete_folder("x")
    folder.delete_folder("x")
    assert folder.files() == []
    with pytest.raises(FileNotFoundError):
        folder.read("z")


def test_a_folder_that_comes_while_it_is_listed_is_no_error(tmp_path: Path) -> None:
    """As pyarrow does, which looks for it twice: see ``integration/delta/test_listing_race.py``."""
    folder, looks = Folder(str(tmp_path)), []
    local = folder.filesystem

    def get_file_info(selector: Any) -> Any:
        looks.append(selector)
        if len(looks) == 1:
            raise FileNotFoundError(errno.ENOENT, "it came between two looks")
        return local.get_file_info(selector)

    (tmp_path / "f").write_text("x")
    folder.filesystem = SimpleNamespace(type_name="local", get_file_info=get_file_info)
    assert [file.name for file in folder.files()] == ["f"]
    assert len(looks) == 2


def test_a_folder_tells_the_time_of_the_storage_and_not_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(str(tmp_path))
    (tmp_path / "f").write_text("x")
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert abs(folder.storage_time().timestamp() - (tmp_path / "f").stat().st_mtime) < 600
    assert [file.name for file in folder.files()] == ["f"]


def test_a_synced_file_is_on_the_disk_with_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda fd: (synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), fsync(fd))[1]
    )
    folder = Folder(str(tmp_path / "stage"))
    folder.write("a/b/f", b"1")
    assert synced == [], "a sign of life need not outlive a power cut"
    folder.sync(["a/b/f", "a/gone"])
    assert [path.removeprefix(str(tmp_path)) for path in synced] == ["/stage/a/b/f", "/stage/a/b", "/stage/a", "/stage"]
    synced.clear()
    folder.write("g", b"2", durable=True)
    assert synced[0].startswith(f"{tmp_path}/stage/g."), "its bytes before its name"
    assert synced[1:] == [f"{tmp_path}/stage/g", f"{tmp_path}/stage"]


@pytest.mark.parametrize("name", ["../victim", "a/../../victim", "/etc/victim", "..", "a/.."])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").touch()
    folder = Folder(str(tmp_path / "stage"))
    for work in (folder.read, folder.delete, folder.delete_folder, folder.files, folder.exists):
        with pytest.raises(ConfigError, match="leads out of"):
            work(name)
    assert (tmp_path / "victim").exists()


def test_a_name_with_dots_of_its_own_is_a_name(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    folder.write("..a/b..c/...", b"x")
    assert [entry.name for entry in folder.files()] == ["..a/b..c/..."]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: the bytes do not fit."""
    folder = Folder(str(tmp_path))
    folder.write("f", b"old")
    script = (
        "import resource, signal, sys\n"
        "from airflow_provider_connect.stage.storage import Folder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "Folder(sys.argv[1]).write('f', b'n' * 100_000)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "RetriableError" in ended.stderr
    assert f"{tmp_path}/f" in ended.stderr
    assert [(f.name, folder.read(f.name)) for f in folder.files()] == [("f", b"old")]


def test_a_file_in_a_folders_place_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="file/t/x"):
        Folder(str(tmp_path / "file" / "t")).write("x", b"1")


def test_a_folder_without_the_right_is_named() -> None:
    with as_nobody(), pytest.raises(ConfigError, match="/usr/x"):
        Folder("/usr").write("x", b"1")


def test_errors_say_how_to_recover() -> None:
    full = storage_error("/data/t", OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(full, RetriableError)
    assert "no space left for /data/t" in str(full)
    rust = storage_error("/data/t", OSError("Generic LocalFileSystem error: Permission denied (os error 13)"))
    assert isinstance(rust, ConfigError)
    assert "EACCES" in str(rust)
    lines = storage_error("s3://b/t", OSError("\n  first line\n  0: <unknown>"))
    assert str(lines) == "s3://b/t: OSError: first line"


def test_an_url_no_filesystem_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="ftp://host/x"):
        Folder("ftp://host/x")


@pytest.mark.parametrize("why", ["links", "no links", "no copies either"])
def test_a_second_name_outlives_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    folder = Folder(str(tmp_path))
    folder.write("a/one", b"rows")

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    def cannot(*_: object) -> None:
        raise NotImplementedError

    if why != "links":
        monkeypatch.setattr(os, "link", refuse)
    if why == "no copies either":
        real = folder.filesystem
        folder.filesystem = SimpleNamespace(
            create_dir=real.create_dir,
            copy_file=cannot,
            open_input_stream=real.open_input_stream,
            open_output_stream=real.open_output_stream,
            get_file_info=real.get_file_info,
            type_name="local",
        )
    folder.copy("a/one", "b/two")
    assert ((tmp_path / "a/one").stat().st_nlink == 2) == (why == "links")
    (tmp_path / "a/one").unlink()
    assert (tmp_path / "b/two").read_bytes() == b"rows"
    with pytest.raises(FileNotFoundError):
        folder.copy("a/one", "b/three")


def test_a_file_where_a_folder_should_be_and_a_folder_where_a_file_should_be_are_for_a_person(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder" / "x").mkdir(parents=True)
    for root, name in (("file", "x"), ("file/below", "x"), ("folder", "x")):
        with pytest.raises(ConfigError, match="choose another path"):
            Folder(str(tmp_path / root)).write(name, b"x")


def test_credentials_of_google_that_cannot_be_read_are_told_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's own client answers, without a network: it reads the key file first."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    with pytest.raises(ConfigError, match=r"^gs://bucket/lake/x: Google gives no access token\. Set GOOGLE"):
        Folder("gs://bucket/lake").files("x")


def test_hdfs_without_the_libraries_of_hadoop_is_told_with_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own client answers, without a network: it loads the libraries first."""
    for name in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(ConfigError, match=r"^hdfs://namenode:9000/lake: HDFS needs .* Set JAVA_HOME, HADOOP_HOME"):
        Folder("hdfs://namenode:9000/lake")


@pytest.mark.parametrize(
    "text",
    [
        "Check for Hierarchical Namespace support on 'https://a.blob.core.windows.net/c' failed: "
        "Failed to get token from DefaultAzureCredential.",
        "Generic MicrosoftAzure error\n  Error performing token request",
    ],
    ids=["pyarrow", "delta-rs"],
)
def test_missing_credentials_of_azure_are_told_with_the_variables(text: str) -> None:
    error = storage_error("abfss://c@a.dfs.core.windows.net/lake", OSError(text))
    assert isinstance(error, RetriableError)
    assert "Azure gives no access token. Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET" in str(error)
