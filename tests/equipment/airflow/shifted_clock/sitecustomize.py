"""Sets the clock by which a Spark job says when it polled to CONNECT_TEST_NOW: a month of runs does not take a month.

Python imports this by itself where its folder is on PYTHONPATH. Of all modules only the one that asks for the source is
given another clock: C extensions do not bear another class of datetime.
"""

import datetime
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence

_POLLS = "airflow_provider_connect.spark.days.stager"
_SHIFT = datetime.datetime.fromisoformat(os.environ["CONNECT_TEST_NOW"]) - datetime.datetime.now(datetime.UTC)


class _Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return datetime.datetime.now(tz) + _SHIFT


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _POLLS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def shifted(module: types.ModuleType) -> None:
            execute(module)
            module.__dict__["dt"] = types.SimpleNamespace(datetime=_Shifted, UTC=datetime.UTC)

        spec.loader.exec_module = shifted  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())
