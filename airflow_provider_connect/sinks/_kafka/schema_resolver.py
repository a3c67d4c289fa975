"""Chooses the registered schemas of values and keys. Runs in the driver, before the first record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from airflow_provider_connect.clients.kafka.registry import IncompatibleError, RegisteredSchema, RegistryClient
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from airflow_provider_connect.values.avro import schema as avro_schema
from airflow_provider_connect.values.converters import SchemaLanguage, SchemaRef
from airflow_provider_connect.values.json import schema as json_schema
from airflow_provider_connect.values.protobuf import schema as protobuf_schema
from airflow_provider_connect.values.protobuf.field_numbers import renumber

Strategy = Literal["topic", "record", "topic_record"]
Registration = Literal["auto_register", "use_latest"]
Subject = tuple[str, str, SchemaLanguage]
"""Name of a subject, its schema, and the schema's kind."""

_MISFITS: dict[SchemaLanguage, Callable[[str, str], list[str]]] = {
    "AVRO": avro_schema.misfits,
    "JSON": json_schema.misfits,
    "PROTOBUF": protobuf_schema.misfits,
}


def value_subject(strategy: Strategy, topic: str, record_name: str) -> str:
    """Return the subject of a topic's value schema, by Confluent's strategies."""
    if strategy == "topic":
        return f"{topic}-value"
    return record_name if strategy == "record" else f"{topic}-{record_name}"


def key_subject(topic: str) -> str:
    """Return the subject of a topic's key schema."""
    return f"{topic}-key"


