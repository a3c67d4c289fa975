"""What Spark refuses, before the source is asked and while it computes: told by its kind, and without a value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError
from airflow_provider_connect.spark.transform import error_mapping
from airflow_provider_connect.spark.transform.result_tasks import (
    StageResultOutcome,
    StageResultTask,
    make_stage_function,
)
from airflow_provider_connect.spark.transform.transformation import Transformation
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.stage.transform import parse_transform
from airflow_provider_connect.submit import launch
from airflow_provider_connect.window import Day

pytestmark = pytest.mark.slow

DAY = Day(date=dt.date(2026, 10, 5), zone="US/Pacific")
CANARY = "canary of a value"
SCHEMA = pa.schema(
    [
        pa.field("record_key", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("text", pa.string()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
    ]
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    tmp = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(launch.java_home(tmp)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", str(launch.python_without_zips(tmp)))
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(tmp / "warehouse"))
        for name, value in (
            launch.REQUIRED_CONF | launch.LOCAL_CONF | {"spark.driver.extraJavaOptions": launch.FAST_JVM}
        ).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield Refusing(spark, tmp)
        finally:
            gateway = spark.sparkContext._gateway
            spark.stop()
            gateway.shutdown()


class Refusing:
    """A polled day of five rows, and what becomes of it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.file = folder / "day=2026-10-05" / "a-1-00000-aa.parquet"
        self.file.parent.mkdir()
        columns = [
            [f"{number:032x}" for number in range(5)],
            [1, 2, 0, None, 5],
            [dt.datetime(2026, 10, 5, hour, tzinfo=dt.UTC) for hour in range(5)],
            [dt.datetime(1582, 10, 1, hour) for hour in range(5)],  # noqa: DTZ001  # of no zone
            [CANARY] * 5,
            [None] * 5,
            [["a", None]] * 5,
        ]
        pq.write_table(pa.table(columns, schema=SCHEMA), self.file)

    def tried(self, transform: Any) -> Transformation:
        text = f"{__name__}:{transform.__name__}" if callable(transform) else transform
        return Transformation(parse_transform(text), SCHEMA, self.spark, DAY)

    def made(self, transform: Any) -> PollResult:
        tried = self.tried(transform)
        task = StageResultTask(root=str(self.folder), day=DAY, attempt="out-1")
        try:
            rows = (
                tried.compute([str(self.file)], DAY)
                .mapInArrow(make_stage_function(task, tried.schema), "outcome string")
                .collect()
            )
        except Exception as error:
            raise error_mapping.error_of_run(tried.label, error) from None
        pieces = [StageResultOutcome.model_validate_json(row[0]) for row in rows]
        for piece in pieces:
            if piece.failure is not None:
                raise piece.failure.error()
        return PollResult.total([piece.polled for piece in pieces if piece.polled is not None])


def selects_nothing(frame: Any) -> Any:
    return frame.select("nope")


def counts(frame: Any) -> Any:
    return frame.count()


def misses(frame: Any) -> Any:
    return {}[CANARY]


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("SELECT nope FROM polled", "UNRESOLVED_COLUMN.WITH_SUGGESTION.*`nope`.*`n`"),
        ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND.*`nowhere`"),
        ("SELECT * FROM parquet.`/no/such`", "PATH_NOT_FOUND"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
        ("SELECT :other FROM polled", "UNBOUND_SQL_PARAMETER.*other"),
        ("CREATE TABLE stolen AS SELECT * FROM polled", "PARSE_SYNTAX_ERROR"),
        ("INSERT INTO t SELECT * FROM polled", "PARSE_SYNTAX_ERROR"),
        ("SELECT parse_json(text) AS v FROM polled", "column 'v' has the type VARIANT: cast it"),
        (selects_nothing, "UNRESOLVED_COLUMN"),
        (counts, "returned a int. It must return a DataFrame"),
        (misses, "failed on a day without rows: KeyError at .*It runs without rows first"),
    ],
)
def test_what_is_wrong_with_a_transform_is_told_before_the_source_is_asked(
    lab: Refusing, transform: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        lab.tried(transform)
    assert CANARY not in str(refused.value)
    assert "\n" not in str(refused.value)


def fails(frame: Any) -> Any:
    from pyspark.sql import functions

    def raises(text):  # type: ignore[no-untyped-def]  # PySpark warns of hints
        raise ValueError(text)

    return frame.withColumn("more", functions.udf(raises, "string")("text"))


def looks(frame: Any) -> Any:
    if frame.count():
        raise KeyError(frame.first()["text"])
    return frame


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ("SELECT 10 / n AS q FROM polled", "DIVIDE_BY_ZERO, SQLSTATE 22012"),
        ("SELECT cast(text AS int) AS q FROM polled", "CAST_INVALID_INPUT, SQLSTATE 22018"),
        ("SELECT if(n > 1, NULL, record_key) AS record_key FROM polled", "'record_key'.*is NULL in some rows"),
        ("SELECT text AS record_key FROM polled", "not a key. Make each value a string of 32 hex digits"),
        (fails, r"a Python function in it failed on some row \(ValueError\)"),
        (looks, "the function failed: KeyError at"),
    ],
)
def test_what_goes_wrong_with_a_row_is_told_without_its_value(
    lab: Refusing, transform: Any, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConnectError, match=message) as refused:
        lab.made(transform)
    assert isinstance(refused.value, DataError)
    said = capfd.readouterr()
    assert CANARY not in f"{refused.value}{said.out}{said.err}"


def repartitions(frame: Any, day: dt.date) -> Any:
    return frame.repartition(3)


def test_what_passes_unchanged_has_the_same_contents(lab: Refusing) -> None:
    whole = lab.made("SELECT * FROM polled")
    assert whole.rows_written == 5
    assert whole.digest == f"{10:032x}"
    assert lab.made("SELECT * FROM polled ORDER BY n DESC").contents == whole.contents
    assert lab.made(repartitions).contents == whole.contents
    table = pq.read_table(lab.folder / whole.files[0].path, partitioning=None)
    if len(whole.files) == 1:
        assert table.equals(pq.read_table(lab.file, partitioning=None))
    bounds = lab.made("SELECT min(:start) AS a, max(:end) AS b, max(:day) AS c FROM polled")
    (row,) = pq.read_table(lab.folder / bounds.files[0].path, partitioning=None).to_pylist()
    assert row == {"a": DAY.start, "b": DAY.end, "c": DAY.date}
