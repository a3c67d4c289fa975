"""Source suite over every source of the package and each of its streams."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import Source
from airflow_provider_connect.testing import Served, SourceConformance
from tests.conformance.conftest import DOCS, STREAM_OPTIONS, example, form_extra


def streams() -> list[tuple[str, str]]:
    """List every source with each of its streams. The stream is "" if the source has only one."""
    names = []
    for name in registry.names("sources"):
        field = registry.source_class(name).model_fields.get("stream")
        names += [(name, stream) for stream in (get_args(field.annotation) if field else ())] or [(name, "")]
    return names


SIGNED_IN: Mapping[str, str | None] = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
REAL_SERVERS = ("kafka",)
"""Sources that only a real server can serve, which takes seconds to start."""


def params() -> Iterator[Any]:
    """Yield every stream. Only the first stream of each source is among the fast tests."""
    sources: set[str] = set()
    for name, stream in streams():
        is_slow = name in sources or name in REAL_SERVERS
        yield pytest.param((name, stream), id=f"{name}-{stream}", marks=[pytest.mark.slow] * is_slow)
        sources.add(name)


PARAMS = [*params()]
# A source whose requests serve several days.
TOGETHER = ("mixpanel", "export", {"days_per_request": 3})
PARAMS.append(pytest.param(TOGETHER, id="mixpanel-export-together", marks=pytest.mark.slow))
PARAMS.append(pytest.param(("sql", "", {"snapshot": "replace", "day_column": None}), id="sql-snapshot"))


class TestSources(SourceConformance):
    @pytest.fixture(params=PARAMS)
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> Source:
        name, stream, *extra_options = request.param
        options = ({"stream": stream} if stream else {}) | STREAM_OPTIONS.get((name, stream), {})
        if name == "rest":
            options["retry_budget_seconds"] = 0  # a failed page is not retried
        return example(registry.source_class(name), tmp_path, **options | (extra_options[0] if extra_options else {}))

    @pytest.fixture
    def page(self, source: Source) -> str:
        guide = DOCS / f"{source.name.replace('_', '-')}.md"
        module_page = importlib.import_module(type(source).__module__).__doc__ or ""
        return module_page + (guide.read_text(encoding="utf-8") if guide.exists() else "")

    @pytest.fixture
    def place(self, source: Source) -> dict[str, str]:
        places = {"sql": {"host": "127.0.0.1", "path": "shop"}, "kafka": {"host": "127.0.0.1"}}
        return places.get(source.name, {"host": "http://127.0.0.1"})

    @pytest.fixture
    def described(self, source: Source, connection: Connection, request: pytest.FixtureRequest) -> Connection:
        served: Served | None = request.getfixturevalue("served") if source.name in ("sql", "kafka") else None
        return connection if served is None else served.connection

    @pytest.fixture
    def extra(self, source: Source) -> Mapping[str, str | None]:
        return SIGNED_IN if source.name == "kafka" else form_extra(source.connection_types[0])

    @pytest.fixture
    def served(self, source: Source, request: pytest.FixtureRequest) -> Served | None:
        try:
            return request.getfixturevalue(f"{source.name}_served")
        except pytest.FixtureLookupError:
            return None
