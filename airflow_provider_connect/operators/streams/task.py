"""A task of many streams: lists them, runs them in one Spark application, and gives each its own outcome.

A stream's problem fails only that stream. The task then fails after the others are published, and a retry does only
the work that is not done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_connect import offsets
from airflow_provider_connect.capabilities.source import ListsStreams, require_lister
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, RetriableError
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.job import JobReport
from airflow_provider_connect.operators import job_outcome
from airflow_provider_connect.operators.intent import intent_of, new_attempt
from airflow_provider_connect.operators.lineage import DatasetPair
from airflow_provider_connect.operators.lookback import find_lookback_days
from airflow_provider_connect.operators.metrics import Metrics
from airflow_provider_connect.operators.run import Run
from airflow_provider_connect.operators.streams.folders import make_stream_folders
from airflow_provider_connect.operators.streams.report import StreamOutcome, TaskReport
from airflow_provider_connect.operators.submission import SparkTarget, Submission, run_submission
from airflow_provider_connect.sink import Sink, StreamKey
from airflow_provider_connect.source import ListedStream, Source, StreamListing
from airflow_provider_connect.stage.temporary import stream_staging
from airflow_provider_connect.streams_job import StreamsJob
from airflow_provider_connect.submit.master import require_master

if TYPE_CHECKING:
    import datetime as dt

    from airflow.sdk import Context

    from airflow_provider_connect.operators.arguments import LookbackDays
    from airflow_provider_connect.operators.run import RunSpec

_CONCLUDING_THREADS = 8
_ASKED_STREAMS = 2  # one that does not answer may have a broken target


@dataclass(frozen=True)
class StreamTask:
    """Runs the streams of one task.

    :param spec: the task's inputs, with the source that lists the streams.
    :param submit: starts a submission and waits for its end.
    """

    spec: RunSpec
    lister: ListsStreams
    context: Context
    submit: Callable[[Submission], None]
    lookback_days: LookbackDays = 0
    ready_after: dt.timedelta | None = None

    def move(self, folder: Path) -> TaskReport:
        """Move the streams. Returns the outcome of each, failed ones included.

        :param folder: private folder for files that the task and the Spark driver exchange.
        :raises ConnectError: no stream could be started, or Spark left no report.
        """
        listing = self.lister.list_streams(self.spec.connections[self.spec.source.conn_id])
        stored_keys = set(variables.keys(f"{offsets.PREFIX}{self.spec.source.name}/"))
        failures = {title: Failure.from_error(ConfigError(text)) for title, text in listing.problems.items()}
        specs = self._resolve(listing, stored_keys, failures)
        gone = self._gone_streams(listing, stored_keys, specs)
        target = SparkTarget.resolve(self.spec.conn_id, self.spec.deploy_mode)
        require_master(self.spec.conn_id, target.master)
        runs = self._plan(specs, folder, target, failures)
        reports, seconds = self._run(runs, folder, stored_keys) if runs else ({}, {})
        for title, failure in failures.items():
            self.spec.log.error("%s: %s", title, failure.message)
        reports |= {title: JobReport(attempt="", failure=failure) for title, failure in failures.items()}
        return TaskReport(
            [_outcome(title, specs.get(title), reports[title]) for title in sorted(reports)], gone, seconds
        )

    def _resolve(
        self, listing: StreamListing, stored_keys: set[str], failures: dict[str, Failure]
    ) -> dict[str, RunSpec]:
        """Return the inputs of each stream by title. Streams without one get a failure.

        :raises RetriableError: the sink's ledger cannot be reached, by two streams and before any other.
        """
        specs: dict[str, RunSpec] = {}
        unanswered, has_answered = 0, False
        for stream in self._distinct_streams(listing, failures):
            try:
                sink = self.spec.sink.for_stream(stream.names)
                choice, source = self._choose_source(stream, sink, stored_keys)
                specs[stream.title] = self._stream_spec(choice, source, sink)
                has_answered |= bool(self.lookback_days) or offsets.variable_key(source, sink) not in stored_keys
            except ConnectError as error:
                failures[stream.title] = Failure.from_error(error)
                unanswered += isinstance(error, RetriableError)
                if not has_answered and unanswered == _ASKED_STREAMS:  # each stream would wait for the sink
                    raise
        _refuse_shared(
            specs,
            failures,
            lambda spec: spec.sink.target,
            "would share {}. Name both {{schema}} and {{table}} in the sink's target",
        )
        _refuse_shared(
            specs,
            failures,
            lambda spec: spec.source.stream_key,
            "would be one stream, {}. Leave all but one out with '!'",
        )
        return specs

    def _distinct_streams(self, listing: StreamListing, failures: dict[str, Failure]) -> list[ListedStream]:
        """Return the streams whose title no other has. The others get a failure."""
        counts = Counter(stream.title for stream in listing.streams)
        failures |= {
            title: Failure.from_error(
                ConfigError(f"{count} tables are called so: their names have dots. Leave all but one out with '!'")
            )
            for title, count in counts.items()
            if count > 1
        }
        return [stream for stream in listing.streams if counts[stream.title] == 1]

    def _choose_source(self, stream: ListedStream, sink: Sink, stored_keys: set[str]) -> tuple[str, Source]:
        """Return the name under which a stream is loaded already, else its first name, and its source.

        :raises ConfigError: it is loaded under several names.
        """
        sources = {choice: self.lister.stream_source(choice) for choice in stream.choices}
        loaded = [choice for choice, source in sources.items() if offsets.variable_key(source, sink) in stored_keys]
        if not loaded:
            # The first load, or its offset was deleted: the ledger knows.
            loaded = [choice for choice in stream.choices[1:] if self._has_days(sources[choice], sink)]
        if len(loaded) > 1:
            keys = " and ".join(offsets.variable_key(sources[choice], sink) for choice in loaded)
            raise ConfigError(
                f"two offsets name {sink.target}: {keys}. Delete the one whose stream the target does not hold, with "
                "'airflow connect offsets reset'"
            )
        choice = loaded[0] if loaded else stream.choices[0]
        return choice, sources[choice]

    def _has_days(self, source: Source, sink: Sink) -> bool:
        key = StreamKey(connector=source.name, stream=source.stream_key)
        log = self.spec.log
        with closing_quietly(sink.open(key, self.spec.connections), lambda text: log.warning("%s", text)) as publisher:
            return len(publisher.ledger.days()) > 0

    def _stream_spec(self, choice: str, source: Source, sink: Sink) -> RunSpec:
        declared_source, *_, transform, declared_by = self.spec.declared_options
        spec = replace(
            self.spec,
            source=source,
            sink=sink,
            declared_options=(
                require_lister(declared_source).stream_source(choice),
                self.spec.declared_options[1],
                transform,
                declared_by,
            ),
            staging=stream_staging(self.spec.staging, source.stream_key),
            metrics=Metrics.for_task(source, sink, self.context["ti"]),
        )
        lookback = find_lookback_days(spec, self.lookback_days, self.ready_after, self.context)
        return replace(spec, lookback=lookback)

    def _gone_streams(self, listing: StreamListing, stored_keys: set[str], specs: Mapping[str, RunSpec]) -> list[str]:
        """Return the streams with an offset that the source does not list any more."""
        listed_keys = {offsets.variable_key(spec.source, spec.sink) for spec in specs.values()}
        listed_titles = {stream.title for stream in listing.streams}
        other_keys = stored_keys - listed_keys
        loaded = offsets.streams_of_keys(self.spec.source, self.spec.sink, other_keys, listing.default_schema)
        gone = {stream.title for stream in loaded.values()} - listed_titles
        if gone:
            self.spec.log.warning(
                "Gone from the source: %s. Their targets keep the published days. To stop this warning, delete their "
                "offsets with 'airflow connect offsets reset'",
                ", ".join(sorted(gone)),
            )
        return sorted(gone)

    def _plan(
        self, specs: Mapping[str, RunSpec], folder: Path, target: SparkTarget, failures: dict[str, Failure]
    ) -> dict[str, Run]:
        runs = {}
        for title, spec in specs.items():
            try:
                make_stream_folders(self.spec, spec, target.master)
                runs[title] = Run.plan_job(spec, self.context, folder, target)
            except ConnectError as error:
                failures[title] = Failure.from_error(error)
        return runs

    def _run(
        self, runs: Mapping[str, Run], folder: Path, stored_keys: set[str]
    ) -> tuple[dict[str, JobReport], dict[str, float]]:
        """Run the job of all streams. Returns the checked report of each, and the job's seconds by phase."""
        first_run = next(iter(runs.values()))
        self._ask_sink(runs, stored_keys)
        attempt = new_attempt(intent_of(self.context["dag_run"], self.context["ti"]))
        report, sealed_connections = first_run.seal(attempt)
        job = StreamsJob(
            streams=tuple(run.config for run in runs.values()),
            parallel_streams=self.lister.parallel_streams,
            attempt=attempt,
            report=report,
            sealed_connections=sealed_connections,
        )
        failure = run_submission(
            lambda: self.submit(first_run.build_submission(job.model_dump_json())),
            folder,
            sealed_connections,
            self.spec.log,
        )
        streams_report = job_outcome.read_streams_report(job)
        with ThreadPoolExecutor(_CONCLUDING_THREADS, "conclude") as pool:
            if streams_report is None:
                list(pool.map(_update_offset, runs.values()))
                raise job_outcome.explain_missing_report(failure, folder)
            conclude = partial(_conclude, failure=failure)
            reports = dict(zip(runs, pool.map(conclude, runs.values(), streams_report.streams), strict=True))
        return reports, streams_report.seconds

    def _ask_sink(self, runs: Mapping[str, Run], stored_keys: set[str]) -> None:
        """Ask the sink of a stream without an offset, so that a wrong connection fails before Spark starts.

        An error of one stream may be its target's, and its job reports it. An error of two streams is the sink's.
        """
        new_runs = [
            run for run in runs.values() if offsets.variable_key(run.spec.source, run.spec.sink) not in stored_keys
        ]
        for number, run in enumerate(new_runs[:_ASKED_STREAMS], 1):
            try:
                with run.open_publisher() as publisher:
                    run.ask_sink_of_first_load(publisher)
            except ConnectError:
                if number == min(_ASKED_STREAMS, len(runs)):
                    raise
            else:
                return


