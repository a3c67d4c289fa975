"""Tasks and sources for a command."""

from __future__ import annotations

import datetime as dt
import json
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airflow.sdk.definitions.mappedoperator import MappedOperator
from jinja2 import TemplateError

from airflow_provider_connect import offsets, registry
from airflow_provider_connect.capabilities.source import ListsStreams
from airflow_provider_connect.cli.dag_files import read_dag_files
from airflow_provider_connect.cli.terminal import print_note
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.config import has_template, suggest_nearest
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, refuse_any
from airflow_provider_connect.hooks import credentials, variables
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.pipelines.yaml_files import read_yaml
from airflow_provider_connect.shapes.chain import Chain, validate_shapes
from airflow_provider_connect.sink import Connections, Publisher, Sink, StreamKey
from airflow_provider_connect.source import ALONE, PollContext, Poller, Source
from airflow_provider_connect.stage.temporary import stream_staging
from airflow_provider_connect.window import ONE_DAY, Day, parse_days, zone

_DAY_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
STREAM_MARK = "#"
"""Separates a task's id from the name of one of its streams: ``load#public.orders``."""
_SHOWN_STREAMS = 5


@dataclass(frozen=True)
class DeclaredTask:
    """A ConnectOperator task as its DAG file declares it.

    :param operator: None for a mapped task.
    :param stream: the stream to which commands are limited, if the task has many.
    """

    dag: Any
    task_id: str
    operator: ConnectOperator | None
    stream: offsets.LoadedStream | None = None

    @property
    def name(self) -> str:
        """``dag.task``, for messages. With one stream of many, ``dag.task#stream``."""
        name = f"{self.dag.dag_id}.{self.task_id}"
        return name if self.stream is None else f"{name}{STREAM_MARK}{self.stream.choice}"

    @property
    def declared_options(self) -> Any:
        """Fields of :class:`.DeclaredOptions`, of the stream if the task has many."""
        source, *others = self.require_operator().declared_options
        lister = source.capability(ListsStreams)
        return (source if lister is None or self.stream is None else lister.stream_source(self.stream.choice), *others)

    def streams(self) -> list[DeclaredTask]:
        """Return the task once for each of its streams with an offset. A task of one stream returns itself."""
        if self.operator is None or self.operator.source.capability(ListsStreams) is None or self.stream is not None:
            return [self]
        pipeline = self.render_whole(self.parse_day(None))
        loaded = offsets.streams_of_keys(pipeline.source, pipeline.sink, variables.keys(offsets.PREFIX))
        return [replace(self, stream=stream) for _, stream in sorted(loaded.items())]

    def require_operator(self) -> ConnectOperator:
        """Return the task's operator.

        :raises ConfigError: the task is mapped.
        """
        if self.operator is None:
            raise ConfigError(
                f"task {self.name} is mapped, and only a run knows its arguments. "
                "Declare an unmapped task with the same source and sink to inspect them"
            )
        return self.operator

    @property
    def zone(self) -> str:
        """Zone of the source's days. UTC if the zone is a template."""
        name = self.require_operator().source.timezone
        return "UTC" if has_template(name) else name

    def parse_day(self, text: str | None) -> Day:
        """Do :func:`parse_day` in the source's zone."""
        return parse_day(text, self.zone)

    def day_of(self, text: str | None) -> Day:
        """Parse a day. None means the task's own ``days=``, else yesterday in the source's zone.

        :raises ConfigError: the text or the task's ``days=`` is not one day.
        """
        if text is None and (days := self.render_days()):
            if ".." in days:
                raise ConfigError(f"task {self.name}: days={days!r} names several days. Pass --day")
            return self.parse_day(days)
        return self.parse_day(text)

    def render_days(self) -> str:
        """Render the task's ``days=`` as in yesterday's run. Empty if the task has no ``days=``.

        :raises ConfigError: a template needs a value that only a run has.
        """
        operator = self.require_operator()
        context, jinja = _template_context(operator, self.dag, self.parse_day(None)), operator.get_template_env()
        try:
            return str(operator.render_template(operator.days or "", context, jinja)).strip()
        except TemplateError as error:
            raise ConfigError(
                f"task {self.name}: a template of its days cannot be rendered outside of a run: "
                f"{error.message or type(error).__name__}. Pass --days"
            ) from None

    def render(self, day: Day) -> RenderedTask:
        """Render the task's templates as in a run of this day. One ConfigError lists every problem.

        :raises ConfigError: the task has many streams, and none is chosen.
        """
        pipeline = self.render_whole(day)
        lister = pipeline.source.capability(ListsStreams)
        if lister is None:
            return pipeline
        if self.stream is None:
            raise ConfigError(f"task {self.name} has many streams. {self._choice_hint()}")
        source = lister.stream_source(self.stream.choice)
        staging = stream_staging(pipeline.staging, source.stream_key)
        sink = pipeline.sink.for_stream(self.stream.stream.names)
        return replace(pipeline, source=source, sink=sink, staging=staging)

    def _choice_hint(self) -> str:
        names = [f"{task.task_id}{STREAM_MARK}{task.stream.choice}" for task in self.streams() if task.stream]
        more = ", …" if len(names) > _SHOWN_STREAMS else ""
        return f"Name one: {', '.join(names[:_SHOWN_STREAMS])}{more}" if names else "None of them is loaded yet"

    def render_whole(self, day: Day) -> RenderedTask:
        """Do :meth:`render`, also for a task of many streams."""
        operator = self.require_operator()
        context, jinja = _template_context(operator, self.dag, day), operator.get_template_env()
        rendered_values: dict[str, Any] = {}
        problems = []
        for name in ("source", "sink", "shape", "staging", "transform"):
            try:
                value = operator.render_template(getattr(operator, name), context, jinja)
                rendered_values[name] = _validate_argument(name, value)
            except TemplateError as error:
                problems.append(
                    f"task {self.name}: a template of its {name} cannot be rendered outside of a run: "
                    f"{error.message or type(error).__name__}"
                )
            except ConfigError as error:
                problems.append(f"task {self.name}: {error}")
        refuse_any(problems, "\n")
        return RenderedTask(self, *rendered_values.values())


