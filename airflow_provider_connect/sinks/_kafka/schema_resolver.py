"""Chooses the registered schemas of values and keys, before the first record."""

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

_MISFITS: dict[SchemaLanguage, Callable[[str, str], list[str]]] = {
    "AVRO": avro_schema.misfits,
    "JSON": json_schema.misfits,
    "PROTOBUF": protobuf_schema.misfits,
}


def value_subject(strategy: Strategy, topic: str, record_name: str) -> str:
    """Return the subject name of a value schema by one of Confluent's strategies."""
    if strategy == "topic":
        return f"{topic}-value"
    return record_name if strategy == "record" else f"{topic}-{record_name}"


def key_subject(topic: str) -> str:
    return f"{topic}-key"


class SchemaResolver:
    """Registered schemas of one sink's topics.

    Methods raise ConfigError without access or usable schema, and RetriableError without an answer.

    :param registration: ``auto_register``, or ``use_latest`` without registering.
    """

    def __init__(self, connection: Connection, timeout_seconds: float, registration: Registration) -> None:
        self.registration = registration
        self._client = RegistryClient(connection, timeout_seconds)

    def close(self) -> None:
        self._client.close()

    def value_schema(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        """Return the registered schema for values, with ``use_latest`` the subject's newest.

        :raises DataError: an incompatible schema.
        """
        if self.registration == "use_latest":
            return self._newest_that_fits(subject, document, kind)
        return self._register(subject, document, kind)

    def key_schema(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        """Return the subject's oldest registered schema that fits the keys.

        A later registration does not change this choice.

        :raises DataError: no schema fits.
        """
        schema = self._oldest_that_fits(subject, document, kind)
        if schema is None:
            self._client.register(subject, document, kind)
            schema = self._oldest_that_fits(subject, document, kind)  # another run may have registered one first
        if schema is None:
            raise _not_visible_error(subject)
        return schema

    def problems(self, value_subject: Subject | None, key_subject: Subject | None) -> list[str]:
        """Return the errors of :meth:`value_schema` and :meth:`key_schema`. Registers nothing."""
        complaints = []
        for step, subject in ((self._check_values, value_subject), (self._oldest_that_fits, key_subject)):
            try:
                if subject is not None:
                    step(*subject)
            except (ConfigError, DataError) as error:
                complaints.append(str(error))
        return complaints

    def _check_values(self, subject: str, document: str, kind: SchemaLanguage) -> None:
        if self.registration == "use_latest":
            self._newest_that_fits(subject, document, kind)
        else:
            self._require_compatible(subject, self._adapt_to_subject(subject, document, kind), kind)

    def _oldest_that_fits(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef | None:
        misfits: list[str] = []
        for number in self._client.versions(subject):
            registered = self._client.version(subject, number)
            misfits = _key_misfits(registered, document, kind)
            if registered is not None and not misfits:
                return _make_reference(subject, registered, document)
        if misfits:
            raise DataError(
                f"subject {subject!r}: no version holds the keys. The newest: {'; '.join(misfits)}. With another "
                "schema a row would get another key. Restore key_fields, or publish into another topic"
            )
        if self.registration == "use_latest":
            raise _no_schema_error(subject)
        return None

    def _register(self, subject: str, source_document: str, kind: SchemaLanguage) -> SchemaRef:
        document = self._adapt_to_subject(subject, source_document, kind)
        registered = self._client.lookup(subject, document, kind)
        if registered is None:
            self._require_compatible(subject, document, kind)
            try:
                self._client.register(subject, document, kind)
            except IncompatibleError:
                raise self._incompatible_error(subject, document, kind) from None
            registered = self._client.lookup(subject, document, kind)
        if registered is None:
            raise _not_visible_error(subject)
        return SchemaRef(subject, registered.id, registered.version, document if document != source_document else None)

    def _adapt_to_subject(self, subject: str, document: str, kind: SchemaLanguage) -> str:
        return renumber(document, self._documents(subject, kind)) if kind == "PROTOBUF" else document

    def _documents(self, subject: str, kind: SchemaLanguage) -> Iterator[str]:
        newest = self._client.newest_version(subject)
        if newest is None:
            return
        if newest.kind == kind:
            yield newest.document
        for number in reversed(self._client.versions(subject)):
            registered = self._client.version(subject, number) if number < newest.version else None
            if registered is not None and registered.kind == kind:
                yield registered.document

    def _require_compatible(self, subject: str, document: str, kind: SchemaLanguage) -> None:
        if not self._client.is_compatible(subject, document, kind):
            raise self._incompatible_error(subject, document, kind)

    def _incompatible_error(self, subject: str, document: str, kind: SchemaLanguage) -> DataError:
        newest = self._client.newest_version(subject)
        misfits = _MISFITS[kind](document, newest.document) if newest is not None and newest.kind == kind else []
        reasons = "; ".join(misfits) or f"the difference is in an older version, or in a schema other than {kind}"
        return DataError(
            f"subject {subject!r}: the registry finds the source's schema incompatible: {reasons}. Change the "
            "subject's compatibility rule, or write to another topic"
        )

    def _newest_that_fits(self, subject: str, document: str, kind: SchemaLanguage) -> SchemaRef:
        newest = self._client.newest_version(subject)
        if newest is None:
            raise _no_schema_error(subject)
        if newest.kind != kind:
            raise DataError(f"subject {subject!r}: its schema is {newest.kind}, the converter's is {kind}")
        if newest.has_references:
            raise DataError(f"subject {subject!r}: its schema refers to other subjects, which is not supported")
        if misfits := _MISFITS[kind](document, newest.document):
            raise DataError(
                f"subject {subject!r}, version {newest.version}: cannot hold the rows: {'; '.join(misfits)}"
            )
        return _make_reference(subject, newest, document)


def _key_misfits(registered: RegisteredSchema | None, document: str, kind: SchemaLanguage) -> list[str]:
    if registered is None or registered.kind != kind:
        return [f"its schema is {registered.kind if registered else 'gone'}, the key_converter's is {kind}"]
    if registered.has_references:
        return ["its schema refers to other subjects, which is not supported"]
    return _MISFITS[kind](document, registered.document)


def _make_reference(subject: str, registered: RegisteredSchema, document: str) -> SchemaRef:
    return SchemaRef(
        subject, registered.id, registered.version, registered.document if registered.document != document else None
    )


def _no_schema_error(subject: str) -> ConfigError:
    return ConfigError(f"subject {subject!r} has no schema. Register one, or set schema_registration='auto_register'")


def _not_visible_error(subject: str) -> RetriableError:
    return RetriableError(
        f"subject {subject!r}: the schema was registered, but the registry does not return it yet. The task is retried"
    )
