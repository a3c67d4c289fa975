from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.patience import SystemClock
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.spark.poll import PollOutcome, PollTask, run_poll_tasks, stage_partition
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.stage.tables import TableTemplate
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
CONNECTION = Connection(conn_id="tiny", password="hush-hush")
SCHEMA = pa.schema(
    [pa.field("event", pa.string()), pa.field("n", pa.int64()), pa.field("record_key", pa.string(), nullable=False)]
)


class Bed(SystemClock):
    """One partition of the tiny source, its stage, and a sleep that only notes how long."""

    def __init__(self, root: Path) -> None:
        self.root, self.stage = root, root / "stage"
        self.stage.mkdir()
        self.slept: list[float] = []
        self.notes: list[str] = []

    def task(self, *faults: str, **options: Any) -> PollTask:
        source = {"folder": str(self.root), "faults": {"0": list(faults)}, **options}
        return PollTask(
            source_name="tiny",
            source=source,
            part=InputPartition(days=(DAY,)),
            root=str(self.stage),
            attempts=("t-1",),
            progress_seconds=0.02,
        )

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.notes.append(json.loads((self.stage / "_connect/attempts/t-1/progress-00000.json").read_text())["note"])

    def freeze(self, *faults: str, **options: Any) -> PollResult:
        return stage_partition(self.task(*faults, **options), SCHEMA, CONNECTION, clock=self)[DAY.date]

    @property
    def polls(self) -> int:
        return (self.root / f"polls-{DAY}-0").stat().st_size

    @property
    def parquet(self) -> list[str]:
        return sorted(str(path.relative_to(self.stage)) for path in self.stage.rglob("*.parquet"))


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path)


def test_a_partition_is_frozen_with_all_that_was_counted(bed: Bed) -> None:
    polled = bed.freeze(rejects=2)
    names = [path.rpartition("-")[0] for path in bed.parquet]
    assert names == ["_connect/attempts/t-1/rejects-00000", "day=2026-10-05/t-1-00000"]
    assert [file.path for file in (*polled.rejects, *polled.files)] == bed.parquet
    assert all((bed.stage / file.path).stat().st_size == file.size_bytes for file in (*polled.files, *polled.rejects))
    assert (polled.rows_read, polled.rows_written, polled.retries) == (3, 3, 0)
    assert polled.counts == {"duplicates": 1, "rejected": 2}
    assert polled.digest == f"{3:032x}"
    assert pq.read_table(bed.stage / polled.files[0].path, partitioning=None)["n"].to_pylist() == [0, 1, 2]


def test_rows_are_dealt_out_to_tables(bed: Bed) -> None:
    task = bed.task().model_copy(update={"tables": TableTemplate(template="n{n}", most=3)})
    polled = stage_partition(task, SCHEMA, CONNECTION, clock=bed)[DAY.date]
    names = [path.rpartition("-")[0] for path in bed.parquet]
    assert names == [f"n{n}/day=2026-10-05/t-1-00000" for n in range(3)]
    assert ([file.path for file in polled.files], polled.rows_written) == (bed.parquet, 3)
    assert polled.digest == f"{3:032x}", "of the day, not of a table"
    few = task.model_copy(update={"tables": TableTemplate(template="n{n}", most=2)})
    (outcome,) = run_poll_tasks([few.model_dump_json()], schema=SCHEMA, connection=CONNECTION)
    failure = PollOutcome.model_validate_json(outcome).failure
    assert failure is not None
    assert (failure.type, "3 tables or more" in failure.message) == ("ConfigError", True)


def test_rows_say_that_they_are_not_deleted_where_the_sink_wants_that(bed: Bed) -> None:
    task = bed.task().model_copy(update={"digests_answers": True})
    plain, marked = (
        stage_partition(each, SCHEMA, CONNECTION, clock=bed)[DAY.date]
        for each in (task, task.model_copy(update={"soft_deletes": True}))
    )
    rows = pq.read_table(bed.stage / marked.files[0].path, partitioning=None)
    assert rows.column_names == [*SCHEMA.names, "__deleted", "__deleted_at"]
    assert (set(rows["__deleted"].to_pylist()), set(rows["__deleted_at"].to_pylist())) == ({False}, {None})
    assert (marked.digest, marked.contents) == (plain.digest, plain.contents), "the source did not say so"


