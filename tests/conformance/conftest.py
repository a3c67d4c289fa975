"""Instances of every connector file, built from the examples and defaults of its options.

A new file in ``sources/`` or ``sinks/`` is included automatically. Its required options need
``Field(examples=[…])``. A sink needs a fixture ``<name>_target``, a source with a server a fixture
``<name>_served``. The example connection comes from the connection form in ``provider_info``. Absolute example paths
move under ``tmp_path``.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.provider_info import get_provider_info
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.opensearch import OpenSearchSink
from airflow_provider_connect.sources.kafka import KafkaSource
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.sources.x_search import XSearchSource
from airflow_provider_connect.testing import Served, Target
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import NEEDED
from tests.equipment.opensearch.node import OpenSearchNode, opensearch
from tests.equipment.opensearch.target import opensearch_sink_target
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.server import Answer, RestApi
from tests.equipment.rest_api.server import Request as RestRequest
from tests.equipment.sql.orders import write_orders
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn as XStandIn

__all__ = ["opensearch"]

EXAMPLE_NUMBER = "12345"
DOCS = Path(__file__).parents[2] / "docs"

STREAM_OPTIONS = {("mixpanel", stream): options for stream, options in NEEDED.items()} | {
    ("sql", ""): {"table": "orders", "day_column": "created_at"},
    ("kafka", ""): {"topics": ["orders"], "timeout_seconds": 3.0},
}
"""Options that a stream requires, by source and stream."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that interrupt every request of a step as slow. They send a thousand requests each."""
    for item in items:
        if "gate" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def example(cls: type[Options], folder: Path, **options: Any) -> Any:
    """Build an instance. Required options get their first example unless given."""
    for name, field in cls.model_fields.items():
        if field.is_required():
            assert field.examples, f"{cls.__name__}.{name} is required and has no Field(examples=[…])"
            options[name] = _moved(field.examples[0], folder)
    return cls(**options)


def _moved(value: Any, folder: Path) -> Any:
    if not (isinstance(value, str) and value.startswith("/")):
        return value
    path = folder / value.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def form_extra(connection_type: str) -> dict[str, str | None]:
    """Return each extra field of the connection form, with a valid value if it is required."""
    types = {entry["connection-type"]: entry for entry in get_provider_info()["connection-types"]}
    fields = types.get(connection_type, {}).get("conn-fields", {})  # Airflow's own connection types have none
    return {name: _good(field["schema"]) for name, field in fields.items()}


def _good(schema: dict[str, Any]) -> str | None:
    if "enum" in schema:
        return str(schema["enum"][0])
    if "default" in schema:
        return str(schema["default"])
    return EXAMPLE_NUMBER if re.search(schema.get("pattern", "(?!)"), EXAMPLE_NUMBER) else None


@pytest.fixture
def delta_target(tmp_path: Path) -> Target:
    sink = example(DeltaSink, tmp_path)

    def rows() -> list[tuple[dt.date, str]]:
        from deltalake import DeltaTable

        if not (Path(sink.path) / "_delta_log").exists():
            return []
        table = DeltaTable(sink.path).to_pyarrow_table(columns=["day", "event"])
        return [(row["day"], row["event"]) for row in table.to_pylist()]

    return Target(sink=sink, rows=rows)


