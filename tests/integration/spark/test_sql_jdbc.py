"""A real database behind a JDBC driver under a real spark-submit: Apache Derby, which comes with Spark."""

from __future__ import annotations

import datetime as dt
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.clients.sql.database import SqlColumn
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.keys import keys_as_hex
from airflow_provider_connect.sources._sql.keys import key_bytes, key_class
from airflow_provider_connect.submit import launch

pytestmark = pytest.mark.slow

PASSWORD = "canary-of-derby"
DAY = "2026-03-29"
DOUBLINGS = 17
LAST = 9223372036854775807
COLUMNS = (
    '"Quote""d" decimal(31,10), s smallint, i int, r real, d double, c char(5), v varchar(20), l clob, b blob, '
    "f boolean, day_of date, moment timestamp"
)
EXTREMES = [
    f"({LAST}, 999999999999999999999.9999999999, -32768, -2147483648, 1.5, 4.9E-320, 'ab', 'it''s \"é\"', 'long', "
    "cast(x'00ff' as blob), true, date('1500-02-28'), timestamp('2026-03-29 02:30:00.123456789'))",
    f"({-LAST}, -0.0000000001, 32767, 2147483647, -1.5, 1.7976931348623157E308, '', '', '', "
    "cast(x'' as blob), false, date('9999-12-31'), timestamp('2026-03-29 00:00:00'))",
    "(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, timestamp('2026-03-29 23:59:59.999999999'))",
    "(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, timestamp('2026-03-30 00:00:00'))",
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
]


def _log(folder: Path) -> str:
    return f"-Dderby.stream.error.file={folder / 'derby.log'}"


@pytest.fixture(scope="module")
def derby(tmp_path_factory: pytest.TempPathFactory) -> Connection:
    """A database that asks for a password, with a table of extreme values and one of many rows."""
    tmp_path = tmp_path_factory.mktemp("derby")
    url, jars = f"jdbc:derby:{tmp_path / 'shop'}", Path(pyspark.__file__).parent / "jars"
    doubled = [f'INSERT INTO "many" SELECT "Id" + {2**n}, n FROM "many"' for n in range(DOUBLINGS)]
    statements = [
        f"CONNECT '{url};create=true'",
        f'CREATE TABLE "extremes" ("Id" bigint NOT NULL PRIMARY KEY, {COLUMNS})',
        *(f'INSERT INTO "extremes" VALUES {row}' for row in EXTREMES),
        'CREATE TABLE "many" ("Id" bigint NOT NULL PRIMARY KEY, n int)',
        'INSERT INTO "many" VALUES (0, 1)',
        *doubled,
        f'INSERT INTO "many" VALUES ({LAST}, 2), ({-LAST}, NULL)',
        'CREATE TABLE "numbers" (n int)',
        'INSERT INTO "numbers" VALUES 0',
        # From the next start of the database on, a password is asked for.
        f"CALL SYSCS_UTIL.SYSCS_CREATE_USER('APP', '{PASSWORD}')",
    ]
    script = tmp_path / "made.sql"
    script.write_text("".join(f"{each};\n" for each in statements))
    java = launch.java_home(tmp_path) / "bin" / "java"
    log = _log(tmp_path)
    made = subprocess.run(
        [java, log, "-cp", ":".join(map(str, jars.glob("derby*.jar"))), "org.apache.derby.tools.ij", script],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "ERROR" not in made.stdout, made.stdout
    return Connection(conn_id="sql_default", conn_type="jdbc", host=url, login="APP", password=PASSWORD)


def test_days_and_snapshots_of_any_database_are_exact_and_tell_no_secret(
    submit: Any, derby: Connection, tmp_path: Path
) -> None:
    submit.source_name = "sql"
    submit.conf = {
        "spark.driver.extraJavaOptions": f"{_log(tmp_path)} -Duser.timezone=Europe/Berlin",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(tmp_path / "events"),
    }
    (tmp_path / "events").mkdir()
    by_day = {"table": "extremes", "day_column": "MOMENT", "retry_budget_seconds": 0}
    ended = submit.run([DAY], source=by_day, connection=derby)
    assert ended.process.returncode == 0, ended.output
    rows = DeltaTable(str(submit.table)).to_pyarrow_table().sort_by("Id").to_pylist()
    least, none, most = ({name: row[name] for name in row if name not in ("day", "record_key")} for row in rows)
    assert most == {
        "Id": LAST, 'Quote"d': Decimal("999999999999999999999.9999999999"), "S": -32768, "I": -(2**31), "R": 1.5,
        "D": 4.9e-320, "C": "ab   ", "V": 'it\'s "é"', "L": "long", "B": b"\0\xff", "F": True,
        "DAY_OF": dt.date(1500, 2, 28), "MOMENT": dt.datetime.fromisoformat("2026-03-29 02:30:00.123456"),
    }  # fmt: skip
    assert (least['Quote"d'], least["D"], least["V"], least["DAY_OF"]) == (
        Decimal("-0.0000000001"), 1.7976931348623157e308, "", dt.date(9999, 12, 31),
    )  # fmt: skip
    assert {name for name, value in none.items() if value is not None} == {"Id", "MOMENT"}
    # The keys are those of this package's own readers.
    ids, column = pa.array([row["Id"] for row in rows], pa.int64()), SqlColumn("id", "bigint", "bigint")
    expected = keys_as_hex(key_bytes(["id"], [key_class(column, ids.type)], [ids])).to_pylist()
    assert [row["record_key"] for row in rows] == expected

    path, said = str(tmp_path / "many"), ended.output
    whole = {"table": "many", "snapshot": "replace", "parallel_chunks": 2, "consistency": "chunk"}
    ended = submit.run([DAY], source=whole, sink={"path": path}, connection=derby)
    assert ended.process.returncode == 0, ended.output
    found = DeltaTable(path).to_pyarrow_table(columns=["Id"])["Id"]
    assert len(found) == 2**DOUBLINGS + 2
    assert len(found.unique()) == len(found)
    assert len(DeltaTable(path).file_uris()) == 2, "a file for each chunk"

    logs = "".join(file.read_text() for file in (tmp_path / "events").rglob("*") if file.is_file())
    assert "JDBCRelation" in logs, "the plan is told"
    assert PASSWORD not in said + ended.output + logs


def test_a_value_that_the_database_cannot_compute_and_a_wrong_password_are_told_without_either(
    submit: Any, derby: Connection, tmp_path: Path
) -> None:
    submit.source_name = "sql"
    submit.conf = {"spark.driver.extraJavaOptions": _log(tmp_path)}
    broken = {"query": 'SELECT n, 4711 / n AS told FROM "numbers"', "stream": "x", "key": ["N"], "snapshot": "replace"}
    ended = submit.run([DAY], source=broken, connection=derby)
    (day,) = ended.report.days
    assert day.failure.type == "DataError", ended.output
    assert "SQLSTATE 22012" in day.failure.message
    assert PASSWORD not in ended.output
    assert "divide by zero" not in ended.output, "the driver's own text may hold a value"

    wrong = derby.model_copy(update={"password": Connection(conn_id="x", password="canary-two").password})
    ended = submit.run([DAY], source=broken, connection=wrong)
    assert ended.report.failure.type == "ConfigError", ended.output
    assert "refuses login, password or rights" in ended.report.failure.message
    assert "canary-two" not in ended.output
