"""Files by path or URL, with credentials from the environment.

File names are relative, with ``/``.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import posixpath
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from airflow_provider_connect.errors import ConfigError, RetriableError

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT)
_OS_ERROR = re.compile(r"\bos error (\d+)\b|\[Errno (\d+)\]")
# Refusals of object stores in the words of pyarrow, delta-rs and the stores (2026-11).
_STORE_REFUSES = re.compile(
    r"(?P<right>ACCESS_DENIED|AccessDenied|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch"
    r"|SIGNATURE_DOES_NOT_MATCH|40[13] (?:Forbidden|Unauthorized))|(?P<bucket>NO_SUCH_BUCKET|NoSuchBucket)"
)
_NO_NETWORK = re.compile(
    r"NETWORK_CONNECTION|Could not resolve host|dns error|Couldn't connect to server|failed to lookup address"
)
_NO_HADOOP = re.compile(r"Unable to load lib(jvm|hdfs)")
# https://arrow.apache.org/docs/python/filesystems.html#hadoop-distributed-file-system-hdfs (2026-11)
_HADOOP_ADVICE = (
    "Set JAVA_HOME, HADOOP_HOME and CLASSPATH (the output of 'hadoop classpath --glob'), in the worker's and in "
    "Spark's environment"
)
_AZURE_REFUSES = re.compile("Failed to get token from DefaultAzureCredential|Error performing token request")
_AZURE_ADVICE = (
    "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or use a machine with a managed identity, in the "
    "worker's and in Spark's environment"
)
_GOOGLE_REFUSES = "Could not create a OAuth2 access token"
_GOOGLE_ADVICE = "Set GOOGLE_APPLICATION_CREDENTIALS to a readable key file, in the worker's and in Spark's environment"
_GOOGLE_LIMIT_SECONDS = 60
"""Time for which Google's client repeats a request, by default 15 minutes."""


def normalise_path(path: str) -> str:
    """Return the canonical form of a path or URL: no trailing slash, ``file://`` as a plain path, ``s3a`` as ``s3``.

    :raises ConfigError: the path is relative, or the URL has credentials, a query or a fragment.
    """
    if "://" not in path:
        if not path.startswith("/"):
            raise ConfigError(f"path {path!r} is relative. Give an absolute path or a URL such as 's3://bucket/table'")
        return "/" + posixpath.normpath(path).lstrip("/")
    parts = urlsplit(path)
    if parts.password or (parts.username and parts.scheme not in ("abfs", "abfss")):
        raise ConfigError(f"a {parts.scheme}:// path holds credentials. Put them into the environment")
    if parts.query or parts.fragment:
        raise ConfigError(f"a {parts.scheme}:// path has a query or fragment. Give the plain URL")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise ConfigError(f"file URL names the host {parts.netloc!r}: use file:///path")
        return normalise_path(unquote(parts.path))
    if not parts.netloc:
        raise ConfigError(f"path {path!r} names no bucket or host")
    scheme = "s3" if parts.scheme == "s3a" else parts.scheme  # Hadoop's name for the same store
    return f"{scheme}://{parts.netloc}{posixpath.normpath(parts.path or '/')}".rstrip("/")


def _folders_of(name: str) -> Iterator[str]:
    while name:
        name = posixpath.dirname(name)
        yield name


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate filesystem errors within the block into errors that name ``path`` and the remedy.

    :raises RetriableError: the disk is full, or the store does not answer.
    :raises ConfigError: a permission is missing, or a file stands in a folder's place, or the reverse.
    :raises FileNotFoundError: not translated.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error(path, error) from error
    except Exception as error:
        if type(error).__name__ != "ArrowException":  # how pyarrow reports some errors of Google's client
            raise
        raise storage_error(path, error) from error


def storage_error(path: str, error: Exception) -> ConfigError | RetriableError:
    """Return the error to raise for a filesystem error of pyarrow or delta-rs on ``path``."""
    number = _errno(error)
    if number in _NO_SPACE:
        return RetriableError(f"no space left for {path}. Free some space. Earlier files are unchanged")
    if number in _NO_RIGHT:
        return ConfigError(
            f"{path} cannot be written or read ({errno.errorcode[number]}). Give this user the permission, or "
            "choose another path. Earlier files are unchanged"
        )
    if (environment_error := _environment_error(path, str(error))) is not None:
        return environment_error
    match = _STORE_REFUSES.search(str(error))
    if match:
        reason = "there is no such bucket" if match["bucket"] else f"the store answers {match['right']}"
        return ConfigError(
            f"{path} cannot be written or read: {reason}. Correct the path, the permissions or the environment"
        )
    if _NO_NETWORK.search(str(error)):
        return RetriableError(f"{path}: the store cannot be reached. Check its name, the endpoint and the network")
    return RetriableError(f"{path}: {type(error).__name__}: {_first_line(error)}")


