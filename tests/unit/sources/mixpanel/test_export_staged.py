"""Exports on their way into the stage: of an answer that was cut nothing stays, and the whole day comes once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.patience import SystemClock
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from airflow_provider_connect.stage.manifest import PollResult
from tests.equipment.mixpanel import DAY, connection
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

PROJECT = Project(events_per_day=300, duplicates_per_day=6, missing_ids_per_day=4)

CUT = {
    "H1 shorter than its Content-Length": Fault("short_length", at=0.9),
    "H2 cut inside a chunk": Fault("cut_chunked", at=0.9),
    "H3 gzip cut in valid framing": Fault("cut_gzip", at=0.9),
    "H4 gzip without its trailer": Fault("no_trailer"),
    "H4 gzip with a wrong checksum": Fault("bad_crc"),
    "H4 garbage after the gzip": Fault("garbage_after"),
    "H6 without a length or chunks": Fault("eof_delimited"),
    "H7 its last line cut": Fault("cut_last_line"),
    "H8 a login page": Fault("html"),
    "H8 a login page that says it is text": Fault("html_as_text"),
    "H8 an error document": Fault("error_document"),
    "H8 an error among the lines": Fault("error_line", at=0.9),
    "H8 terminated early": Fault("terminated_early", at=0.9),
    "H9 too many requests": Fault("status", status=429, headers={"Retry-After": "1"}),
    "H11 a 500": Fault("status", status=500),
    "H11 a 502": Fault("status", status=502),
    "H11 a 503": Fault("status", status=503),
    "H11 a 504": Fault("status", status=504),
    "H14 a reset in the middle": Fault("reset", at=0.9),
    "H14 no answer": Fault("refuse"),
}


class NoWait(SystemClock):
    """Sleeps in no time, and remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(PROJECT) as server:
        yield server


def staged(
    standin: StandIn, root: Path, *faults: Fault, **options: Any
) -> tuple[PollResult, list[dict[str, Any]], list[float]]:
    """Freeze the day as an executor does; return what it says, the rows in the stage, and the pauses."""
    standin.faults.replace(faults)
    source, there, clock = MixpanelSource(**options), connection(standin), NoWait()
    with source.open(there, PollContext()) as poller:
        schema, (part,) = poller.schema(), poller.plan([DAY])
    task = PollTask(
        source_name="mixpanel",
        source=source.serialize(),
        part=part,
        root=str(root),
        attempts=("t-1",),
        progress_seconds=1,
    )
    polled = stage_partition(task, schema, there, clock=clock)[DAY.date]
    return polled, rows_in(root), clock.slept


def rows_in(root: Path) -> list[dict[str, Any]]:
    return [row for file in root.rglob("*.parquet") for row in pq.read_table(file, partitioning=None).to_pylist()]


@pytest.fixture(scope="module")
def whole(standin: StandIn, tmp_path_factory: pytest.TempPathFactory) -> PollResult:
    return staged(standin, tmp_path_factory.mktemp("whole"))[0]


@pytest.mark.parametrize("name", CUT)
def test_a_cut_answer_leaves_nothing_and_the_next_one_is_the_day(
    standin: StandIn, whole: PollResult, tmp_path: Path, name: str
) -> None:
    polled, rows, slept = staged(standin, tmp_path, CUT[name])
    assert (polled.digest, polled.rows_written, polled.retries) == (whole.digest, whole.rows_written, 1)
    assert len(rows) == polled.rows_written == PROJECT.truth(DAY.date).rows
    assert len(slept) == 1


@pytest.mark.parametrize("name", CUT)
def test_an_answer_that_is_always_cut_stages_nothing(standin: StandIn, tmp_path: Path, name: str) -> None:
    fault = Fault(**{**CUT[name].__dict__, "times": None})
    with pytest.raises(RetriableError, match="polled 2 times"):
        staged(standin, tmp_path, fault, retry_budget_requests=2)
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_an_error_for_a_person_is_requested_once_and_stages_nothing(
    standin: StandIn, tmp_path: Path, status: int
) -> None:
    before = sum(sum(by.values()) for by in standin.stats["requests"].values())
    with pytest.raises(ConfigError):
        staged(standin, tmp_path, Fault("status", status=status, times=None))
    assert sum(sum(by.values()) for by in standin.stats["requests"].values()) == before + 1
    assert list(tmp_path.rglob("*.parquet")) == []
