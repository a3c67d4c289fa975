"""The one operator: any source with any sink, a day at a time, on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.operators.arguments import OWNED, AssetEvents, origin_date, require_known, require_sound
from airflow_provider_connect.operators.links import PublishedLink
from airflow_provider_connect.operators.outlets import ConnectPartial, asset_of, with_outlet
from airflow_provider_connect.operators.retry import CONNECT_RETRY_POLICY, airflow_error
from airflow_provider_connect.operators.run_folder import remove, run_folder

if TYPE_CHECKING:
    import datetime as dt

    from airflow.sdk import Asset, Context, RetryPolicy

    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.sink import OnEmpty, Sink
    from airflow_provider_connect.source import Source


class ConnectOperator(SparkSubmitOperator):
    """Move the days of a run from a source into a sink, each exactly once.

    The task resolves the days and the connections, starts one Spark application for all of them with
    ``spark-submit``, believes its report only after a look into the sink's ledger, and lets the stream's
    :class:`~airflow_provider_connect.offsets.Offset` follow that ledger. A retry publishes nothing twice; a
    clear or a backfill loads its days again.

    :param source: where the days come from; texts among its options may be templates, and so the sink's.
    :param sink: where they go to.
    :param days: ``YYYY-MM-DD``, or ``YYYY-MM-DD..YYYY-MM-DD`` with both ends included, in the source's zone
        (templated). Without it, or if it renders empty, the run's partition key counts, then its data interval.
    :param staging: path or URL where polled days are kept until they are published, for a sink that has no place
        of its own for them (templated). On a cluster the workers must reach it, and it must be given; where Spark
        runs in the task's own machine, a private folder below the system's temporary one will do.
    :param on_empty: what an answer without rows does to a day that has rows in the sink's ledger: ``fail`` (default)
        fails the task and leaves them, ``accept`` publishes the empty day in their place. A first load may be empty.
    :param progress_seconds: seconds between two progress lines in the log.
    :param asset: what the task writes, as an Airflow asset: the sink's own by default. Give one where the address
        stands only in the connection (a topic's cluster, a table's project) and others know the asset by it, and where
        the sink's name is a template.
    :param asset_events: ``task`` (default) emits one event of the sink's asset with the report as its extra, and
        starts DAGs that are scheduled on the asset; ``day`` emits one for each day, with the day as its partition
        key, and starts only DAGs with a partitioned timetable (Airflow passes over all others).
    :param origin: first day that is wanted, a date or ``YYYY-MM-DD``: where the offset's position counts from. Without
        it the first day of the DAG's start date, or the earliest of the DAGs that load the stream.
    :param outlets: more outlets, as everywhere; one with the asset's URI takes its place.
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
        *(name for name in SparkSubmitOperator.template_fields if name not in OWNED),
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
        on_empty: OnEmpty = "fail",
        progress_seconds: float = 5.0,
        asset: Asset | None = None,
        asset_events: AssetEvents = "task",
        origin: str | dt.date | None = None,
        outlets: Any = None,
        conn_id: str = "spark_default",
        name: str = "airflow-connect",
        retries: int | None = 3,
        retry_policy: RetryPolicy | None = CONNECT_RETRY_POLICY,
        **kwargs: Any,
    ) -> None:
        require_known(type(self), kwargs)
        own = {"source": source, "sink": sink, "on_empty": on_empty, "progress_seconds": progress_seconds}
        require_sound(type(self).__name__, own | {"asset": asset, "asset_events": asset_events, "origin": origin})
        outlets, self.asset = with_outlet(outlets, asset_of(sink, asset))
        spark: dict[str, Any] = {"conn_id": conn_id, "name": name, "durable": False, "outlets": outlets}
        super().__init__(retries=retries, retry_policy=retry_policy, **spark, **kwargs)
        self.source = source
        self.sink = sink
        self.days = days
        self.staging = staging
        self.on_empty = on_empty
        self.progress_seconds = progress_seconds
        self.asset_events = asset_events
        self.origin = origin_date(origin)
        self.published_link = ""
        self._folder: Path | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> ConnectPartial:
        """Prepare a mapped task, as every operator does; what it writes becomes its outlets here, too."""
        require_known(cls, kwargs)
        require_sound(cls.__name__, kwargs)
        made = super().partial(**kwargs)
        made._expand_called = True  # the one below is to be mapped
        return ConnectPartial(operator_class=made.operator_class, kwargs=made.kwargs, params=made.params)

    def render_template(self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None) -> Any:
        """Render a templated field; of a source or a sink, the texts among its options."""
        if not isinstance(content, Options):
            return super().render_template(content, context, jinja_env, seen_oids)
        render = super().render_template
        return content.rendered(lambda text: render(text, context, jinja_env))

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # Spark's own returns nothing
        """Move the days; return the small report.

        :raises AirflowFailException: a person must act, or the data is bad.
        :raises TryAgainError: the same may succeed later.
        """
        from airflow_provider_connect.operators.run import Run  # noqa: PLC0415  # DAG parsing does without it

        submit = super().execute
        try:
            self._take_rendered()
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

    def _take_rendered(self) -> None:
        """Validate source and sink again, now that their templates are rendered.

        :raises ConfigError: with what is wrong with either.
        """
        problems = []
        for name in ("source", "sink"):
            try:
                setattr(self, name, getattr(self, name).checked())
            except ConfigError as error:
                problems.append(str(error))
        if problems:
            raise ConfigError("\n".join(problems))

    def _tell(self, context: Context, report: JobReport) -> None:
        event = context["outlet_events"][self.asset]
        if self.asset_events == "task":
            event.extra.update(report.summary())
        else:
            event.extra.update(report.totals())
            event.add_partitions([str(day.day) for day in report.days if day.status != "superseded"])
