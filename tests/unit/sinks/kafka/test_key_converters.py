"""Keys that are records: what they look like, and that a row has the same key in every run."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._kafka.converters import KeyConverterName, KeyEncoder
from airflow_provider_connect.sinks._kafka.schema_resolver import SchemaResolver
from airflow_provider_connect.values.converters import EncodedBatch, SchemaRef
from tests.equipment.bigquery.server import Server
from tests.unit.sinks.kafka.test_schema_resolver import NO_SUBJECT, connection
from tests.unit.values.test_protobuf import message_class

BATCH = pa.record_batch({"s": ["é", None, ""], "n": [1, None, 3], "f": [1.5, float("nan"), None]})
REF = SchemaRef("t-key", 258, 1)
FRAME = b"\0\0\0\1\2"


def made(name: KeyConverterName, *fields: str, schema: pa.Schema = BATCH.schema) -> KeyEncoder:
    return KeyEncoder(name, schema, fields, "connect.EventsKey")


@pytest.mark.parametrize(
    ("name", "fields", "values"),
    [
        ("json", ("s",), ['{"s":"é"}'.encode(), None, b'{"s":""}']),
        ("json", ("s", "n"), ['{"s":"é","n":1}'.encode(), b'{"s":null,"n":null}', b'{"s":"","n":3}']),
        ("json_schema", ("n",), [FRAME + b'{"n":1}', None, FRAME + b'{"n":3}']),
        ("avro", ("n",), [FRAME + b"\2", None, FRAME + b"\6"]),
        ("avro", ("s", "n"), [FRAME + b"\2\4\xc3\xa9\2\2", FRAME + b"\0\0", FRAME + b"\2\0\2\6"]),
        ("protobuf", ("n",), [FRAME + b"\0\x08\1", None, FRAME + b"\0\x08\3"]),
    ],
)
def test_a_key_is_a_record_of_its_fields(name: KeyConverterName, fields: tuple[str, ...], values: list[bytes]) -> None:
    assert made(name, *fields).encode(BATCH, None if name == "json" else REF) == EncodedBatch(values, {})


def test_a_row_is_refused_by_its_own_place_where_others_have_no_key() -> None:
    batch = pa.record_batch({"f": [None, 1.5, None, float("nan")]})
    refused = {3: ("f", "NaN or an infinity, which JSON does not have")}
    found = made("json", "f", schema=batch.schema).encode(batch, None)
    assert found == EncodedBatch([None, b'{"f":1.5}', None, None], refused)


@pytest.mark.parametrize("name", ["json", "avro", "json_schema", "protobuf"])
def test_the_key_does_not_follow_what_the_source_says_of_null(name: KeyConverterName) -> None:
    """Else a row would get another key, since the schema's id is a part of it."""
    documents = set()
    for nullable in (True, False):
        schema = pa.schema([pa.field("s", pa.string(), nullable=nullable)])
        converter = made(name, "s", schema=schema).converter
        assert converter is not None
        documents.add(converter.document)
    assert len(documents) == 1


def test_keys_of_protobuf_are_written_in_the_order_of_their_numbers() -> None:
    text = made("protobuf", "s", "n").converter.document  # type: ignore[union-attr]
    [value, *_] = made("protobuf", "n", "s").encode(BATCH, SchemaRef("t-key", 258, 1, text)).values
    assert value == made("protobuf", "s", "n").encode(BATCH, REF).values[0]
    message = message_class(text, "connect.EventsKey").FromString((value or b"")[6:])
    assert (message.s, message.n) == ("é", 1)


@pytest.mark.parametrize("name", ["string", "json", "avro", "json_schema", "protobuf"])
def test_a_column_that_can_be_no_key_is_named(name: KeyConverterName) -> None:
    [problem] = made(name, "d", schema=pa.schema({"d": pa.duration("s")})).problems()
    assert problem.startswith("key_fields: column 'd'")


# Which of the subject's schemas


def document(*fields: str, kind: str = "long") -> str:
    own = [{"name": name, "type": kind} for name in fields]
    return json.dumps({"type": "record", "name": "R", "fields": own})


def pinned(server: Server, *versions: tuple[int, str], registration: Any = "auto_register") -> Any:
    """Ask for the schema of keys with the field x, of a subject with these ids and texts."""
    told = {"subject": "t-key"}
    answers = [
        (200, told | {"id": number, "version": version, "schema": text})
        for version, (number, text) in enumerate(versions, 1)
    ]
    server.first = [(200, [*range(1, len(versions) + 1)]), *answers]
    server.answer = NO_SUBJECT
    with closing(SchemaResolver(connection(server.url), 1, registration)) as registry:
        return registry.key_schema("t-key", document("x"), "AVRO")


@pytest.mark.parametrize("registration", ["auto_register", "use_latest"])
def test_the_oldest_schema_that_holds_the_keys_stays_whatever_is_registered_later(
    server: Server, registration: Any
) -> None:
    newer = (9, document("x"))
    assert pinned(server, (7, document("x")), newer, registration=registration) == SchemaRef("t-key", 7, 1)
    assert pinned(server, (7, document("x", kind="string")), newer).id == 9
    wider = json.dumps({"type": "record", "name": "Q", "fields": [{"name": "x", "type": ["null", "long"]}]})
    assert pinned(server, (7, wider), newer) == SchemaRef("t-key", 7, 1, wider)


def test_keys_that_no_schema_of_the_subject_holds_are_refused(server: Server) -> None:
    with pytest.raises(DataError, match=r"'t-key': no version holds the keys\. .*field x: long here, string in the"):
        pinned(server, (7, document("y")), (8, document("x", kind="string")))


def test_keys_are_registered_only_where_that_is_wanted(server: Server) -> None:
    with pytest.raises(ConfigError, match="has no schema"):
        pinned(server, registration="use_latest")
    asked = server.asked
    with closing(SchemaResolver(connection(server.url), 1, "auto_register")) as registry:
        assert registry.problems(None, ("t-key", document("x"), "AVRO")) == []
    with closing(SchemaResolver(connection(server.url), 1, "use_latest")) as registry:
        [problem] = registry.problems(None, ("t-key", document("x"), "AVRO"))
    assert "has no schema" in problem
    assert server.asked == asked + 2
