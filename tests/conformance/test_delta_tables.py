"""Sink suite over a Delta sink whose path is a template. Readers see the union of its tables."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.sink import Sink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.testing import SinkConformance, Target
from tests.equipment.delta.lab import age

pytestmark = pytest.mark.slow  # `test_sinks` has a Delta sink among the fast tests


class TestDeltaTables(SinkConformance):
    @pytest.fixture
    def connector(self, target: Target) -> Sink:
        return target.sink

    @pytest.fixture
    def target(self, tmp_path: Path) -> Target:
        root = tmp_path / "lake"

        def rows() -> list[tuple[dt.date, str]]:
            visible = []
            for log in root.glob("[!_]*/_delta_log"):
                table = DeltaTable(str(log.parent)).to_pyarrow_table(columns=["day", "event"])
                visible += [(row["day"], row["event"]) for row in table.to_pylist()]
            return visible

        return Target(sink=DeltaSink(path=f"{root}/{{event}}"), rows=rows, age=lambda: age(root))
