"""The source suite over every source of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.source import Source
from airflow_provider_connect.testing import Served, SourceConformance
from tests.conformance.conftest import example, form_extra


class TestSources(SourceConformance):
    @pytest.fixture(params=registry.names("sources"))
    def source(self, request: pytest.FixtureRequest, tmp_path: Path) -> Source:
        return example(registry.source_class(request.param), tmp_path)

    @pytest.fixture
    def extra(self, source: Source) -> dict[str, str | None]:
        return form_extra(source.connection_types[0])

    @pytest.fixture
    def served(self, source: Source, request: pytest.FixtureRequest) -> Served | None:
        try:
            return request.getfixturevalue(f"{source.name}_served")
        except pytest.FixtureLookupError:
            return None
