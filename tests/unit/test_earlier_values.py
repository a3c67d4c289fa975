"""Values that the commit before the renames of 2026-11 wrote. A rename of a class or a variable must not reach them.

``tests/equipment/earlier/values.json`` was written by that commit: JSON of every value that is kept or crosses a
process, names that Airflow keeps of deferred tasks, and names in targets. Do not write it again with a later commit.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from airflow_provider_connect import errors, registry
from airflow_provider_connect.clients.kafka.transaction import transactional_id
from airflow_provider_connect.completeness import RowBounds, Rules
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.decorators.connect import ConnectDecoratedOperator
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.job import Allowance, DayReport, JobConfig, JobReport, SealedConnections, Totals
from airflow_provider_connect.ledger import Intent, LedgerRow, StreamKey
from airflow_provider_connect.offsets import Offset, variable_key
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.links import PublishedLink
from airflow_provider_connect.operators.quota import TaskProgress
from airflow_provider_connect.operators.quota_trigger import QuotaTrigger
from airflow_provider_connect.polling.quota.book import Hold, QueueEntry, QuotaBook, SentRequests, VendorUsage
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.sinks._bigquery.staging import FilledStaging
from airflow_provider_connect.sinks._delta.app_transactions import confirmation_transactions, publish_transactions
from airflow_provider_connect.sinks._kafka.ledger.records import Claim, CoveredGeneration, DayEntry, DefinitionRecord
from airflow_provider_connect.sinks._kafka.topic_rules import TopicGroup, TopicRules
from airflow_provider_connect.sinks._kafka.turn_queue import TicketRecord
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.transform.result_tasks import StageResultOutcome
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish, StagedFile, TransformResult
from airflow_provider_connect.stage.notes import Acceptance, Alarm, LedgerNote, Resumption
from airflow_provider_connect.stage.poll_plans import PartRecord, PollPlan
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.tables import TableTemplate
from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.window import Day, DaySet

VALUES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "equipment/earlier/values.json").read_text())
MODELS: dict[str, type[BaseModel]] = {
    "acceptance": Acceptance,
    "alarm": Alarm,
    "allowance": Allowance,
    "bigquery_staged_table": FilledStaging,
    "day": Day,
    "day_report": DayReport,
    "day_set": DaySet,
    "definition": StreamDefinition,
    "differences": Differences,
    "erase_list": EraseList,
    "failure": Failure,
    "input_partition": InputPartition,
    "intent": Intent,
    "job_config": JobConfig,
    "job_report": JobReport,
    "kafka_claim": Claim,
    "kafka_covered": CoveredGeneration,
    "kafka_entry": DayEntry,
    "kafka_in_force": DefinitionRecord,
    "kafka_ticket": TicketRecord,
    "kafka_topic_group": TopicGroup,
    "kafka_topic_rules": TopicRules,
    "ledger_note": LedgerNote,
    "ledger_row": LedgerRow,
    "manifest": Manifest,
    "offset": Offset,
    "plan": PollPlan,
    "plan_record": PartRecord,
    "polled": PollResult,
    "resumption": Resumption,
    "row_bounds": RowBounds,
    "rules": Rules,
    "sealed_connections": SealedConnections,
    "seen": SeenPublish,
    "span": Span,
    "staged_file": StagedFile,
    "stream_key": StreamKey,
    "tables": TableTemplate,
    "totals": Totals,
    "transform": Transform,
    "transform_result": StageResultOutcome,
    "transformed": TransformResult,
}
ADDED: dict[frozenset[str], dict[str, Any]] = {
    frozenset(VALUES["models"]["span"]): {"run": None},
    frozenset(VALUES["models"]["seen"]): {"span": None},
    frozenset(VALUES["models"]["offset"]): {"read_at": None},
    frozenset(VALUES["models"]["job_config"]): {"has_lookback": False, "concurrent_polls": 1},
}
"""Fields that later commits added, by the earlier fields of their model, with the value for an earlier text."""
ADDED_ID = "connect/text/export/2026-11-03/file/text"
"""Id of an increment's attempt, which a later commit added."""
DATACLASSES: dict[str, type[Any]] = {"quota": Quota, "quota_left": TaskProgress, "quota_want": QuotaClaim}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_reads_an_earlier_value_and_writes_it_unchanged(name: str) -> None:
    """Fields that were added since have a default."""
    model = MODELS[name].model_validate_json(json.dumps(VALUES["models"][name]))

    assert json.loads(model.model_dump_json()) == with_added_fields(VALUES["models"][name])


def test_every_earlier_model_is_among_those_read() -> None:
    assert set(MODELS) == set(VALUES["models"])


