"""Tables of a real PostgreSQL under a real spark-submit: a snapshot in chunks and days, whole in Delta."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.servers import PASSWORD

pytestmark = pytest.mark.slow

ROWS = 120_000
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'connect %' AND datname = current_database()"
)


def test_a_snapshot_in_chunks_and_days_are_whole_in_delta(submit: Any, postgresql: OwnDatabase) -> None:
    submit.source_name = "sql"
    connection = postgresql.connection(conn_id="sql_default")
    postgresql.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(12,2), at timestamptz NOT NULL)",
        "INSERT INTO orders SELECT n::bigint * n, 'customer ' || n % 97, n / 100.0, "
        f"timestamptz '2026-10-05 00:00+00' + n * interval '1 second' FROM generate_series(0, {ROWS - 1}) AS s (n)",
    )
    (expected,) = postgresql.run("SELECT count(*), sum(amount), max(id) FROM orders")
    whole = {"table": "orders", "snapshot": "replace"}
    ended = submit.run(["2026-10-07"], source=whole, connection=connection)
    assert ended.process.returncode == 0, ended.output
    table = DeltaTable(str(submit.table)).to_pyarrow_table()
    assert (table.num_rows, pc.sum(table["amount"]).as_py(), pc.max(table["id"]).as_py()) == expected
    assert pc.count_distinct(table["record_key"]).as_py() == ROWS
    assert len(DeltaTable(str(submit.table)).file_uris()) == 2, "a file for each chunk"

    by_day = {"table": "orders", "day_column": "at", "stream": "orders_by_day"}
    path = str(submit.tmp / "by_day")
    days = ["2026-10-05", "2026-10-06"]
    ended = submit.here(days, source=by_day, sink={"path": path}, connection=connection)
    assert ended.report.exit_code == 0, ended.output
    found = DeltaTable(path).to_pyarrow_table(columns=["day", "id", "record_key"])
    counts = {str(row["values"]): row["counts"] for row in found["day"].value_counts().to_pylist()}
    assert counts == {days[0]: 86_400, days[1]: ROWS - 86_400}
    assert set(found["record_key"].to_pylist()) <= set(table["record_key"].to_pylist()), "keys differ by mode"
    assert PASSWORD not in ended.output
    assert postgresql.run(SESSIONS) == [(0,)], "a session lives on"
