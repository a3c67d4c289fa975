"""``airflow connect propose``: a source proposes options from a sample."""

from __future__ import annotations

import datetime as dt
import sys
from argparse import Namespace
from pathlib import Path

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.source import Proposes
from airflow_provider_connect.cli.terminal import command
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.findings import ProposalRequest


@command
def propose(args: Namespace) -> None:
    """Print the proposed options."""
    cls = registry.source_class(args.connector)
    if not issubclass(cls, Proposes):
        names = [name for name in registry.names("sources") if issubclass(registry.source_class(name), Proposes)]
        raise ConfigError(f"source {args.connector!r} has no proposals. Use one of: {', '.join(names)}")
    request = _proposal_request(args)
    if unknown := sorted(request.given - cls.proposal_fields):
        known_options = ", ".join(f"--{name}" for name in sorted(cls.proposal_fields))
        raise ConfigError(f"--{unknown[0]} is unknown. Source {args.connector!r} accepts {known_options}")
    conn_id = args.conn_id
    if conn_id is None and request.openapi is None:
        conn_id = cls.model_fields["conn_id"].default
        if not isinstance(conn_id, str):
            raise ConfigError("--conn-id is required: the Airflow connection")
    connection = None if conn_id is None else credentials.resolve_connection(conn_id)
    sys.stdout.write(cls.propose(request, connection, VariableStore()).rstrip("\n") + "\n")


def _proposal_request(args: Namespace) -> ProposalRequest:
    try:
        day = None if args.day is None else dt.date.fromisoformat(args.day)
    except ValueError:
        raise ConfigError(f"--day: {args.day!r} is not a day. Use YYYY-MM-DD") from None
    return ProposalRequest(
        path=args.path,
        openapi=None if args.openapi is None else Path(args.openapi),
        stream=args.stream,
        day=day,
        records=args.records,
        columns=args.columns,
    )