def test_a_connection_has_its_earlier_fields() -> None:
    assert list(Connection.model_fields) == VALUES["connection"]


@pytest.mark.parametrize("name", DATACLASSES)
def test_what_a_deferred_task_keeps_has_its_earlier_fields(name: str) -> None:
    assert [field.name for field in dataclasses.fields(DATACLASSES[name])] == VALUES["dataclasses"][name]


def test_airflow_finds_the_trigger_and_the_method_of_a_task_deferred_earlier() -> None:
    assert names_in_airflow() == VALUES["airflow"]


def test_errors_keep_the_names_that_stand_in_reports() -> None:
    assert sorted(errors._BY_NAME) == VALUES["errors"]


def test_connectors_keep_their_names() -> None:
    """New ones may come."""
    earlier: dict[str, list[str]] = VALUES["connectors"]
    present = {room: registry.names(room) for room in ("sources", "sinks")}
    assert {room: [name for name in present[room] if name in names] for room, names in earlier.items()} == earlier


def test_options_and_arguments_keep_their_names() -> None:
    """New ones may come."""
    present = names_of_options()
    earlier: dict[str, list[str]] = VALUES["options"]
    assert {owner: [name for name in present[owner] if name in names] for owner, names in earlier.items()} == earlier


def test_targets_keep_the_ids_that_the_ledger_is_read_by() -> None:
    ids = ids_in_targets()
    assert ids["delta"].pop(ADDED_ID) == VALUES["models"]["ledger_row"]["generation"]
    assert ids == VALUES["ids"]


def test_the_quota_keeps_the_keys_that_runs_share() -> None:
    assert keys_of_quota() == VALUES["quota_keys"]

    book = QuotaBook.read(_quota(), [f"connect_quota/{_quota().name}/{key}" for key in VALUES["quota_keys"]])

    assert sorted(keys_of(book)) == sorted(VALUES["quota_keys"])


def with_added_fields(value: Any) -> Any:
    """Return an earlier value with the fields that its models have got since."""
    if isinstance(value, list):
        return [with_added_fields(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: with_added_fields(part) for name, part in value.items()} | ADDED.get(frozenset(value), {})


def names_in_airflow() -> dict[str, Any]:
    """Return the names that Airflow's database keeps while a task is deferred, or after it ran."""
    trigger = QuotaTrigger(dataclasses.asdict(_quota()), {"requests": 1}, 1.0)
    path, fields = trigger.serialize()
    return {
        "trigger": path,
        "trigger_fields": sorted(fields),
        "go_on": list(inspect.signature(ConnectOperator.go_on).parameters),
        "go_on_of_decorated": list(inspect.signature(ConnectDecoratedOperator.go_on).parameters),
        "link": f"{PublishedLink.__module__}.{PublishedLink.__qualname__}",
        "link_name": PublishedLink.name,
        "variable": variable_key(
            MixpanelSource(conn_id="mixpanel_default", stream="export", zone="UTC"),
            DeltaSink(path="gs://lake/events"),
        ),
    }


def names_of_options() -> dict[str, list[str]]:
    """Return the options of every connector and the arguments of the operator."""
    classes = [registry.source_class(name) for name in registry.names("sources")]
    classes += [registry.sink_class(name) for name in registry.names("sinks")]
    ours = {cls.__name__: list(cls.model_fields) for cls in classes if cls.__module__.startswith("airflow_provider_")}
    return ours | {"ConnectOperator": list(inspect.signature(ConnectOperator.__init__).parameters)}


def ids_in_targets() -> dict[str, Any]:
    """Return Delta's application ids of one row, and a Kafka transactional id."""
    row = LedgerRow.model_validate_json(json.dumps(VALUES["models"]["ledger_row"]))
    key = StreamKey.model_validate_json(json.dumps(VALUES["models"]["stream_key"]))
    return {
        "delta": publish_transactions(row, key, lambda _day, _part: None),
        "delta_confirmed": confirmation_transactions(row, key, "attempt"),
        "kafka": transactional_id("sink", "topic", 1),
    }


def keys_of_quota() -> list[str]:
    """Return one key of each kind."""
    values = (
        Hold("a", 1.5, 3, 2),
        SentRequests("a", ((2, 1.25), (1, 9.0))),
        QueueEntry(1, 2.0, "asker", 4, 7.5),
        VendorUsage(3.0, 5, 60, 12.0),
    )
    return [value.name for value in values]


def keys_of(book: QuotaBook) -> list[str]:
    """Return the keys that a book was read from."""
    return [value.name for value in [*book.holds.values(), *book.sent.values(), *book.waiting, *book.said]]


def _quota() -> Quota:
    return Quota(name="q", requests=60, seconds=3600.0)
