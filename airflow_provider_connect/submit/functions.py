"""How a function of a DAG file travels to the driver: pickled, with all that the driver cannot import.

It is pickled by PySpark's own cloudpickle, which is what unpickles it, and only by a task that runs. Modules are
pickled by value unless the driver finds them by itself: a DAG file, and what lies beside it, has names and paths that
only Airflow's processes know. (``cloudpickle`` alone would be one library more on both sides, with its own version.)
"""

from __future__ import annotations

import base64
import os
import pickle
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage.transform import Function, Given, PickledFunction, Transform, of_text
from airflow_provider_connect.submit import saying

MOST_BYTES = 10_000_000
"""A function that is larger has data in it, which belongs into a table."""
_OWN = Path(__file__).parents[1]


def shipped(transform: str | Given | None) -> Transform | None:
    """Return ``transform=`` as the driver gets it.

    :raises ConfigError: a function cannot be pickled, or is too large.
    """
    if transform is None or isinstance(transform, str):
        return None if transform is None else of_text(transform)
    name = str(transform).removesuffix("()")
    data = _pickled(transform.function, name)
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"transform={name}: pickled, the function takes {len(data):,} bytes, and {MOST_BYTES:,} is the most: it "
            "closes over data; read it in the function, from a table"
        )
    text = base64.b64encode(data).decode()
    sent = PickledFunction(name=name, python=python_version(), digest=saying.digest(data), pickle=text)
    return Transform(function=sent)


def python_version() -> str:
    """Return the version of Python that decides whether another one reads its bytecode."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _pickled(function: Function, name: str) -> bytes:
    cloudpickle = _cloudpickle()
    try:
        with _by_value(cloudpickle):
            return bytes(cloudpickle.dumps(function))
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"transform={name}: the function cannot be pickled ({type(error).__name__}): it uses something that does "
            "not travel, such as an open connection or a lock; make that in the function, or put the function into a "
            "module that the driver can import, and name it: transform='package.module:function'"
        ) from None


def _cloudpickle() -> Any:
    from pyspark import cloudpickle  # noqa: PLC0415  # not for a DAG file

    return cloudpickle


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """Have modules pickled by value that the driver cannot import."""
    theirs = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType) and _stays(module)]
    before = set(cloudpickle.cloudpickle.list_registry_pickle_by_value())
    # By name, for one module may be there under several: multiprocessing calls __main__ __mp_main__, too.
    added = {
        module.__name__: module
        for module in theirs
        if module.__name__ not in before and sys.modules.get(module.__name__) is module
    }.values()
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)


def _stays(module: ModuleType) -> bool:
    """Whether a module is known to this process alone: it is neither installed, nor found by its name elsewhere."""
    file = getattr(module, "__file__", None)
    if file is None or any(Path(file).is_relative_to(place) for place in _installed()):
        return False
    name = Path(*module.__name__.split("."))
    found = {name.with_suffix(".py"), name / "__init__.py"}
    entries = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return not any(Path(entry) / each == Path(file) for entry in entries for each in found)


@cache
def _installed() -> tuple[Path, ...]:
    """Return where installed packages lie, by either name of a folder that is reached by a link."""
    named = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (_OWN, *named, *(path.resolve() for path in named))
