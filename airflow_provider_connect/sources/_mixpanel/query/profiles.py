"""The streams that are pages of profiles: ``engage`` and ``cohort_members``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.lists import fetch_cohorts
from airflow_provider_connect.sources._mixpanel.refusals import UnreadableCohortError
from airflow_provider_connect.sources._mixpanel.stream_definition import PROMOTED_COUNTS, RECORD_KEY, MixpanelStream

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient


def _not_asked_for(options: MixpanelOptions) -> list[str]:
    """Name promoted properties that would be null in every row."""
    if options.output_properties is None:
        return []
    return [
        f"promote: property {name!r} is not among output_properties, so its column would be null in every row"
        for name in options.promote
        if name not in options.output_properties
    ]


def _engage(stream: MixpanelStream, there: MixpanelClient) -> Iterator[pa.RecordBatch]:
    from airflow_provider_connect.sources._mixpanel.query.profile_reader import ProfileReader  # noqa: PLC0415  # too heavy for a DAG file

    options = there.options
    about, chosen = "", {"where": options.where, "data_group_id": options.data_group_id}
    if options.filter_by_cohort is not None:
        chosen["filter_by_cohort"] = _cohort(options.filter_by_cohort)
        about = f"cohort {options.filter_by_cohort} (option filter_by_cohort)"
    if options.output_properties is not None:
        chosen["output_properties"] = json.dumps(options.output_properties, ensure_ascii=False)
    form = {name: value for name, value in chosen.items() if value is not None}
    with ProfileReader(stream, there) as profiling:
        yield from profiling.read_session(form, about)


def _members(stream: MixpanelStream, there: MixpanelClient) -> Iterator[pa.RecordBatch]:
    from airflow_provider_connect.sources._mixpanel.query.profile_reader import ProfileReader  # noqa: PLC0415  # too heavy for a DAG file

    with ProfileReader(stream, there) as profiling:
        for cohort, about in _cohorts_to_read(there).items():
            form = {"filter_by_cohort": _cohort(cohort), "output_properties": json.dumps(["$last_seen"])}
            try:
                yield from profiling.read_session(form, about, cohort_id=cohort)
            except UnreadableCohortError as error:
                if there.options.on_unreadable == "fail":
                    raise ConfigError(f"{error}. To leave out such cohorts, set on_unreadable='skip'") from None
                there.tally.counts["unreadable_cohorts"] += 1


def _cohorts_to_read(there: MixpanelClient) -> dict[int, str]:
    """Return the ids of the cohorts whose members are wanted, and what messages call each."""
    if there.options.cohorts:
        return {cohort: f"cohort {cohort} (option cohorts)" for cohort in there.options.cohorts}
    return {
        cohort["id"]: f"cohort {cohort['id']} ({str(cohort.get('name'))[:100]!r})" for cohort in fetch_cohorts(there)
    }


def _cohort(number: int) -> str:
    return json.dumps({"id": number})


_COUNTS = {
    "duplicates": "profiles whose distinct_id came before; they are dropped",
    "rejected": "profiles without a distinct_id or properties, which are set aside; their position is their number",
    "last_seen_unreadable": "profiles whose $last_seen is no time",
    "lone_surrogates": "profiles with half a character, which columns show as U+FFFD",
}

ENGAGE = MixpanelStream(
    name="engage",
    kind="snapshot",
    api="query",
    summary="profiles of users, or of a group's",
    columns={
        "distinct_id": RowColumn("string", "Whose profile it is; a number keeps its JSON text.", required=True),
        "last_seen": RowColumn(
            "timestamp", "The property $last_seen (UTC, unless it says another offset); null if it is not a time."
        ),
        "properties": RowColumn("json", "All properties: the JSON text as sent, byte for byte.", required=True),
        "record_key": RECORD_KEY,
    },
    key=("distinct_id",),
    options=frozenset(
        {
            "where",
            "data_group_id",
            "filter_by_cohort",
            "output_properties",
            "promote",
            "null_texts",
            "errors_tolerance",
            "max_rejects",
        }
    ),
    variant=lambda options: options.data_group_id or "",
    problems=_not_asked_for,
    cost_text="1, however many pages there are",
    counts=_COUNTS | PROMOTED_COUNTS,
    read_batches=_engage,
)

COHORT_MEMBERS = MixpanelStream(
    name="cohort_members",
    kind="snapshot",
    api="query",
    summary="who is in which cohort",
    columns={
        "cohort_id": RowColumn("bigint", "The cohort's id.", required=True),
        "distinct_id": RowColumn("string", "A member of it; a number keeps its JSON text.", required=True),
        "last_seen": RowColumn(
            "timestamp", "The member's $last_seen (UTC, unless it says another offset); null if it is not a time."
        ),
        "record_key": RECORD_KEY,
    },
    key=("cohort_id", "distinct_id"),
    options=frozenset({"cohorts", "on_unreadable", "errors_tolerance", "max_rejects"}),
    min_requests=lambda options: len(options.cohorts) if options.cohorts else 2,  # the list, and a cohort
    cost_text="1 for each cohort, and 1 for the list unless cohorts names them",
    counts=_COUNTS | {"unreadable_cohorts": "cohorts that are left out, because their data group was deleted"},
    read_batches=_members,
)
