"""Writes ended runs into a private Airflow's own database: ``python -m … DAG_ID DAYS TABLE`` in its environment.

A scheduler would take hours for what a page has to show of ten years.
"""

from __future__ import annotations

import datetime as dt
import random
import sys

from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dagbag import DBDagBag
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select

from airflow_provider_connect import offsets
from airflow_provider_connect.job import DayReport, JobReport
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import ONE_DAY, DaySet

_SHOWN = 30
"""Of so many runs Airflow keeps the rendered fields."""


def write(dag_id: str, count: int, source: MixpanelSource, sink: DeltaSink) -> None:
    """Write a successful run of the DAG's one task for each of the last days, up to yesterday."""
    today = dt.datetime.now(dt.UTC).date()
    with create_session() as session:
        dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
        assert dag is not None
        asset_id = session.scalar(select(AssetModel.id).where(AssetModel.uri == sink.asset_uri))
        for back in range(count, 0, -1):
            day = today - ONE_DAY * back
            start, end = (dt.datetime.combine(day + ONE_DAY * i, dt.time(), tzinfo=dt.UTC) for i in (0, 1))
            run = dag.create_dagrun(
                run_id=f"scheduled__{end.isoformat()}",
                logical_date=start,
                data_interval=(start, end),
                run_after=end,
                run_type=DagRunType.SCHEDULED,
                triggered_by=DagRunTriggeredByType.TIMETABLE,
                state=DagRunState.SUCCESS,
                start_date=end,
                session=session,
            )
            (task,) = run.task_instances
            task.state, task.start_date, task.end_date = TaskInstanceState.SUCCESS, end, end + dt.timedelta(minutes=5)
            if back <= _SHOWN:
                fields = {"source": source.serialize(), "sink": sink.serialize(), "days": str(day)}
                session.execute(
                    RenderedTaskInstanceFields.__table__.insert().values(
                        dag_id=dag_id, task_id=task.task_id, run_id=run.run_id, map_index=-1, rendered_fields=fields
                    )
                )
            report = _report(day)
            session.add(
                AssetEvent(
                    asset_id=asset_id,
                    extra=report.summary(),
                    source_task_id=task.task_id,
                    source_dag_id=dag_id,
                    source_run_id=run.run_id,
                    source_map_index=-1,
                    timestamp=task.end_date,
                )
            )
    from airflow.models.variable import Variable

    done = DaySet(ranges=((today - ONE_DAY * count, today - ONE_DAY),))
    offset = Offset.from_published(source, sink, done, done.ranges[0][0])
    Variable.set(offsets.variable_key(source, sink), offset.model_dump_json())


def _report(day: dt.date) -> JobReport:
    rows = random.Random(day.toordinal()).randint(90_000, 110_000)
    seconds = {"start": 3.1, "work": 42.6, "total": 46.2}
    return JobReport.from_days(
        "a",
        [
            DayReport(
                day=day,
                status="published",
                generation=1,
                rows_read=rows,
                rows_written=rows,
                raw_bytes=900 * rows,
                digest="8f0e8b5a3c7d41a29d0c6be2f4a1735e",
            )
        ],
        seconds=seconds,
    )


if __name__ == "__main__":
    _, dag_id, days, path = sys.argv
    write(dag_id, int(days), MixpanelSource(), DeltaSink(path=path))