def _environment_error(path: str, text: str) -> ConfigError | RetriableError | None:
    if _NO_HADOOP.search(text):
        return ConfigError(f"{path}: HDFS needs the libraries of Java and Hadoop. {_HADOOP_ADVICE}")
    if _AZURE_REFUSES.search(text):
        return RetriableError(f"{path}: Azure gives no access token. {_AZURE_ADVICE}")
    return _google_error(path, text) if _GOOGLE_REFUSES in text else None


def _google_error(path: str, text: str) -> ConfigError | RetriableError:
    if _NO_NETWORK.search(text):
        return RetriableError(f"{path}: Google gives no access token, or cannot be reached. {_GOOGLE_ADVICE}")
    return ConfigError(f"{path}: Google gives no access token. {_GOOGLE_ADVICE}")


def _errno(error: Exception) -> int | None:
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return number
    match = _OS_ERROR.search(str(error))
    return int(match[1] or match[2]) if match else None


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")[:500]


_LIST_TRIES = 10
"""Number of tries to list a folder that another process is creating."""


@dataclass(frozen=True)
class StoredFile:
    """A file below a folder.

    :param name: relative to the folder.
    :param modified: time of the last change, UTC.
    """

    name: str
    size_bytes: int
    modified: dt.datetime


class Folder:
    """A local path or a URL (``s3://``, ``gs://``, ``abfss://``, ``hdfs://``), with all files below it.

    :raises ConfigError: pyarrow has no filesystem for the URL.
    """

    def __init__(self, path: str) -> None:
        from pyarrow import ArrowInvalid, fs

        self.url = normalise_path(path)
        try:
            with translate_errors(self.url):
                is_google = self.url.startswith("gs://")
                limit = f"?retry_limit_seconds={_GOOGLE_LIMIT_SECONDS}" if is_google else ""
                self.filesystem, self.root = fs.FileSystem.from_uri(self.url + limit)
        except ArrowInvalid as error:
            raise ConfigError(f"{self.url}: no filesystem can serve this path ({_first_line(error)})") from None

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a filesystem of this machine."""
        return str(self.filesystem.type_name) == "local"

    def path_in_filesystem(self, name: str) -> str:
        """Return the path of a file within :attr:`filesystem`.

        :raises ConfigError: the name leads out of the folder.
        """
        if name.startswith("/") or ".." in name.split("/"):
            raise ConfigError(
                f"{name!r} leads out of {self.url}. This package wrote no such name. "
                "Check which programs can write there"
            )
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        with (
            translate_errors(self._full_name(name)),
            self.filesystem.open_input_stream(self.path_in_filesystem(name)) as stream,
        ):
            return bytes(stream.read())

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Write a whole file or nothing. Replaces a file with the same name.

        :param durable: survive a power cut.
        """
        target = self.path_in_filesystem(name)
        temporary = f"{target}.{uuid.uuid4().hex}.tmp" if self.is_local else target
        try:
            if self.is_local:
                self.filesystem.create_dir(posixpath.dirname(target), recursive=True)
            with self.filesystem.open_output_stream(temporary) as stream:
                stream.write(data)
            if durable and self.is_local:
                _flush(temporary)
            if temporary != target:
                self.filesystem.move(temporary, target)
            if durable:
                self.sync([name])
        except OSError as error:
            if temporary != target:
                with suppress(OSError):  # the first error is the one to report
                    self.filesystem.delete_file(temporary)
            raise storage_error(self._full_name(name), error) from error

    def copy(self, name: str, new_name: str) -> None:
        """Give an immutable file a second name: a hard link on a local disk, otherwise a copy."""
        source, target = self.path_in_filesystem(name), self.path_in_filesystem(new_name)
        with translate_errors(self._full_name(name)):
            if self.is_local:
                self.filesystem.create_dir(posixpath.dirname(target), recursive=True)
                with suppress(OSError):  # some disks have no hard links
                    os.link(source, target)
                    return
            try:
                self._copy(source, target)
            except OSError:
                # Each store has its own error for a missing object.
                if not self.exists(name):
                    raise FileNotFoundError(self._full_name(name)) from None
                raise

    def _copy(self, source: str, target: str) -> None:
        try:
            self.filesystem.copy_file(source, target)
        except NotImplementedError:  # HDFS has no copy
            with (
                self.filesystem.open_input_stream(source) as stream,
                self.filesystem.open_output_stream(target) as copy,
            ):
                shutil.copyfileobj(stream, copy, 1 << 20)

    def sync(self, names: Iterable[str]) -> None:
        """Flush files and their folders to a local disk. Skips missing files."""
        if not self.is_local:
            return
        # A folder only after its files and folders, so the root comes last.
        names_to_flush = dict.fromkeys(names)
        for folder in sorted({folder for name in names_to_flush for folder in _folders_of(name)}, reverse=True):
            names_to_flush[folder] = None
        for name in names_to_flush:
            with translate_errors(self._full_name(name)), suppress(FileNotFoundError):
                _flush(self.path_in_filesystem(name))

    def storage_time(self) -> dt.datetime:
        """Return the time of the clock that dates this folder's files."""
        probe = f"_connect/probe-{uuid.uuid4().hex}"
        self.write(probe, b"{}")
        written = self.entries([probe])
        self.delete(probe)
        if probe not in written:
            raise RetriableError(f"{self._full_name(probe)} was written, but the store does not list it")
        return written[probe].modified

    def files(self, name: str = "") -> list[StoredFile]:
        """Return all files below the folder ``name``, at any depth. [] if it does not exist."""
        from pyarrow import fs

        selector = fs.FileSelector(self.path_in_filesystem(name), recursive=True, allow_not_found=True)
        with translate_errors(self._full_name(name)):
            for tries_left in reversed(range(_LIST_TRIES)):
                try:
                    infos = self.filesystem.get_file_info(selector)
                    break
                except FileNotFoundError:
                    # pyarrow looks for a missing folder twice. This one was made in between, so it exists now.
                    if not tries_left:
                        raise
        return [self._entry(info) for info in infos if info.type == fs.FileType.File]

    def entries(self, names: list[str]) -> dict[str, StoredFile]:
        """Return the existing files among ``names``, by name."""
        from pyarrow import fs

        with translate_errors(self.url):
            infos = self.filesystem.get_file_info([self.path_in_filesystem(name) for name in names])
        return {
            name: self._entry(info) for name, info in zip(names, infos, strict=True) if info.type == fs.FileType.File
        }

    def exists(self, name: str = "") -> bool:
        """Return whether a file or folder exists."""
        from pyarrow import fs

        return bool(self._type(name) != fs.FileType.NotFound)

    def is_file(self, name: str = "") -> bool:
        """Return whether ``name`` is a file, not a folder."""
        from pyarrow import fs

        return bool(self._type(name) == fs.FileType.File)

    def _type(self, name: str) -> pafs.FileType:
        with translate_errors(self._full_name(name)):
            return self.filesystem.get_file_info(self.path_in_filesystem(name)).type

    def is_linked_outside(self, name: str) -> bool:
        """Return whether a symbolic link leads ``name`` out of a local folder."""
        if not self.is_local:
            return False
        inside = os.path.realpath(self.root)
        return bool(
            os.path.commonpath([inside, os.path.realpath(posixpath.dirname(self.path_in_filesystem(name)))]) != inside
        )

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with translate_errors(self._full_name(name)), suppress(FileNotFoundError):
            self.filesystem.delete_file(self.path_in_filesystem(name))

    def delete_folder(self, name: str) -> None:
        """Delete a folder with all files below it, if it exists."""
        with translate_errors(self._full_name(name)):
            try:
                self.filesystem.delete_dir(self.path_in_filesystem(name))
            except OSError:
                # GCS has no empty folders, and pyarrow no error class for a missing one.
                if self.exists(name):
                    raise

    def _entry(self, info: pafs.FileInfo) -> StoredFile:
        modified = dt.datetime.fromtimestamp((info.mtime_ns or 0) / 1e9, dt.UTC)
        return StoredFile(info.path[len(self.root.rstrip("/")) + 1 :], int(info.size), modified)

    def _full_name(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url
