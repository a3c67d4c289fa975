"""Options of the Kafka sink."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, ClassVar, Literal, Self
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from airflow_provider_connect.sink import Sink
from airflow_provider_connect.sinks._kafka.converters import ConverterName, KeyConverterName, KeyEncoder, make_converter
from airflow_provider_connect.sinks._kafka.topic_names import (
    MAX_TOPIC_NAME,
    template_column,
    topic_name_problem,
    topic_template_problem,
)
from airflow_provider_connect.sinks._kafka.topic_rules import TopicGroup, TopicRules
from airflow_provider_connect.stage.rejects import Tolerance
from airflow_provider_connect.stage.soft_deletes import Deletes, soft_kind_problems
from airflow_provider_connect.values.converters import Converter
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_KEY = "record_key"
_DEAD_LETTERS = ".dead_letters"
_REGISTRY_CONVERTERS = ("avro", "json_schema", "protobuf")
_REGISTERED = f"value_converter {', '.join(_REGISTRY_CONVERTERS)}"
_OR_KEY = ", or such a key_converter"
_WITH_RECORD_NAME = f"{_REGISTERED}, json_schema_envelope"


class KafkaOptions(Sink):
    """Options of :class:`~.sinks.kafka.KafkaSink`, and names and settings derived from them."""

    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {
        "conn_id": ("kafka",),
        "registry_conn_id": ("http", "https", "generic"),
    }

    conn_id: str = Field(default="kafka_default", description="Airflow connection of type kafka.")
    topic: str = Field(
        description="Topic, or a template with one source column: 'mixpanel_{event}' makes a topic for each event.",
        examples=["mixpanel_events"],
    )
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="'at_least_once' uses no transaction, and a retry may send records again."
    )
    atomicity: Literal["day", "partition"] = Field(
        default="day",
        description="Content of one transaction: the day, or one staged file. Files are sent in parallel, for days "
        "that take longer than a transaction may last. For delivery='exactly_once'.",
    )
    turns: Literal["topic", "off"] = Field(
        default="topic",
        description="Whether a topic's days are sent one at a time. Then every reader of committed records sees each "
        "day whole. With 'off' a reader may see part of a day while another day is being sent. For "
        "delivery='exactly_once' with atomicity='day'.",
    )
    value_converter: ConverterName = Field(
        default="json", description="Format of values. avro, json_schema and protobuf need registry_conn_id."
    )
    value_field: str | None = Field(
        default=None, description="Source column with the whole value, for value_converter='string' or 'bytes'."
    )
    record_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        description="Full name of the record in its schema, 'com.example.Event'. Defaults to the source's, if it has "
        "one, else to a name made from the topic. For avro, json_schema, protobuf and json_schema_envelope.",
    )
    key_fields: tuple[str, ...] = Field(
        default=(RECORD_KEY,),
        description="Source columns of the record's key: one becomes its text, several a JSON array. () gives no key.",
    )
    key_converter: KeyConverterName = Field(
        default="string",
        description="Format of keys: 'string' as described for key_fields. The others make a record of the key_fields. "
        "avro, json_schema and protobuf need registry_conn_id. The subject is '<topic>-key'.",
    )
    registry_conn_id: str | None = Field(
        default=None,
        description="Airflow connection of the Schema Registry: its URL as host, login and password if required.",
    )
    subject_strategy: Literal["topic", "record", "topic_record"] = Field(
        default="topic",
        description="Name of a value schema's subject: '<topic>-value', the record's name, or '<topic>-<record name>'.",
    )
    schema_registration: Literal["auto_register", "use_latest"] = Field(
        default="auto_register",
        description="Whether to register the source's schema, or use the newest registered one, which must fit the "
        "rows.",
    )
    schema_contract: Literal["evolve", "freeze", "ignore"] = Field(
        default="evolve",
        description="Without a registry: 'evolve' accepts new columns, and fails the day if a type changed since the "
        "newest published day. 'freeze' fails new columns too. 'ignore' checks nothing.",
    )
    headers: bool = Field(
        default=True, description="Whether records carry the connect.… headers. Sending is faster without them."
    )
    timestamp_field: str | None = Field(
        default=None, description="Source column with the record's timestamp. Defaults to the time of sending."
    )
    delete_where: str | None = Field(
        default=None, description="Boolean source column. Where it is true, the record is a tombstone for its key."
    )
    create_disposition: Literal["if_needed", "never"] = Field(
        default="if_needed",
        description="Whether missing topics, the ledger's included, are created. With 'never', a message shows the "
        "command that creates them. The options of new topics apply only to that command.",
    )
    partitions: int | None = Field(
        default=None, ge=1, description="Partitions of a new topic. Defaults to the broker's number."
    )
    replication_factor: int | None = Field(
        default=None, ge=1, description="Replicas of a new topic. Defaults to the broker's number."
    )
    topic_config: dict[str, str] = Field(default_factory=dict, description="Other settings of a new topic.")
    topic_groups: tuple[TopicGroup, ...] = Field(
        default=(),
        description="Different settings for new topics whose names match. The first matching group applies.",
    )
    cleanup: Literal["delete", "compact"] = Field(
        default="delete",
        description="cleanup.policy of a new topic. With 'compact', a snapshot's rows are compared with the topic: "
        "only changed rows are sent, and tombstones for vanished rows.",
    )
    deletes: Deletes = Field(
        default="hard",
        description="Records for a key that a snapshot no longer has: 'hard' a tombstone, 'soft' first the last "
        "value again, with the headers __deleted and __deleted_at. For cleanup='compact'.",
    )
    errors_tolerance: Literal["none", "all"] = Field(
        default="none",
        description="Handling of a row that cannot become a record: 'none' fails the day, 'all' sends it to "
        "dead_letter_topic.",
    )
    max_rejects: int = Field(
        default=1000,
        ge=0,
        description="Number of rejected rows at which the day still succeeds, for errors_tolerance='all'.",
    )
    dead_letter_topic: str | None = Field(
        default=None, description="Topic of dead letters. Defaults to '<topic>.dead_letters'."
    )
    ledger_topic: str = Field(
        default="__connect_ledger",
        description="Compacted topic of the ledger. All streams of a cluster can share it.",
    )
    transaction_timeout_seconds: float = Field(
        default=900.0,
        ge=10,
        description="Longest time that a transaction may be open. The broker's limit is 900 by default.",
    )
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="Wait for a broker that does not answer or accepts no records."
    )

    @field_validator("topic")
    @classmethod
    def _is_topic(cls, topic: str) -> str:
        if problem := topic_template_problem(topic):
            raise ValueError(problem)
        return topic

    @model_validator(mode="after")
    def _check_modes(self) -> Self:
        problems = []
        if self.atomicity != "day" and self.delivery != "exactly_once":
            problems.append("atomicity: only with delivery='exactly_once'")
        if (self.value_field is not None) != (self.value_converter in ("string", "bytes")):
            problems.append("value_field belongs to value_converter='string' or 'bytes', which need it")
        if (self.registry_conn_id is not None) != (self.value_is_registered or self._key_is_registered):
            problems.append(f"registry_conn_id belongs to {_REGISTERED}{_OR_KEY}, which need it")
        if any("cleanup.policy" in config for config in (self.topic_config, *(g.config for g in self.topic_groups))):
            problems.append("cleanup.policy is set by the option cleanup. Remove it from topic_config and topic_groups")
        if not self.key_fields and (self.delete_where or self.cleanup == "compact"):
            problems.append("tombstones and compacted topics need key_fields")
        problems += [
            f"{option}: {problem}"
            for option, name in (
                ("dead_letter_topic", self.effective_dead_letter_topic),
                ("ledger_topic", self.ledger_topic),
            )
            if (problem := topic_name_problem(name))
        ]
        problems += self._ineffective_options()
        if len({self.topic, self.ledger_topic, self.effective_dead_letter_topic}) < 3:
            problems.append("topic, ledger_topic and dead_letter_topic must be three different topics")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _ineffective_options(self) -> list[str]:
        registered, key = self.value_is_registered, self._key_is_registered
        requirements = {
            "key_converter": (bool(self.key_fields), "key_fields"),
            "record_name": (
                registered or key or self.value_converter == "json_schema_envelope",
                _WITH_RECORD_NAME + _OR_KEY,
            ),
            "subject_strategy": (registered, _REGISTERED),
            "schema_registration": (registered or key, _REGISTERED + _OR_KEY),
            "schema_contract": (not registered, "converters without a registry, which decides itself"),
            "turns": (self.is_one_transaction, "delivery='exactly_once' with atomicity='day'"),
            "deletes": (self.cleanup == "compact", "cleanup='compact'"),
            "max_rejects": (self.errors_tolerance == "all", "errors_tolerance='all'"),
        }
        fields = type(self).model_fields
        return [
            f"{option} belongs to {requirement}: leave it out"
            for option, (has_effect, requirement) in requirements.items()
            if not has_effect and getattr(self, option) != fields[option].default
        ]

    @property
    def is_one_transaction(self) -> bool:
        return self.delivery == "exactly_once" and self.atomicity == "day"

    @property
    def takes_turns(self) -> bool:
        """True if the topic's publishes and erases run one after the other."""
        return self.is_one_transaction and self.turns != "off"

    @property
    def value_is_registered(self) -> bool:
        return self.value_converter in _REGISTRY_CONVERTERS

    @property
    def _key_is_registered(self) -> bool:
        return self.key_converter in _REGISTRY_CONVERTERS

    @property
    def tolerance(self) -> Tolerance:
        """Number of rows that may be rejected."""
        return Tolerance(self.errors_tolerance, self.max_rejects)

    @property
    def target(self) -> str:
        """Connection id and option ``topic``, as ``kafka://…``."""
        return f"kafka://{self.conn_id}/{self.topic}"

    @property
    def asset_uri(self) -> str:
        return f"kafka://{self.conn_id}/{quote(self.topic)}"

    @property
    def route_column(self) -> str | None:
        """Column in the braces of the topic template, or None."""
        return template_column(self.topic)

    @property
    def effective_dead_letter_topic(self) -> str:
        """Topic for dead letters."""
        if self.dead_letter_topic is not None:
            return self.dead_letter_topic
        name = re.sub(r"[^A-Za-z0-9._-]", "_", re.sub(r"[{}]", "", self.topic))
        return f"{name[: MAX_TOPIC_NAME - len(_DEAD_LETTERS)]}{_DEAD_LETTERS}"

    @property
    def default_record_name(self) -> str:
        """The option, or a schema name made from the topic."""
        words = re.findall(r"[A-Za-z0-9]+", self.topic)
        name = "".join(word[0].upper() + word[1:] for word in words) or "Record"
        return self.record_name or f"connect.{'_' if name[0].isdigit() else ''}{name}"

    def record_name_for(self, schema: pa.Schema) -> str:
        """Return the record's schema name: the option, the source's, or one made from the topic."""
        source_name = (schema.metadata or {}).get(b"record_name", b"").decode()
        return self.record_name or source_name or self.default_record_name

    def value_converter_for(self, schema: pa.Schema, day: dt.date) -> Converter:
        """Return the value converter. For compacted topics it omits ``day``."""
        day_value, name = None if self.cleanup == "compact" else day, self.record_name_for(schema)
        return make_converter(self.value_converter, schema, day_value, record_name=name, value_field=self.value_field)

    def key_encoder_for(self, schema: pa.Schema) -> KeyEncoder:
        return KeyEncoder(self.key_converter, schema, self.key_fields, f"{self.record_name_for(schema)}Key")

    @property
    def topic_rules(self) -> TopicRules:
        return TopicRules(
            create_disposition=self.create_disposition,
            partitions=self.partitions,
            replication_factor=self.replication_factor,
            config={"cleanup.policy": self.cleanup} | self.topic_config,
            groups=self.topic_groups,
        )

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Return messages about options without effect for this kind of source."""
        return soft_kind_problems(self.deletes, kind)

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Return True if compaction uses the source's record key."""
        return self.cleanup == "compact" and RECORD_KEY in self.key_fields

    @property
    def keeps_spans(self) -> bool:
        """True if increments are supported, which needs one transaction a publish."""
        return self.is_one_transaction

    def replaces(self, kind: SourceKind) -> bool:
        """Return True if a publish replaces rows. A day in a compacted topic only updates its keys."""
        return kind == "snapshot" or self.cleanup != "compact"

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True if a publish replaces the topic: a snapshot into a compacted topic."""
        return kind == "snapshot" and self.cleanup == "compact"
