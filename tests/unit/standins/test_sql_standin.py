"""The demo's shop: what the source reads of its file is what the demo compares with."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day
from tests.demo.sql_origin import SqlOrigin
from tests.standins.sql.__main__ import main
from tests.standins.sql.shop import Shop

DATES = [dt.date(2026, 10, 5), dt.date(2026, 10, 6)]


def test_the_shop_is_read_as_it_was_written(tmp_path: Path) -> None:
    origin = SqlOrigin()
    arguments = origin.arguments(tmp_path, DATES, "UNUSED")
    assert main([*arguments, "--orders-per-day", "50", "--port-file", str(tmp_path / "port")]) == 0
    assert (tmp_path / "port").read_text() == "0\n"
    fields = origin.connection(0, "")
    connection = Connection(conn_id=fields["connection_id"], conn_type=fields["conn_type"], host=fields["host"])
    source = SqlSource(conn_id="shop_db", table="orders", day_column="created_at")
    assert source.check(connection) == []
    with source.open(connection, PollContext()) as poller:
        (part,) = poller.plan([Day(date=DATES[1])])
        found = [row for _, batch in poller.poll(part, Tally(part.days)) for row in batch.to_pylist()]
    expected = Shop(seed=origin.served.seed, orders_per_day=50).orders(DATES[1])
    assert [(row["id"], row["cents"], row["created_at"].isoformat(" ")) for row in found] == [
        (row["id"], row["cents"], row["created_at"]) for row in expected
    ]
