"""Sink suite over every sink of the package. Cases that need no target run without a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.testing import SinkConformance, Target
from tests.conformance.conftest import example

SERVED = {"bigquery", "kafka", "opensearch"}
"""Sinks whose fixture ``<name>_target`` starts a server."""

NAMES = registry.names("sinks")


class TestSinks(SinkConformance):
    @pytest.fixture(params=NAMES)
    def connector(self, request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
        return example(registry.sink_class(request.param), tmp_path)

    @pytest.fixture(params=[pytest.param(n, marks=[pytest.mark.slow] * (n in SERVED)) for n in NAMES])
    def target(self, request: pytest.FixtureRequest) -> Target:
        return request.getfixturevalue(f"{request.param}_target")
