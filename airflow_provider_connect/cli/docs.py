"""``airflow connect docs``: a connector's options, as its code declares them."""

from __future__ import annotations

import argparse

from airflow_provider_connect import registry
from airflow_provider_connect.cli.option_table import options, summary
from airflow_provider_connect.cli.reporting import command, note, show
from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError


@command()
def docs_command(asked: argparse.Namespace) -> None:
    """Show a connector's options; one that is both a source and a sink shows both."""
    sources, sinks = registry.names("sources"), registry.names("sinks")
    found = [registry.source_class(asked.connector)] if asked.connector in sources else []
    found += [registry.sink_class(asked.connector)] if asked.connector in sinks else []  # type: ignore[list-item]
    if not found:
        known = sorted({*sources, *sinks})
        raise ConfigError(f"no source or sink is called {asked.connector!r}; {nearest(asked.connector, known)}")
    for connector in found:
        note(f"{connector.__name__}: {summary(connector)}")
        show(options(connector), asked.output, "it has no options")
