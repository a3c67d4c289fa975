"""Every stream of the Mixpanel source by its name, and which options go with which. DAG files import this."""

from __future__ import annotations

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sources._mixpanel import access
from airflow_provider_connect.sources._mixpanel.columns import COLUMNS, column_collisions
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions, StreamName
from airflow_provider_connect.sources._mixpanel.query.funnels import FUNNELS
from airflow_provider_connect.sources._mixpanel.query.insights import INSIGHTS
from airflow_provider_connect.sources._mixpanel.query.lists import ANNOTATIONS, COHORTS
from airflow_provider_connect.sources._mixpanel.query.profiles import COHORT_MEMBERS, ENGAGE
from airflow_provider_connect.sources._mixpanel.query.retention import RETENTION
from airflow_provider_connect.sources._mixpanel.query.segmentation import SEGMENTATION
from airflow_provider_connect.sources._mixpanel.splitting import split_problems
from airflow_provider_connect.sources._mixpanel.stream_definition import PROMOTED_COUNTS, MixpanelStream

EXPORT = MixpanelStream(
    name="export",
    kind="day",
    api="export",
    summary="raw events",
    columns=COLUMNS,
    key=("event", "distinct_id", "time", "insert_id"),
    options=frozenset(
        {
            "timestamps",
            "event",
            "where",
            "deduplicate",
            "split_rows",
            "promote",
            "days_per_request",
            "null_texts",
            "errors_tolerance",
            "max_rejects",
            "max_record_bytes",
        }
    ),
    problems=split_problems,
    cost_text="1; less with days_per_request, more with split_rows",
    counts={
        "duplicates": "records whose key came before on the day; they are dropped",
        "rejected": "lines that are no records, and are set aside",
        "rejoined": "records that came broken over several lines",
        "blank_lines": "lines without a record",
        "other_day": "records of other days, where a request covers more than the day (utc); they are dropped",
        "outside_day": "records with a time outside the day that the server counts to it; they are kept",
        "time_unreadable": "records without a usable time",
        "processing_time_unreadable": "records whose mp_processing_time_ms is no time",
        "ambiguous_time": "times that the project's clock showed twice; the first is taken",
        "nonexistent_time": "times that the project's clock skipped; they are moved forward",
        "fallback_keys": "records whose key is made from their properties, for a part of the usual one is missing",
        "lone_surrogates": "records with half a character, which columns show as U+FFFD",
        "unknown_fields": "records with fields beside event and properties, which are not kept",
        **PROMOTED_COUNTS,
        "late_<n>_days": "records that Mixpanel received after n further days were over, for n from 1 to 10",
        "late": "records that Mixpanel received since the day was polled before",
    },
)

_ALL = (EXPORT, ENGAGE, COHORTS, COHORT_MEMBERS, ANNOTATIONS, FUNNELS, RETENTION, INSIGHTS, SEGMENTATION)

STREAMS: dict[StreamName, MixpanelStream] = {stream.name: stream for stream in _ALL}


def option_problems(options: MixpanelOptions) -> list[str]:
    """Return what is wrong with the options for the stream that they name; [] if nothing is."""
    stream = STREAMS[options.stream]
    return [
        *_foreign(options, stream),
        *_promotion(options, stream),
        *stream.problems(options),
    ]


def connection_problems(options: MixpanelOptions, connection: Connection) -> list[str]:
    """Return what is wrong with the options and the connection; [] if nothing is."""
    stream = STREAMS[options.stream]
    has_regime = "timestamps" in stream.options
    return options.export_problems(connection) if has_regime else access.access_problems(connection, stream.api)


def _promotion(options: MixpanelOptions, stream: MixpanelStream) -> list[str]:
    """Name the promoted properties whose columns are taken, and what needs a promoted property."""
    found = column_collisions(options.promoted, (*stream.columns, "day"))
    if "null_texts" in stream.options and options.null_texts and not options.promote:
        found.append("null_texts: they are null in promoted columns, and no property is promoted: set promote")
    return found


def _foreign(options: MixpanelOptions, stream: MixpanelStream) -> list[str]:
    """Name the options that are set and that the stream has no use for."""
    found = []
    for name in sorted(options.model_fields_set - stream.options):
        users = [other.name for other in STREAMS.values() if name in other.options]
        field = type(options).model_fields[name]
        # What travelled to Spark has every option: one that has its default was not given.
        if users and getattr(options, name) != field.get_default(call_default_factory=True):
            found.append(f"{name}: stream {stream.name!r} has no use for it; it belongs to {', '.join(users)}")
    return found
