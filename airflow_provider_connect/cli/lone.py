"""A source of the command's own arguments, without a DAG: ``--source``, ``--options`` and ``--conn-id``."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.pipelines.files import read
from airflow_provider_connect.source import Source


def lone_source(args: Namespace) -> Source | None:
    """Return the source that the arguments declare; None if they name a DAG.

    :raises ConfigError: neither or both are named, or the options are wrong.
    """
    if (args.source is None) == (args.dag_id is None):
        raise ConfigError("name a DAG, or a connector with --source")
    if args.source is None:
        if args.options is not None or args.conn_id is not None:
            raise ConfigError("--options and --conn-id belong to --source; a DAG declares its own")
        return None
    override = {} if args.conn_id is None else {"conn_id": args.conn_id}
    return _source(registry.source_class(args.source), args.options or "{}", override)


def _source(cls: type[Source], text: str, override: dict[str, Any]) -> Source:
    if text.lstrip().startswith("{"):
        return cls.of(_json(text) | override)
    path = Path(text).absolute()
    from_file = getattr(cls, "from_file", None)
    if from_file is not None:
        source: Source = from_file(path, **override)
        return source
    file = read(path, text)
    if file.problems:
        raise ConfigError("\n".join(map(str, file.problems)))
    return cls.of(file.values | override)


def _json(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ConfigError('--options must be a file or a JSON object: {"conn_id": "shop_db", "table": "orders"}')
    return options
