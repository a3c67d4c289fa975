"""The one operator: any source with any sink, a day at a time, on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.operators.links import PublishedLink
from airflow_provider_connect.operators.retry import CONNECT_RETRY_POLICY, airflow_error
from airflow_provider_connect.operators.run_folder import remove, run_folder
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source

if TYPE_CHECKING:
    from airflow.sdk import Context, RetryPolicy

    from airflow_provider_connect.job import JobReport

_OWNED = ("application", "application_args", "java_class", "durable", "reconnect_on_retry")


class ConnectOperator(SparkSubmitOperator):
    """Move the days of a run from a source into a sink, each exactly once.

    The task resolves the days and the connections, starts one Spark application for all of them with
    ``spark-submit``, believes its report only after a look into the sink's ledger, and lets the stream's
    :class:`~airflow_provider_connect.offsets.Offset` follow that ledger. A retry publishes nothing twice; a
    clear or a backfill loads its days again.

    :param source: where the days come from.
    :param sink: where they go to.
    :param days: ``YYYY-MM-DD``, or ``YYYY-MM-DD..YYYY-MM-DD`` with both ends included, in the source's zone
        (templated). Without it, or if it renders empty, the run's partition key counts, then its data interval.
    :param staging: path or URL where polled days are kept until they are published, for a sink that has no place
        of its own for them (templated). On a cluster the workers must reach it, and it must be given; where Spark
        runs in the task's own machine, a private folder below the system's temporary one will do.
    :param progress_seconds: seconds between two progress lines in the log.
    :param asset_events: ``task`` (default) emits one event of the sink's asset with the report as its extra, and
        starts DAGs that are scheduled on the asset; ``day`` emits one for each day, with the day as its partition
        key, and starts only DAGs with a partitioned timetable (Airflow passes over all others).
    :param conn_id: the Spark connection, which must exist.
    :param name: of the Spark application (templated).
    :param retries: as everywhere, but 3 unless the task or ``default_args`` say otherwise.
    :param retry_policy: default: wait as long as the source asked for, else the task's ``retry_delay``.
    :param kwargs: everything else that :class:`SparkSubmitOperator` takes; ``application`` and its arguments are
        this operator's own, and so is ``durable``: a job is always submitted anew, and the ledger keeps it from
        publishing twice.

    XCom and the outlet asset's event carry the small report.
    """

    template_fields: Sequence[str] = (
        "source",
        "sink",
        "days",
        "staging",
        *(name for name in SparkSubmitOperator.template_fields if name not in _OWNED),
    )
    template_fields_renderers = {"source": "json", "sink": "json"}
    ui_color = "#d9ead3"
    operator_extra_links = (PublishedLink(),)
    overwrite_rtif_after_execution = True  # so that the rendered days are those that were moved

    def __init__(
        self,
        *,
        source: Source,
        sink: Sink,
        days: str | None = None,
        staging: str | None = None,
        progress_seconds: float = 5.0,
        asset_events: Literal["task", "day"] = "task",
        conn_id: str = "spark_default",
        name: str = "airflow-connect",
        retries: int | None = 3,
        retry_policy: RetryPolicy | None = CONNECT_RETRY_POLICY,
        **kwargs: Any,
    ) -> None:
        owned = sorted(set(_OWNED) & set(kwargs))
        if owned:
            raise ConfigError(f"ConnectOperator sets {', '.join(owned)} itself: leave it out")
        _check_connectors(source, sink)
        kwargs["outlets"] = _with_outlet(kwargs.get("outlets"), sink)
        super().__init__(
            conn_id=conn_id, name=name, retries=retries, retry_policy=retry_policy, durable=False, **kwargs
        )
        self.source = source
        self.sink = sink
        self.days = days
        self.staging = staging
        self.progress_seconds = progress_seconds
        self.asset_events = asset_events
        self.published_link = ""
        self._folder: Path | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Prepare a mapped task, as every operator does; the sink's asset becomes its outlet here, too."""
        if isinstance(kwargs.get("sink"), Sink):
            kwargs["outlets"] = _with_outlet(kwargs.get("outlets"), kwargs["sink"])
        return super().partial(**kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # Spark's own returns nothing
        """Move the days; return the small report.

        :raises AirflowFailException: a person must act, or the data is bad.
        :raises TryAgainError: the same may succeed later.
        """
        from airflow_provider_connect.operators.run import Run  # noqa: PLC0415  # DAG parsing does without it

        submit = super().execute
        try:
            with run_folder() as self._folder:
                report = Run.plan(self, context, self._folder).move(lambda: submit(context))
        except ConnectError as error:
            raise airflow_error(error) from None
        self.published_link = next((day.link for day in reversed(report.days) if day.link), "")
        self._tell(context, report)
        return report.summary()

    def on_kill(self) -> None:
        """End Spark, and remove what the task left on disk."""
        try:
            if self._hook is not None:
                super().on_kill()
        finally:
            if self._folder is not None:
                remove(self._folder)

    def _tell(self, context: Context, report: JobReport) -> None:
        asset = next((outlet for outlet in self.outlets if _is_asset_of(outlet, self.sink)), None)
        if asset is None:
            return
        event = context["outlet_events"][asset]
        if self.asset_events == "task":
            event.extra.update(report.summary())
        else:
            event.extra.update(report.totals())
            event.add_partitions([str(day.day) for day in report.days if day.status != "superseded"])


def _check_connectors(source: object, sink: object) -> None:
    for name, value, contract in (("source", source, Source), ("sink", sink, Sink)):
        if not isinstance(value, contract):
            raise ConfigError(f"{name}= needs a {contract.__name__}, such as one of our {name}s/, not {type(value)}")


def _with_outlet(outlets: Any, sink: Sink) -> list[Any]:
    given = list(outlets) if isinstance(outlets, Sequence) else [outlets] if outlets is not None else []
    return given if any(_is_asset_of(outlet, sink) for outlet in given) else [*given, Asset(uri=sink.asset_uri)]


def _is_asset_of(outlet: Any, sink: Sink) -> bool:
    return isinstance(outlet, Asset) and outlet.uri == Asset(uri=sink.asset_uri).uri
