"""Reads DAG files from Airflow's bundles, for commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError

_ERROR_LINE = re.compile(r"^(?:[\w]+\.)*(\w+: .*)", re.DOTALL | re.MULTILINE)


@dataclass
class DagFiles:
    """DAGs by id, and by file name the errors of files that cannot be imported."""

    dags: dict[str, Any] = field(default_factory=dict)
    import_errors: dict[str, str] = field(default_factory=dict)

    def require(self, dag_id: str) -> Any:
        """Return a DAG.

        :raises ConfigError: no file declares it.
        """
        if dag_id in self.dags:
            return self.dags[dag_id]
        if self.import_errors:
            errors = "\n".join(f"{file}: {error}" for file, error in sorted(self.import_errors.items()))
            raise ConfigError(f"no DAG {dag_id!r}. These files cannot be imported:\n{errors}")
        raise ConfigError(f"no DAG {dag_id!r}; {suggest_nearest(dag_id, self.dags)}")


def read_dag_files(bundles: Sequence[str], dag_id: str | None = None) -> DagFiles:
    """Read the DAG files of bundles, up to the bundle that has ``dag_id``.

    :param bundles: empty for all.
    :param dag_id: the only DAG that is needed, if set.
    :raises ConfigError: a bundle is unknown.
    """
    manager: Any = DagBundlesManager()  # type: ignore[no-untyped-call]
    files = DagFiles()
    known_names = list(manager.get_all_bundle_names())
    for name in bundles or known_names:
        if name not in known_names:
            raise ConfigError(f"no DAG bundle {name!r}; {suggest_nearest(name, known_names)}")
        bundle = manager.get_bundle(name)
        bundle.initialize()
        with _airflow_parsing_context_manager(dag_id=dag_id):
            bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
        files.dags |= bag.dags
        files.import_errors |= {
            _relative(file, bundle.path): _error_of(text) for file, text in bag.import_errors.items()
        }
        if dag_id in files.dags:
            break
    return files


def _relative(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_absolute() and path.is_relative_to(folder) else file


def _error_of(traceback_text: str) -> str:
    match = _ERROR_LINE.search(traceback_text)
    return (match.group(1) if match else traceback_text).strip()
