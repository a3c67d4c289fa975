"""Streams ``engage`` and ``cohort_members``: pages of profiles."""

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


def _properties_not_requested(options: MixpanelOptions) -> list[str]:
    if options.output_properties is None:
        return []
    return [
        f"promote: property {name!r} is not among output_properties, so its column would be null in every row"
        for name in options.promote
        if name not in options.output_properties
    ]


def _engage(stream: MixpanelStream, client: MixpanelClient) -> Iterator[pa.RecordBatch]:
    from airflow_provider_connect.sources._mixpanel.query.profile_reader import ProfileReader  # noqa: PLC0415  # too heavy for a DAG file

    options = client.options
    subject, form_fields = "", {"where": options.where, "data_group_id": options.data_group_id}
    if options.filter_by_cohort is not None:
        form_fields["filter_by_cohort"] = _cohort(options.filter_by_cohort)
        subject = f"cohort {options.filter_by_cohort} (option filter_by_cohort)"
    if options.output_properties is not None:
        form_fields["output_properties"] = json.dumps(options.output_properties, ensure_ascii=False)
    form = {name: value for name, value in form_fields.items() if value is not None}
    with ProfileReader(stream, client) as reader:
        yield from reader.read_session(form, subject)


def _members(stream: MixpanelStream, client: MixpanelClient) -> Iterator[pa.RecordBatch]:
    from airflow_provider_connect.sources._mixpanel.query.profile_reader import ProfileReader  # noqa: PLC0415  # too heavy for a DAG file

    with ProfileReader(stream, client) as reader:
        for cohort, subject in _cohorts_to_read(client).items():
            form = {"filter_by_cohort": _cohort(cohort), "output_properties": json.dumps(["$last_seen"])}
            try:
                yield from reader.read_session(form, subject, cohort_id=cohort)
            except UnreadableCohortError as error:
                if client.options.on_unreadable == "fail":
                    raise ConfigError(f"{error}. To leave out such cohorts, set on_unreadable='skip'") from None
                client.tally.counts["unreadable_cohorts"] += 1


def _cohorts_to_read(client: MixpanelClient) -> dict[int, str]:
    if client.options.cohorts:
        return {cohort: f"cohort {cohort} (option cohorts)" for cohort in client.options.cohorts}
    return {
        cohort["id"]: f"cohort {cohort['id']} ({str(cohort.get('name'))[:100]!r})" for cohort in fetch_cohorts(client)
    }


def _cohort(number: int) -> str:
    return json.dumps({"id": number})


_COUNTS = {
    "duplicates": "profiles with the distinct_id of an earlier profile, dropped",
    "rejected": "profiles without a distinct_id or properties, set aside. Their position is their number",
    "last_seen_unreadable": "profiles with an unreadable $last_seen",
    "lone_surrogates": "profiles with a lone surrogate, which columns show as U+FFFD",
}

ENGAGE = MixpanelStream(
    name="engage",
    kind="snapshot",
    api="query",
    summary="profiles of users or of a group",
    columns={
        "distinct_id": RowColumn("string", "Owner of the profile. A number keeps its JSON text.", required=True),
        "last_seen": RowColumn("timestamp", "The property $last_seen (UTC without an offset). Null if unreadable."),
        "properties": RowColumn("json", "All properties as sent: JSON text, byte for byte.", required=True),
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
    problems=_properties_not_requested,
    cost_text="1 for all pages",
    counts=_COUNTS | PROMOTED_COUNTS,
    read_batches=_engage,
)

COHORT_MEMBERS = MixpanelStream(
    name="cohort_members",
    kind="snapshot",
    api="query",
    summary="members of cohorts",
    columns={
        "cohort_id": RowColumn("bigint", "The cohort's id.", required=True),
        "distinct_id": RowColumn("string", "Member of the cohort. A number keeps its JSON text.", required=True),
        "last_seen": RowColumn("timestamp", "The member's $last_seen (UTC without an offset). Null if unreadable."),
        "record_key": RECORD_KEY,
    },
    key=("cohort_id", "distinct_id"),
    options=frozenset({"cohorts", "on_unreadable", "errors_tolerance", "max_rejects"}),
    min_requests=lambda options: len(options.cohorts) if options.cohorts else 2,  # the list, and a cohort
    cost_text="1 for each cohort, and 1 for the list without cohorts",
    counts=_COUNTS | {"unreadable_cohorts": "cohorts without rows, because their data group was deleted"},
    read_batches=_members,
)