@pytest.fixture
def opensearch_target(opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    with opensearch_sink_target(opensearch, example(OpenSearchSink, tmp_path), monkeypatch) as target:
        yield target


@pytest.fixture(scope="session")
def mixpanel() -> Iterator[StandIn]:
    project = Project(seed=5, events_per_day=300, duplicates_per_day=20, missing_ids_per_day=3)
    with StandIn(project, people=People(users=250), engage=Engage(page_size=100)) as standin:
        yield standin


@pytest.fixture
def mixpanel_served(source: MixpanelSource, mixpanel: StandIn) -> Served:
    account, date = mixpanel.account, mixpanel.today - dt.timedelta(days=30)
    connection = Connection(
        conn_id="mixpanel_default",
        conn_type="mixpanel",
        host="http://127.0.0.1",
        port=mixpanel.port,
        login=account.username,
        password=account.secret,
        extra={"project_id": str(account.project_id)},
    )
    people, reports = mixpanel.people, mixpanel.reports
    rows = {
        "export": lambda: len(mixpanel.project.expected_rows(date)),
        "engage": people.count,
        "cohorts": lambda: len(people.cohorts),
        "cohort_members": lambda: sum(map(people.members, people.cohorts)),
        "annotations": lambda: len(reports.annotations),
        "funnels": lambda: sum(len(funnel.events) for funnel in reports.funnels),
        "retention": lambda: 8,
        "insights": lambda: 6,
        "segmentation": lambda: 3,
    }
    return Served(connection, Day(date=date), rows=rows[source.stream]())


@pytest.fixture
def rest_served() -> Iterator[Served]:
    """Serve the issues of the source page's example. Links are in a header, and some issues are of other days."""
    later_items = items_of(DATE + dt.timedelta(days=1), 25, first_id=100)
    issues = [
        {"id": item["id"], "title": item["name"], "updated_at": item["at"], "body": "x" * 200}
        for item in [*items_of(DATE, 45), *later_items]
    ]
    with RestApi() as api:

        def page(request: RestRequest) -> Answer:
            start = int(request.first("from", "0"))
            link = (
                f'<{request.path}?from={start + 20}>; rel="next"'  # relative, because some cases put a proxy in between
            )
            return Answer(issues[start : start + 20], headers={"Link": link} if start + 20 < len(issues) else {})

        api.faults.append(page)
        yield Served(api.connection, Day(date=DATE), rows=45)


@pytest.fixture
def sql_served(source: SqlSource, tmp_path: Path) -> Served:
    """Create the table of the source's page in SQLite, with two days."""
    file, day = tmp_path / "shop.db", Day(date=DATE)
    rows_by_day = {day: 45, Day(date=DATE + dt.timedelta(days=1)): 30}
    rows = sum(rows_by_day.values()) if source.kind == "snapshot" else rows_by_day[day]
    write_orders(file, {served_day.date: count for served_day, count in rows_by_day.items()})
    return Served(Connection(conn_id=source.conn_id, conn_type="sqlite", host=str(file)), day, rows)


@pytest.fixture
def kafka_served(source: KafkaSource, broker: KafkaBroker, kafka_connection: Connection) -> Iterator[Served]:
    """Write the orders of the source page's example into a topic of that name."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    names = list(source.topics or ())
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(45):
        producer.produce(names[0], json.dumps({"id": number, "amount": 1.25}).encode(), str(number))
    assert producer.flush(30) == 0
    yield Served(kafka_connection, Day(date=DATE), rows=45)
    for future in admin.delete_topics(names).values():
        future.result(30)


@pytest.fixture(scope="session")
def x() -> Iterator[XStandIn]:
    with XStandIn(Timeline(seed=5, posts_per_day=150, deleted_per_day=5, gone_references_per_day=5)) as standin:
        yield standin


@pytest.fixture
def x_search_served(source: XSearchSource, x: XStandIn) -> Served:
    date = x.now().date() - dt.timedelta(days=30)
    connection = Connection(
        conn_id="x_default",
        conn_type="x",
        host="http://127.0.0.1",
        port=x.port,
        password=x.app.token,
        extra={"limits": {"all": {"per_second": 1000}}},
    )
    post_ids = x.timeline.truth(date, *source.queries)
    posts = [post.document for post in x.timeline.posts_of_day(date) if post.id in post_ids]
    referenced_ids = {reference["id"] for post in posts for reference in post.get("referenced_posts", [])}
    rows = {
        "posts": post_ids,
        "users": {post["author_id"] for post in posts}
        | ({"1003"} if referenced_ids else set()),  # author of the referenced posts
        "media": {key for post in posts for key in post.get("attachments", {}).get("media_keys", [])},
        "referenced": {reference for reference in referenced_ids if not reference.startswith("9")},
    }
    return Served(connection, Day(date=date), rows=len(rows[source.stream]))
