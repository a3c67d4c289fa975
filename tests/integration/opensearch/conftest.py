"""A bench with an empty alias in a real OpenSearch, for each test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.sinks.opensearch import OpenSearchSink
from airflow_provider_connect.testing.bench import DAYS, KEY, SCHEMA, Bench
from tests.equipment.opensearch.node import OpenSearchNode, opensearch
from tests.equipment.opensearch.target import opensearch_sink_target

__all__ = ["opensearch"]


@pytest.fixture
def benches(opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function from options to a bench."""
    with contextlib.ExitStack() as stack:

        def opened(**options: Any) -> Bench:
            sink = OpenSearchSink(alias="tested", **options)
            target = stack.enter_context(opensearch_sink_target(opensearch, sink, monkeypatch))
            publisher = stack.enter_context(sink.open(KEY, target.connections))
            assert publisher.preflight(SCHEMA, DAYS, "day") == []
            return Bench(target, publisher, tmp_path)

        yield opened
