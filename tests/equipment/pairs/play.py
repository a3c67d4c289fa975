"""Plays a case with a SQLite table, the complete driver without Spark, and a Delta table."""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.operators.declared_options import DeclaredOptions
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections, Intent, StreamKey
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.stage.notes import Acceptance, acceptance_note
from airflow_provider_connect.window import Day
from tests.equipment.pairs.draw import Case
from tests.equipment.pairs.model import Accept, Erase, Event, Expected, Load, Model, Options, Row, Step, masked
from tests.equipment.spark.here import drive

COLUMNS = (
    "id integer NOT NULL PRIMARY KEY, kind text, person text, note text, at timestamp, seen timestamp, amount integer"
)
REFUSED = re.compile(
    r"into this target: .*airflow connect accept|belongs to|another stream|erased rows would come back", re.DOTALL
)
LOADED_OTHERWISE = re.compile(r"Loaded otherwise: (\d+) of")


class KilledError(BaseException):
    """Ends a driver as a kill does. The package catches it nowhere."""


class Player:
    """A source, a target, and their tasks."""

    def __init__(self, root: Path, events: tuple[Event, ...]) -> None:
        self.root, self.sink = root, DeltaSink(path=str(root / "table"))
        self._file = root / "shop.db"
        self.reason = ""
        """Why the newest job failed."""
        with closing(sqlite3.connect(self._file)) as database, database:
            for table in ("events", "others"):
                database.execute(f"CREATE TABLE {table} ({COLUMNS})")
                rows = [event._replace(at=_text(event.at), seen=_text(event.seen)) for event in events]  # type: ignore[arg-type]
                database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def take(self, step: Step) -> Expected:
        """Take a step, and return its answer."""
        if isinstance(step, Load):
            return self._load(step)
        if isinstance(step, Accept):
            self._accept(step.options)
        else:
            self._erase(step)
        return Expected("green")

    @property
    def table(self) -> dict[dt.date, list[Row]]:
        """The rows in the target, by day."""
        if not DeltaTable.is_deltatable(str(self.root / "table")):
            return {}
        days: dict[dt.date, list[Row]] = {}
        for record in DeltaTable(str(self.root / "table")).to_pyarrow_table().to_pylist():
            row = Row(record["id"], record["kind"], record["person"], record.get("note"), record.get("label"))
            days.setdefault(record["day"], []).append(row)
        return {day: sorted(rows) for day, rows in sorted(days.items())}

    def _load(self, step: Load) -> Expected:
        answers_beside: list[Expected] = []
        with (
            _killed(step.kill),
            _beside(step.beside and (lambda beside=step.beside: answers_beside.append(self.take(beside)))),
        ):
            try:
                report = drive(self._job(step), self._connections(step.options))
            except KilledError:
                return Expected("killed")
        self.reason = report.failure.message if report.failure else ""
        return _answer_of(report)._replace(beside=answers_beside[0] if answers_beside else None)

    def _job(self, step: Load) -> JobConfig:
        source, shapes = _source(step.options), _shapes(step.options)
        written = DeclaredOptions(source, shapes)
        connections = self._connections(step.options)
        attempt = f"{step.token:016x}-{step.attempt}"
        return JobConfig(
            source_name="sql",
            source=source.serialize(),
            sink_name="delta",
            sink=self.sink.serialize(),
            days=tuple(Day(date=day, zone=step.options.zone) for day in step.days),
            intent=Intent(token=f"{step.token:032x}", run=f"dag/run {step.token}/{step.task}"),
            attempt=attempt,
            report=str(self.root / attempt / "report.json"),
            on_empty="accept",
            rules=Rules(on_shrink="accept"),
            shape=tuple(shapes),
            progress_seconds=1,
            definition=written.build_definition(source, self.sink, Chain.of(shapes), connections),
        )

    def _connections(self, options: Options) -> Connections:
        login = {"login": options.login} if options.login else {}
        shop = {"conn_id": "shop", "conn_type": "sqlite", "host": str(self._file)} | login
        mask = {"conn_id": "mask", "conn_type": "generic", "password": options.mask}
        connections = (shop, mask) if options.mask else (shop,)
        return {str(fields["conn_id"]): Connection.model_validate(fields) for fields in connections}

    def _accept(self, options: Options) -> None:
        source = _source(options)
        key = StreamKey(connector="sql", stream=source.stream_key)
        with self.sink.open(key, {}) as publisher:
            in_force = publisher.ledger.definition_in_force()
            if in_force is None:
                return
            definition = self._job(Load("one", (), options, 0)).definition
            accepted = Acceptance(published=in_force.digest, accepted=definition.options_digest)
            publisher.note(acceptance_note(accepted, "airflow connect accept"))

    def _erase(self, step: Erase) -> None:
        options = Options(mask=step.mask)
        key = StreamKey(connector="sql", stream=_source(options).stream_key)
        shaping = Shaping.of(Chain.of(_shapes(options)), self._connections(options))
        with self.sink.open(key, {}) as publisher:
            persons = [masked(person, step.mask) for person in step.persons]
            publisher.erase("person", persons, "day", shaping.column_digest)


