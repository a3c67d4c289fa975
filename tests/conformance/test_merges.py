"""Merge suite over every sink with ``write_mode="merge"``."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider_connect.sink import Sink
from airflow_provider_connect.testing import MergeConformance, Target

NAMES = [pytest.param("bigquery", marks=pytest.mark.slow), "delta"]


class TestMerges(MergeConformance):
    @pytest.fixture
    def connector(self, target: Target) -> Sink:
        return target.sink

    @pytest.fixture(params=NAMES)
    def target(self, request: pytest.FixtureRequest) -> Target:
        target = request.getfixturevalue(f"{request.param}_target")
        sink = type(target.sink)(**target.sink.model_dump() | {"write_mode": "merge", "key": ("event",)})
        return dataclasses.replace(target, sink=sink)
