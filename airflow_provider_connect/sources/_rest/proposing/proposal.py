"""Makes a proposal of what is at hand: the API's own description, or one answer of it."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.findings import ProposalRequest
from airflow_provider_connect.sources._rest.files import read
from airflow_provider_connect.sources._rest.proposing.declaration import declaration
from airflow_provider_connect.sources._rest.proposing.openapi import OpenApi
from airflow_provider_connect.sources._rest.proposing.sample import shape_of

_PATIENCE_SECONDS = 20.0  # somebody waits


def proposed(request: ProposalRequest, connection: Connection | None) -> str:
    """Return a declaration, YAML, of a document or else of one answer.

    :raises ConfigError: the path is missing, or not exactly one of document and connection is given.
    :raises ConnectError: as a poll does.
    """
    if request.path is None:
        raise ConfigError("--path: name the request's path, such as /v1/events")
    if (request.openapi is None) == (connection is None):
        raise ConfigError("give --conn-id, whose API is asked for one answer, or --openapi, the API's own description")
    if request.openapi is not None:
        return proposed_by_document(request.path, request.openapi)
    assert connection is not None, "one of them is given"
    return proposed_by_answer(request.path, connection)


def proposed_by_document(path: str, document: Path) -> str:
    """Return a declaration, YAML, of what an OpenAPI 3 document says of ``GET path``. No network.

    :raises ConfigError: it says nothing of that, or is no such document.
    """
    return declaration(path, *OpenApi(read(document)).described(path))


def proposed_by_answer(path: str, connection: Connection) -> str:
    """Return a declaration, YAML, of what one answer looks like: one request, whose values are not kept.

    :raises ConnectError: as a poll does; :class:`.DataError` if the answer holds no records.
    """
    with JsonApi(connection, patience_seconds=_PATIENCE_SECONDS) as api:
        reply = api.ask(Call(path))
    return declaration(path, [], shape_of(reply.body, reply.headers))