def _outcome(title: str, spec: RunSpec | None, report: JobReport) -> StreamOutcome:
    return (
        StreamOutcome(title, None, report)
        if spec is None
        else StreamOutcome(title, spec.sink, report, DatasetPair.from_spec(spec))
    )


def _refuse_shared(
    specs: dict[str, RunSpec], failures: dict[str, Failure], share: Callable[[RunSpec], str], text: str
) -> None:
    """Move the streams that share a value from the inputs to the failures.

    :param text: follows the streams' titles, with {} for the value.
    """
    titles_by_value: dict[str, list[str]] = {}
    for title, spec in specs.items():
        titles_by_value.setdefault(share(spec), []).append(title)
    for value, titles in titles_by_value.items():
        if len(titles) > 1:
            error = ConfigError(f"{' and '.join(titles)} {text.format(value)}")
            for title in titles:
                failures[title] = Failure.from_error(error)
                del specs[title]


def _conclude(run: Run, report: JobReport, failure: Exception | None) -> JobReport:
    """Check a stream's report against its ledger, and update its offset. An error becomes the report's failure.

    :param failure: the error of spark-submit, which may explain the stream's.
    """
    run.log_report(report)
    if report.failure is not None:
        error = job_outcome.add_exit_cause(report.failure.error(), failure)
        report = report.model_copy(update={"failure": Failure.from_error(error)})
    try:
        with run.open_publisher() as publisher:
            if report.failure is not None:
                run.update_offset_after_failure(publisher.ledger)
                return report
            try:
                job_outcome.verify_report(report, run.config, publisher.ledger)
            except Exception:
                run.update_offset_after_failure(publisher.ledger)
                raise
            run.update_offset(publisher.ledger)
    except Exception as error:  # noqa: BLE001  # it concerns this stream alone
        return report.model_copy(update={"failure": Failure.from_error(error)})
    return report


def _update_offset(run: Run) -> None:
    with run.open_publisher() as publisher:
        run.update_offset_after_failure(publisher.ledger)