def play(case: Case, root: Path) -> None:
    """Check each step's answer and table against the model."""
    model, player = Model(case.events), Player(root, case.events)
    for number, step in enumerate(case.steps):
        subject = f"case {case.seed}, step {number}: {step}"
        expected = model.apply(step)
        answer = player.take(step)
        assert answer == expected, f"{subject}: says {answer}, expected {expected}; {player.reason}"
        table = player.table
        assert table == model.table, f"{subject}: has {table}, expected {model.table}"


def _source(options: Options) -> SqlSource:
    fields: dict[str, Any] = {"conn_id": "shop", "table": options.table, "zone": options.zone, "key": options.key}
    if options.is_snapshot:
        fields["snapshot"] = "daily"
    else:
        fields["day_column"] = options.day_column
    if options.kind is not None:
        text = options.kind.replace("'", "''")
        fields["where"] = f"kind = '{text}'"
    if not options.has_note:
        fields["columns"] = ("id", "kind", "person", "at", "seen", "amount")
    return SqlSource(**fields)


def _shapes(options: Options) -> list[dict[str, Any]]:
    shapes: list[dict[str, Any]] = []
    if options.least_amount is not None:
        at_least = {"column": "amount", "operator": "at_least", "value": options.least_amount}
        shapes.append({"filter": {"where": at_least}})
    if options.label is not None:
        shapes.append({"constant": {"column": "label", "value": options.label}})
    if options.mask is not None:
        shapes.append({"mask": {"columns": ["person"], "conn_id": "mask"}})
    return shapes


def _answer_of(report: JobReport) -> Expected:
    """Return the answer of a job.

    :raises AssertionError: the job failed for another reason than a decision by a person.
    """
    if report.failure is not None:
        assert report.failure.type == "ConfigError", report.failure
        assert REFUSED.search(report.failure.message), report.failure
        return Expected("refused")
    otherwise = [int(number) for text in report.warnings for number in LOADED_OTHERWISE.findall(text)]
    return Expected("told" if report.warnings else "green", otherwise[0] if otherwise else None)


@contextmanager
def _killed(kill: str | None) -> Iterator[None]:
    """End the driver at a step of its publish. Its later steps do not happen."""
    if kill is None:
        yield
        return
    original_commit = DeltaPublisher.commit

    def dies(publisher: DeltaPublisher, *args: Any) -> Any:
        if kill == "committed":
            original_commit(publisher, *args)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaPublisher, "commit", dies)
        yield


@contextmanager
def _beside(take: Callable[[], object] | None) -> Iterator[None]:
    """Run a step when the driver is about to commit its first day."""
    if take is None:
        yield
        return
    original_commit = DeltaPublisher.commit
    with pytest.MonkeyPatch.context() as patch:

        def commit(publisher: DeltaPublisher, *args: Any) -> Any:
            patch.setattr(DeltaPublisher, "commit", original_commit)
            take()
            return original_commit(publisher, *args)

        patch.setattr(DeltaPublisher, "commit", commit)
        yield


def _text(at: dt.datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")
