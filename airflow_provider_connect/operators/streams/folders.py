"""Creates the folders of streams below the folder that a person has named, on a local disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.storage import normalise_path

if TYPE_CHECKING:
    from airflow_provider_connect.operators.run import RunSpec


def make_stream_folders(task_spec: RunSpec, spec: RunSpec, master: str) -> None:
    """Create the folders in which a stream's target and stage lie: ``public`` of ``/data/lake/{schema}/{table}``.

    Their common folder must exist: a mistyped or unmounted one is not created.

    :param task_spec: inputs of the task, with ``{schema}`` and ``{table}`` in the sink.
    :param spec: inputs of the stream.
    :raises ConfigError: the common folder is missing, or this user cannot write it.
    """
    sink = task_spec.sink
    stage_root = spec.sink.stage_root(spec.connections)
    if stage_root is not None:
        template = str(getattr(sink, sink.stream_option))
        _make_parent(stage_root, normalise_path(template.partition("{")[0].rpartition("/")[0] or "/"))
    elif spec.staging and task_spec.staging and master.startswith("local"):
        _make_parent(spec.staging, normalise_path(task_spec.staging).rpartition("/")[0] or "/")


def _make_parent(location: str, common_folder: str) -> None:
    path = normalise_path(location)
    if not path.startswith("/"):
        return
    if not Path(common_folder).is_dir():
        raise ConfigError(f"folder {common_folder!r} does not exist. Create it, or correct the path {path!r}")
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"folder {str(Path(path).parent)!r} cannot be created: {error.strerror}") from None