@dataclass(frozen=True)
class RenderedTask:
    """A task's source, sink, shapes and transform with rendered templates."""

    task: DeclaredTask
    source: Source
    sink: Sink
    chain: Chain
    staging: str | None
    transform: str | None = None

    @property
    def key(self) -> StreamKey:
        """The stream's key in the sink's ledger."""
        return StreamKey(connector=self.source.name, stream=self.source.stream_key)

    def resolve_connections(self) -> Connections:
        """Return the connections of source, sink and shapes.

        :raises ConfigError: with every problem.
        """
        return credentials.resolve_all(
            self.source, self.sink, self.task.require_operator()._conn_id, self.chain.conn_ids
        )

    @contextmanager
    def open_publisher(self, connections: Connections | None = None) -> Iterator[Publisher]:
        """Open the sink for reading its ledger.

        :param connections: None resolves the sink's own.
        """
        sink_connections = self.resolve_sink_connections() if connections is None else connections
        with closing_quietly(self.sink.open(self.key, sink_connections), print_note) as publisher:
            yield publisher

    def resolve_sink_connections(self) -> Connections:
        """Return the connections of the sink.

        :raises ConfigError: with every problem.
        """
        connections = {conn_id: credentials.resolve_connection(conn_id) for conn_id in self.sink.connection_ids}
        refuse_any(self.sink.check(connections), "\n")
        return connections


def accept_former_day(args: Namespace) -> None:
    """Accept a day without ``--day`` for one version, with a warning."""
    if args.former_day is None and args.task_id is not None and _DAY_TEXT.fullmatch(args.task_id):
        args.former_day, args.task_id = args.task_id, None
    if args.former_day is not None:
        print_note(f"Write --day {args.former_day}: the next version refuses a day without --day")
        args.day = args.former_day


def parse_day(text: str | None, zone_name: str) -> Day:
    """Parse a day. None means yesterday in the zone.

    :raises ConfigError: not one day.
    """
    if text is None:
        return Day(date=dt.datetime.now(zone(zone_name)).date() - ONE_DAY, zone=zone_name)
    if not _DAY_TEXT.fullmatch(text):
        raise ConfigError(f"{text!r} is not one day. Write YYYY-MM-DD, such as 2026-11-01")
    try:
        return parse_days(text, zone_name)[0]
    except ConfigError as error:
        raise ConfigError(str(error).removeprefix("days=")) from None


@contextmanager
def open_source(source: Source, connection: Connection, context: PollContext = ALONE) -> Iterator[Poller]:
    """Open a source, and close it at the end."""
    with closing_quietly(source.open(connection, context), print_note) as poller:
        yield poller


def connect_tasks(dag_id: str, task_id: str | None, bundles: Sequence[str] | None) -> list[DeclaredTask]:
    """Return a DAG's ConnectOperator tasks, or only the task ``task_id``. A task of many streams is there for each.

    :raises ConfigError: there is no such DAG, task or stream, or the DAG has no ConnectOperator task.
    """
    tasks = choose_tasks(require_dag(dag_id, bundles), task_id)
    streams = [stream for task in tasks for stream in task.streams()]
    if not streams:
        raise ConfigError(f"task {tasks[0].name} has many streams. None of them is loaded yet")
    return streams


def require_dag(dag_id: str, bundles: Sequence[str] | None) -> Any:
    """Return a DAG.

    :raises ConfigError: no DAG file declares it.
    """
    return read_dag_files(bundles or (), dag_id).require(dag_id)


def choose_tasks(dag: Any, task_id: str | None) -> list[DeclaredTask]:
    """Return a DAG's ConnectOperator tasks, or only the task ``task_id``.

    :raises ConfigError: there is none.
    """
    tasks = tasks_of_dag(dag)
    if not tasks:
        raise ConfigError(f"DAG {dag.dag_id!r} has no ConnectOperator task")
    if task_id is None:
        return list(tasks.values())
    task_id, mark, stream_name = task_id.partition(STREAM_MARK)
    if mark and task_id in tasks:
        return [_choose_stream(tasks[task_id], stream_name)]
    if task_id not in tasks:
        raise ConfigError(
            f"DAG {dag.dag_id!r} has no ConnectOperator task {task_id!r}: {suggest_nearest(task_id, tasks)}"
        )
    return [tasks[task_id]]