class SchemaResolver:
    """Finds or registers the schemas of one sink's topics.

    :param timeout_seconds: for one request, which is tried three times.
    :param registration: ``auto_register`` registers new compatible schemas, ``use_latest`` registers nothing.
    :raises ConfigError: the connection is wrong, or Confluent's client is missing.
    """

    def __init__(self, connection: Connection, timeout_seconds: float, registration: Registration) -> None:
        self.registration = registration
        self._client = RegistryClient(connection, timeout_seconds)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def value_schema(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        """Return the schema of values. With ``use_latest`` this is the subject's newest.

        :raises DataError: the schema is incompatible with the subject. The message names the fields.
        :raises ConfigError: access is denied, or the subject has no schema to use.
        :raises RetriableError: the registry does not answer.
        """
        if self.registration == "use_latest":
            return self._newest_that_fits(subject, document, kind)
        return self._registered(subject, document, kind)

    def key_schema(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        """Return the oldest schema of the subject that fits the keys. Later registrations do not change it.

        The schema's id is part of the key's bytes, so another schema would give another key.

        :raises DataError: the subject has schemas, and none fits the keys.
        :raises ConfigError: access is denied, or the subject has no schema to use.
        :raises RetriableError: the registry does not answer.
        """
        found = self._oldest_that_fits(subject, document, kind)
        if found is None:
            self._client.register(subject, document, kind)
            found = self._oldest_that_fits(subject, document, kind)  # another run may have been faster
        if found is None:
            raise _not_shown_yet(subject)
        return found

    def problems(self, value_subject: Subject | None, key_subject: Subject | None) -> list[str]:
        """Return why :meth:`value_schema` or :meth:`key_schema` would fail without a retry. Registers nothing.

        :raises RetriableError: the registry does not answer.
        """
        found = []
        for step, subject in ((self._rehearse_values, value_subject), (self._oldest_that_fits, key_subject)):
            try:
                if subject is not None:
                    step(*subject)
            except (ConfigError, DataError) as error:
                found.append(str(error))
        return found

    def _rehearse_values(self, subject: str, document: str, kind: SchemaLanguage) -> None:
        if self.registration == "use_latest":
            self._newest_that_fits(subject, document, kind)
        else:
            self._require_compatible(subject, self._continued(subject, document, kind), kind)

    def _oldest_that_fits(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef | None:
        why: list[str] = []
        for number in self._client.versions(subject):
            found = self._client.version(subject, number)
            why = _key_misfits(found, document, kind)
            if found is not None and not why:
                return _reference(subject, found, document)
        if why:
            raise DataError(
                f"subject {subject!r}: no version holds the keys; the newest: {'; '.join(why)}. By another schema a "
                "row would get another key: set key_fields back, or publish into another topic"
            )
        if self.registration == "use_latest":
            raise _without_schema(subject)
        return None

    def _registered(self, subject: str, first: str, kind: SchemaLanguage) -> SchemaRef:
        document = self._continued(subject, first, kind)
        known = self._client.lookup(subject, document, kind)
        if known is None:
            self._require_compatible(subject, document, kind)
            try:
                self._client.register(subject, document, kind)
            except IncompatibleError:
                raise self._incompatible(subject, document, kind) from None
            known = self._client.lookup(subject, document, kind)
        if known is None:
            raise _not_shown_yet(subject)
        return SchemaRef(subject, known.id, known.version, document if document != first else None)

    def _continued(self, subject: str, document: str, kind: SchemaLanguage) -> str:
        """Return the schema adapted to the subject: Protobuf fields keep their numbers."""
        return renumber(document, self._documents(subject, kind)) if kind == "PROTOBUF" else document

    def _documents(self, subject: str, kind: SchemaLanguage) -> Iterator[str]:
        """Yield the subject's schemas of a kind, newest first. Each is requested on demand."""
        newest = self._client.newest_version(subject)
        if newest is None:
            return
        if newest.kind == kind:
            yield newest.document
        for number in reversed(self._client.versions(subject)):
            found = self._client.version(subject, number) if number < newest.version else None
            if found is not None and found.kind == kind:
                yield found.document

    def _require_compatible(self, subject: str, document: str, kind: SchemaLanguage) -> None:
        if not self._client.is_compatible(subject, document, kind):
            raise self._incompatible(subject, document, kind)

    def _incompatible(self, subject: str, document: str, kind: SchemaLanguage) -> DataError:
        newest = self._client.newest_version(subject)
        differ = _MISFITS[kind](document, newest.document) if newest is not None and newest.kind == kind else []
        why = "; ".join(differ) or f"what differs is not in its newest version, or is no {kind} schema"
        return DataError(
            f"subject {subject!r}: the registry finds the source's schema incompatible: {why}. Change the subject's "
            "compatibility rule, or write to another topic"
        )

    def _newest_that_fits(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        newest = self._client.newest_version(subject)
        if newest is None:
            raise _without_schema(subject)
        if newest.kind != kind:
            raise DataError(f"subject {subject!r}: its schema is {newest.kind}, the converter's is {kind}")
        if newest.has_references:
            raise DataError(f"subject {subject!r}: its schema refers to others, which is not supported")
        if differ := _MISFITS[kind](document, newest.document):
            raise DataError(f"subject {subject!r}, version {newest.version}: cannot hold the rows: {'; '.join(differ)}")
        return _reference(subject, newest, document)


def _key_misfits(found: RegisteredSchema | None, document: str, kind: SchemaLanguage) -> list[str]:
    if found is None or found.kind != kind:
        return [f"its schema is {found.kind if found else 'gone'}, the key_converter's is {kind}"]
    if found.has_references:
        return ["its schema refers to others, which is not supported"]
    return _MISFITS[kind](document, found.document)


def _reference(subject: str, found: RegisteredSchema, document: str) -> SchemaRef:
    return SchemaRef(subject, found.id, found.version, found.document if found.document != document else None)


def _without_schema(subject: str) -> ConfigError:
    return ConfigError(f"subject {subject!r} has no schema; register one, or set schema_registration='auto_register'")


def _not_shown_yet(subject: str) -> RetriableError:
    return RetriableError(f"subject {subject!r}: the schema was registered, but is not shown yet; try again")
