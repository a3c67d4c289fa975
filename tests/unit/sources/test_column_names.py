"""What a source's options say of its columns is what its rows have."""

from __future__ import annotations

import pytest

from airflow_provider_connect.capabilities.source import NamesColumns
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import PollContext, Source
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.rest import Single
from airflow_provider_connect.sources.x_search import XSearchSource
from tests.equipment.rest_api.reading import declared

CONNECTION = Connection(conn_id="source", login="name", password="secret", host="http://127.0.0.1:9")


@pytest.mark.parametrize(
    "source",
    [
        MixpanelSource(promote={"$browser": ("browser", "string")}),
        MixpanelSource(stream="engage"),
        XSearchSource(conn_id="source", queries=("airflow",)),
        declared("/items", Single()),
    ],
    ids=["mixpanel export", "mixpanel engage", "x_search", "rest"],
)
def test_the_names_are_those_of_the_schema(source: Source) -> None:
    with source.open(CONNECTION, PollContext()) as poller:
        assert isinstance(source, NamesColumns)
        assert list(source.column_names() or ()) == poller.schema().names
