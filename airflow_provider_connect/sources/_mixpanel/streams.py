"""All Mixpanel streams, and checks of their options."""

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
    cost_text="1, less with days_per_request, more with split_rows",
    counts={
        "duplicates": "records with the key of an earlier record of the day, dropped",
        "rejected": "lines that are not records, set aside",
        "rejoined": "records broken over several lines",
        "blank_lines": "lines without a record",
        "other_day": "records of other days, because the request covers more than the day (utc), dropped",
        "outside_day": "records of the server's day with a time outside it, kept",
        "time_unreadable": "records without a usable time",
        "processing_time_unreadable": "records with an unreadable mp_processing_time_ms",
        "ambiguous_time": "times that occur twice on the project's clock, read as the first",
        "nonexistent_time": "times that the project's clock skipped, moved forward",
        "fallback_keys": "records with a key from all properties, because a part of the usual key is missing",
        "lone_surrogates": "records with a lone surrogate, which columns show as U+FFFD",
        "unknown_fields": "records with fields other than event and properties, which are dropped",
        **PROMOTED_COUNTS,
        "late_<n>_days": "records that Mixpanel received after n further days had ended, for n from 1 to 10",
        "late": "records that Mixpanel received since the previous poll of the day",
    },
)

_ALL = (EXPORT, ENGAGE, COHORTS, COHORT_MEMBERS, ANNOTATIONS, FUNNELS, RETENTION, INSIGHTS, SEGMENTATION)

STREAMS: dict[StreamName, MixpanelStream] = {stream.name: stream for stream in _ALL}


def option_problems(options: MixpanelOptions) -> list[str]:
    stream = STREAMS[options.stream]
    return [
        *_unused_option_problems(options, stream),
        *_promotion_problems(options, stream),
        *stream.problems(options),
    ]


def connection_problems(options: MixpanelOptions, connection: Connection) -> list[str]:
    stream = STREAMS[options.stream]
    has_regime = "timestamps" in stream.options
    return options.export_problems(connection) if has_regime else access.access_problems(connection, stream.api)


def _promotion_problems(options: MixpanelOptions, stream: MixpanelStream) -> list[str]:
    problems = column_collisions(options.promoted, (*stream.columns, "day"))
    if "null_texts" in stream.options and options.null_texts and not options.promote:
        problems.append("null_texts: no property is promoted. Set promote, or remove null_texts")
    return problems


def _unused_option_problems(options: MixpanelOptions, stream: MixpanelStream) -> list[str]:
    problems = []
    for name in sorted(options.model_fields_set - stream.options):
        users = [
            stream_with_option.name for stream_with_option in STREAMS.values() if name in stream_with_option.options
        ]
        field = type(options).model_fields[name]
        # What travelled to Spark has every option: one that has its default was not given.
        if users and getattr(options, name) != field.get_default(call_default_factory=True):
            problems.append(
                f"{name}: stream {stream.name!r} does not use it. Remove it, or use stream {', '.join(users)}"
            )
    return problems
