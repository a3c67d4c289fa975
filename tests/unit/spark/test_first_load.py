"""A stream's first load ends at the second error of one kind; a stream that has worked is retried within its budget."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError, SetupError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources.rest import NextLink, RestSource
from airflow_provider_connect.spark.first_load import ask_again
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.window import Day
from tests.equipment.clock import NoTime
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import DAY, declared
from tests.equipment.rest_api.server import Answer, RestApi
from tests.equipment.spark.here import drive

SCHEMA = pa.schema(
    [pa.field("event", pa.string()), pa.field("n", pa.int64()), pa.field("record_key", pa.string(), nullable=False)]
)
LINKED = NextLink(at="next", ends="no_token")
GOOD, NEXT_DAY = declared("/linked", LINKED, at="items"), Day(date=DATE + dt.timedelta(days=1))


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())
    monkeypatch.setattr("airflow_provider_connect.spark.poll.CLOCK", NoTime())


class Stream:
    """A stream of the tests' API into a Delta table, by a driver without Spark."""

    def __init__(self, root: Path) -> None:
        self.root, self.runs = root, 0

    def load(self, source: RestSource, connection: Connection, day: Day = DAY) -> JobReport:
        self.runs += 1
        config = JobConfig(
            source_name="rest",
            source=source.serialize(),
            sink_name="delta",
            sink=DeltaSink(path=str(self.root / "table")).serialize(),
            days=(day,),
            intent=Intent(token=f"{self.runs:032x}", run=f"dag/run-{self.runs}/load"),
            attempt=f"{self.runs:016x}-1",
            report=str(self.root / f"run-{self.runs}" / "report.json"),
            progress_seconds=1,
        )
        return drive(config, {"api": connection})


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def failure(report: JobReport) -> tuple[str, str]:
    assert report.failure is not None
    return report.failure.type, report.failure.message


def test_a_wrong_place_of_the_records_is_final_after_two_requests(stream: Stream) -> None:
    with RestApi() as api:
        kind, message = failure(stream.load(declared("/linked", LINKED, at="data"), api.connection))
        assert len(api.asked) == 2
    assert kind == "ConfigError"
    assert "the answer has no list of records at 'data'. Lists are at 'items'. Correct records.at" in message
    assert "Two polls ended with this error, and the stream has never published a day" in message


def test_a_wrong_place_is_retried_once_the_stream_has_a_day(stream: Stream) -> None:
    with RestApi() as api:
        api.faults.append(lambda asked: Answer({"data": []}) if len(api.asked) > 4 else None)
        assert stream.load(GOOD, api.connection).failure is None
        published = len(api.asked)
        api.faults.append(lambda asked: Answer({"data": []}))
        kind, _ = failure(stream.load(GOOD, api.connection, NEXT_DAY))
        assert (kind, len(api.asked) - published > 5) == ("RetriableError", True)


def test_a_passing_answer_of_another_form_does_not_end_the_first_load(stream: Stream) -> None:
    page = Answer(raw=b"<html>back in a minute</html>", headers={"Content-Type": "text/html"})
    with RestApi() as api:
        api.faults.append(lambda asked: page if len(api.asked) == 1 else None)
        assert stream.load(GOOD, api.connection).failure is None


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (Answer(raw=b"id,at\n1,2026\n"), "the answer is not JSON but text of another form, such as CSV"),
        (Answer(raw=b"<feed/>"), "the answer is not JSON but a web page or XML"),
        (Answer({"id": 1, "at": "x"}), "It has no list. Its fields are 'id', 'at'"),
        (Answer({"meta": {"page": {"rows": items_of(DATE, 2)}}}), "Lists are at '/meta/page/rows'"),
        (Answer(items_of(DATE, 2)), "The whole answer is a list: records.at=''"),
        (Answer({"ann@example.com": {"id": 1}, "bob@example.com": {"id": 2}}), "It has no list. Correct"),
    ],
    ids=["CSV", "XML", "one object", "a list elsewhere", "a list alone", "a map whose names are data"],
)
def test_an_answer_of_another_form_is_described_without_values(stream: Stream, answer: Answer, text: str) -> None:
    with RestApi() as api:
        api.faults.append(lambda asked: answer)
        kind, message = failure(stream.load(GOOD, api.connection))
        assert len(api.asked) == 2
    assert (kind, text in message) == ("ConfigError", True), message
    assert "ann@" not in message


def test_a_host_without_an_address_is_final(stream: Stream) -> None:
    wrong = Connection(conn_id="api", conn_type="http", host="https://nosuch.invalid")
    kind, message = failure(stream.load(GOOD, wrong))
    assert (kind, "nosuch.invalid is unknown to this machine's name service" in message) == ("ConfigError", True)


def tiny_task(root: Path, *faults: str, is_first_load: bool) -> PollTask:
    return PollTask(
        source_name="tiny",
        source={"folder": str(root), "faults": {"0": list(faults)}},
        part=InputPartition(days=(DAY,)),
        root=str(root),
        attempts=("t-1",),
        progress_seconds=1,
        is_first_load=is_first_load,
    )


@pytest.mark.parametrize(
    "faults", [("SetupError", "RetriableError", "SetupError"), ("SetupError",)], ids=["not in a row", "once"]
)
def test_only_the_same_error_twice_in_a_row_is_final(tmp_path: Path, faults: tuple[str, ...]) -> None:
    task = tiny_task(tmp_path, *faults, is_first_load=True)
    stage_partition(task, SCHEMA, Connection(conn_id="tiny"), clock=NoTime())
    twice = tiny_task(tmp_path / "twice", "SetupError", "SetupError", is_first_load=True)
    (tmp_path / "twice").mkdir()
    with pytest.raises(ConfigError, match="has never published a day"):
        stage_partition(twice, SCHEMA, Connection(conn_id="tiny"), clock=NoTime())


class Questions:
    """Raises errors in turn, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), 0

    def __call__(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "yes"


WRONG, OTHER = SetupError("no such host"), SetupError("a web page")


@pytest.mark.parametrize(
    ("errors", "is_first_load", "expected", "asked"),
    [
        ((), True, None, 1),
        ((WRONG,), True, None, 2),
        ((WRONG, WRONG), True, ConfigError, 2),
        ((WRONG, WRONG), False, SetupError, 2),
        ((WRONG, OTHER), True, SetupError, 2),
        ((RetriableError("busy"),), True, RetriableError, 1),
    ],
)
def test_the_driver_asks_once_more(
    errors: tuple[Exception, ...], is_first_load: bool, expected: type[Exception] | None, asked: int
) -> None:
    question = Questions(*errors)
    options: Any = {"is_first_load": lambda: is_first_load, "clock": NoTime()}
    if expected is None:
        assert ask_again(question, **options) == "yes"
    else:
        with pytest.raises(expected) as caught:
            ask_again(question, **options)
        assert type(caught.value) is expected
    assert question.asked == asked
