"""The entries of ``shape``: each a shape's name in lower case, with its options."""

from __future__ import annotations

import importlib
import inspect
from importlib.util import find_spec

from airflow_provider_connect.config import Options

_ROOM = "airflow_provider_connect.shapes"


def shapes() -> dict[str, type[Options]]:
    """Return all shapes by the names that they have in a file: ``drop`` for ``Drop``."""
    if find_spec(_ROOM) is None:
        return {}
    room = importlib.import_module(_ROOM)
    found = [getattr(room, name) for name in room.__all__]
    return {
        value.__name__.lower(): value
        for value in found
        if inspect.isclass(value) and issubclass(value, Options) and not inspect.isabstract(value)
    }