def test_an_answer_that_nothing_compares_is_not_digested(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    task = bed.task(rejects=1).model_copy(update={"digests_answers": True})
    assert stage_partition(task, SCHEMA, CONNECTION, clock=bed)[DAY.date].contents is not None
    monkeypatch.setattr("airflow_provider_connect.spark.poll.AnswerDigest", None)
    assert bed.freeze(rejects=1).contents is None


def test_an_empty_partition_leaves_no_file(bed: Bed) -> None:
    polled = bed.freeze(rows=0)
    assert (polled.files, polled.rows_written) == ((), 0)
    assert bed.parquet == []


def test_retriable_errors_are_polled_again_and_only_the_last_try_counts(bed: Bed) -> None:
    polled = bed.freeze("RetriableError", "RetriableError", "RetriableError")
    assert bed.polls == 4
    assert (polled.retries, polled.rows_read, polled.digest) == (3, 3, f"{3:032x}")
    assert bed.parquet == [polled.files[0].path], "files of failed tries are gone"
    assert [low <= slept <= 2 * low for slept, low in zip(bed.slept, (0.5, 1, 2), strict=True)] == [True] * 3
    assert all("tiny says RetriableError" in note for note in bed.notes)


def test_what_only_a_new_plan_mends_is_not_polled_again(bed: Bed) -> None:
    """A snapshot that partitions shared does not come back: ten minutes of tries would all end the same."""
    (outcome,) = run_poll_tasks([bed.task("PlanGoneError").model_dump_json()], schema=SCHEMA, connection=CONNECTION)
    failure = PollOutcome.model_validate_json(outcome).failure
    assert failure is not None
    assert (failure.type, bed.polls) == ("RetriableError", 1)


def test_a_retry_waits_as_long_as_the_source_asks(bed: Bed) -> None:
    bed.freeze("wait:30", "wait:0")
    assert 30 <= bed.slept[0] <= 45
    assert 1 <= bed.slept[1] <= 2, "a source that asks for no time at all is still asked less often"


def test_a_forgotten_copy_of_a_task_does_no_harm(bed: Bed) -> None:
    """Spark may run a task twice after losing sight of the first: that one fails late, beside the other's files."""
    late = iter([bed.freeze])
    found: list[Any] = []

    class Late(SystemClock):
        def sleep(self, seconds: float) -> None:
            found.append(next(late)())

    with pytest.raises(DataError):
        stage_partition(bed.task("RetriableError", "RetriableError", "DataError"), SCHEMA, CONNECTION, clock=Late())
    assert bed.parquet == [found[0].files[0].path]


def test_a_wait_beyond_the_budget_goes_to_airflow_at_once(bed: Bed) -> None:
    with pytest.raises(RetriableError, match=r"tiny is tired \(polled 1 times in 0 s of 60 s\)") as caught:
        bed.freeze("wait:61", retry_budget_seconds=60)
    assert caught.value.retry_after_seconds == 61
    assert (bed.slept, bed.polls, bed.parquet) == ([], 1, [])


def test_no_budget_means_one_try(bed: Bed) -> None:
    with pytest.raises(RetriableError, match="polled 1 times"):
        bed.freeze("RetriableError", retry_budget_seconds=0)
    assert bed.polls == 1


def test_the_budget_counts_the_time_that_polling_takes(bed: Bed) -> None:
    with pytest.raises(RetriableError, match=r"polled [1234] times"):
        bed.freeze(*["wait:0"] * 50, retry_budget_seconds=1.05, pause_seconds=0.35)
    assert bed.polls <= 4


@pytest.mark.parametrize("error", [ConfigError, DataError, KeyError])
def test_other_errors_are_not_tried_again(bed: Bed, error: type[Exception]) -> None:
    with pytest.raises(error):
        bed.freeze(error.__name__)
    assert (bed.slept, bed.polls, bed.parquet) == ([], 1, [])


def test_a_source_that_nobody_knows_is_a_config_error(bed: Bed) -> None:
    task = bed.task().model_copy(update={"source_name": "tinny"})
    with pytest.raises(ConfigError, match="did you mean 'tiny'"):
        stage_partition(task, SCHEMA, CONNECTION)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("ConfigError", "ConfigError"), ("DataError", "DataError"), ("KeyError", "ConnectError"), ("wait:9", "Retriable")],
)
def test_errors_cross_as_data_with_their_type(bed: Bed, fault: str, kind: str) -> None:
    task = bed.task(fault, retry_budget_seconds=0).model_dump_json()
    (answer,) = run_poll_tasks([task], schema=SCHEMA, connection=CONNECTION)
    outcome = PollOutcome.model_validate_json(answer)
    assert outcome.polled is None
    assert outcome.failure is not None
    assert outcome.failure.type.startswith(kind)
    assert outcome.failure.retry_after_seconds == (9 if fault == "wait:9" else None)
    assert "hush" not in answer


def test_what_was_polled_crosses_as_data_and_every_task_is_answered(bed: Bed) -> None:
    tasks = [bed.task("DataError").model_dump_json(), bed.task().model_dump_json()]
    answers = list(run_poll_tasks(tasks, schema=SCHEMA, connection=CONNECTION))
    first, second = (PollOutcome.model_validate_json(answer) for answer in answers)
    assert first.failure is not None
    assert second.polled is not None
    assert second.polled[DAY.date].rows_written == 3


def test_signs_of_life_come_while_it_polls(bed: Bed) -> None:
    bed.freeze(pause_seconds=0.1)
    sign = json.loads((bed.stage / "_connect/attempts/t-1/progress-00000.json").read_text())
    assert sign["rows"] == 3