def _choose_stream(task: DeclaredTask, name: str) -> DeclaredTask:
    streams = task.streams()
    names = {stream.stream.choice: stream for stream in streams if stream.stream is not None}
    names |= {stream.stream.title: stream for stream in streams if stream.stream is not None}
    if name not in names:
        raise ConfigError(f"task {task.name} has loaded no stream {name!r}: {suggest_nearest(name, names)}")
    return names[name]


def tasks_of_dag(dag: Any) -> dict[str, DeclaredTask]:
    """Return a DAG's ConnectOperator tasks by their ids."""
    return {
        task.task_id: DeclaredTask(dag, task.task_id, _unmapped_operator(task))
        for task in dag.tasks
        if _is_connect_task(task)
    }


def whole_task(dag_id: str, task_id: str | None, bundles: Sequence[str] | None) -> DeclaredTask:
    """Do :func:`connect_task`, but return a task of many streams as one if no stream is named."""
    return _only_task(dag_id, choose_tasks(require_dag(dag_id, bundles), task_id))


def connect_task(dag_id: str, task_id: str | None, bundles: Sequence[str] | None) -> DeclaredTask:
    """Return the task ``task_id``. None means the DAG's only ConnectOperator task.

    :raises ConfigError: there is none, or several are left.
    """
    return _only_task(dag_id, connect_tasks(dag_id, task_id, bundles))


def _only_task(dag_id: str, tasks: Sequence[DeclaredTask]) -> DeclaredTask:
    if len(tasks) > 1 and any(task.stream for task in tasks):
        shown = ", ".join(task.name.removeprefix(f"{dag_id}.") for task in tasks[:_SHOWN_STREAMS])
        more = ", …" if len(tasks) > _SHOWN_STREAMS else ""
        raise ConfigError(f"DAG {dag_id!r} has several streams. Name one of {shown}{more}")
    if len(tasks) > 1:
        names = ", ".join(task.task_id for task in tasks)
        raise ConfigError(f"DAG {dag_id!r} has several ConnectOperator tasks. Name one of {names}")
    return tasks[0]


def _is_connect_task(task: Any) -> bool:
    kind = task.operator_class if isinstance(task, MappedOperator) else type(task)
    return isinstance(kind, type) and issubclass(kind, ConnectOperator)


def _unmapped_operator(task: Any) -> ConnectOperator | None:
    return task if isinstance(task, ConnectOperator) and next(task.iter_mapped_task_groups(), None) is None else None


def _validate_argument(name: str, value: Any) -> Any:
    if name in ("staging", "transform"):
        return value
    return Chain.of(validate_shapes(value)) if name == "shape" else value.checked()


class _VariableValues:
    def __getattr__(self, name: str) -> str:
        return self.get(name)

    def get(self, name: str, default: str | None = None) -> str:
        text = variables.read(name)
        if text is None and default is None:
            raise ConfigError(f"a template uses Variable {name!r}, which is not set")
        return default if text is None else text  # type: ignore[return-value]  # one of them is text


def _template_context(operator: ConnectOperator, dag: Any, day: Day) -> dict[str, Any]:
    params: Any = operator.params
    date = str(day)
    return {
        "ds": date,
        "ds_nodash": date.replace("-", ""),
        "logical_date": day.start,
        "data_interval_start": day.start,
        "data_interval_end": day.end,
        "params": {**dag.params.dump(), **params.dump()},
        "dag": dag,
        "task": operator,
        "var": {"value": _VariableValues()},
    }


def source_of_arguments(args: Namespace) -> Source | None:
    """Build the source from ``--source`` and ``--options``, None if a DAG is named instead.

    :raises ConfigError: neither or both, or wrong options.
    """
    if (args.source is None) == (args.dag_id is None):
        raise ConfigError("name a DAG, or a connector with --source")
    if args.source is None:
        if args.options is not None or args.conn_id is not None:
            raise ConfigError("--options and --conn-id need --source. A DAG declares its own")
        return None
    override = {} if args.conn_id is None else {"conn_id": args.conn_id}
    return _build_source(registry.source_class(args.source), args.options or "{}", override)


def _build_source(cls: type[Source], text: str, override: dict[str, Any]) -> Source:
    if text.lstrip().startswith("{"):
        return cls.from_options(_parse_options(text) | override)
    path = Path(text).absolute()
    from_file = getattr(cls, "from_file", None)
    if from_file is not None:
        source: Source = from_file(path, **override)
        return source
    file = read_yaml(path, text)
    refuse_any(map(str, file.problems), "\n")
    return cls.from_options(file.values | override)


def _parse_options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ConfigError('--options must be a file or a JSON object: {"conn_id": "shop_db", "table": "orders"}')
    return options
