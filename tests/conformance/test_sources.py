"""The source suite over every source of ours, and over every stream of those that have several."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import Source
from airflow_provider_connect.testing import Served, SourceConformance
from tests.conformance.conftest import DOCS, STREAM_OPTIONS, example, form_extra


def streams() -> list[tuple[str, str]]:
    """Return every source's name with each of its streams; "" where it has one only."""
    found = []
    for name in registry.names("sources"):
        field = registry.source_class(name).model_fields.get("stream")
        found += [(name, stream) for stream in (get_args(field.annotation) if field else ())] or [(name, "")]
    return found


def params() -> Iterator[Any]:
    """Yield every stream; one of each source is among the fast tests."""
    seen: set[str] = set()
    for name, stream in streams():
        yield pytest.param((name, stream), id=f"{name}-{stream}", marks=[pytest.mark.slow] * (name in seen))
        seen.add(name)


PARAMS = [*params()]
# One whose requests serve several days.
TOGETHER = ("mixpanel", "export", {"days_per_request": 3})
PARAMS.append(pytest.param(TOGETHER, id="mixpanel-export-together", marks=pytest.mark.slow))
PARAMS.append(pytest.param(("sql", "", {"snapshot": "replace", "day_column": None}), id="sql-snapshot"))


class TestSources(SourceConformance):
    @pytest.fixture(params=PARAMS)
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> Source:
        name, stream, *more = request.param
        options = ({"stream": stream} if stream else {}) | STREAM_OPTIONS.get((name, stream), {})
        if name == "rest":
            options["retry_budget_seconds"] = 0  # a page that fails is not asked for again
        return example(registry.source_class(name), tmp_path, **options | (more[0] if more else {}))

    @pytest.fixture
    def page(self, source: Source) -> str:
        more = DOCS / f"{source.name.replace('_', '-')}.md"
        face = importlib.import_module(type(source).__module__).__doc__ or ""
        return face + (more.read_text(encoding="utf-8") if more.exists() else "")

    @pytest.fixture
    def place(self, source: Source) -> dict[str, str]:
        return {"host": "127.0.0.1", "path": "shop"} if source.name == "sql" else {"host": "http://127.0.0.1"}

    @pytest.fixture
    def described(self, source: Source, connection: Connection, request: pytest.FixtureRequest) -> Connection:
        served: Served | None = request.getfixturevalue("served") if source.name == "sql" else None
        return connection if served is None else served.connection

    @pytest.fixture
    def extra(self, source: Source) -> dict[str, str | None]:
        return form_extra(source.connection_types[0])

    @pytest.fixture
    def served(self, source: Source, request: pytest.FixtureRequest) -> Served | None:
        try:
            return request.getfixturevalue(f"{source.name}_served")
        except pytest.FixtureLookupError:
            return None
