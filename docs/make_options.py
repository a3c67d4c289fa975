"""Writes options.md from the connectors' own option descriptions; `make docs` runs it, a test keeps the page true."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pydantic import BaseModel

from airflow_provider_connect import registry
from airflow_provider_connect.cli.connectors import Option, list_options
from airflow_provider_connect.shapes import Condition
from airflow_provider_connect.shapes.chain import SHAPES

PAGE = Path(__file__).with_name("options.md")
HEAD = """\
# Options

Made from the code by `make docs`: an option is described once, where it is declared.
"""

RARE_ANYWHERE = "retry_budget_seconds retry_budget_requests max_rejects create_disposition max_tables"
RARE = {
    "KafkaSource": "own_columns records_per_task timeout_seconds transaction_wait_seconds",
    "MixpanelSource": "data_group_id on_unreadable null_texts deduplicate read_timeout_seconds "
    "request_deadline_seconds max_record_bytes",
    "RestSource": "parent_columns partitions count max_page_bytes",
    "SqlSource": "decimals zero_dates row_security consistency parallel_chunks statement_timeout_seconds "
    "timestamp_delay_seconds snapshot_mode",
    "XSearchSource": "endpoint access_level user_fields media_fields poll_fields place_fields read_timeout_seconds "
    "request_deadline_seconds",
    "BigQuerySink": "on_published_day load_method partition_expiration_days labels kms_key staging_dataset "
    "maximum_bytes_billed differences",
    "DeltaSink": "sweep_after",
    "KafkaSink": "atomicity turns record_name subject_strategy schema_registration headers partitions "
    "replication_factor topic_config topic_groups dead_letter_topic ledger_topic transaction_timeout_seconds "
    "timeout_seconds",
    "OpenSearchSink": "bulk_bytes bulk_documents",
}
"""Options that few people set, by connector: the page lists them below the usual ones."""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for room, find in (("Sources", registry.source_class), ("Sinks", registry.sink_class)):
        parts.append(f"## {room}\n")
        parts += [section(find(name)) for name in registry.names(room.lower())]
    parts.append("## Shapes\n\nWith examples: [shapes](shapes.md).\n")
    parts += [section(shape) for shape in (*SHAPES.values(), Condition)]
    return "\n".join(parts)


def section(connector: type[BaseModel]) -> str:
    """Return one connector's section: its first line, and tables of its usual and its rare options."""
    summary = (inspect.getdoc(connector) or "").splitlines()[0]
    names = {*RARE.get(connector.__name__, "").split(), *RARE_ANYWHERE.split()}
    options = list_options(connector)
    usual = [option for option in options if option.name not in names]
    rare = [option for option in options if option.name in names]
    parts = [f"### `{connector.__name__}`", summary, _table(usual)]
    return "\n\n".join([*parts, *(["Rarely set:", _table(rare)] if rare else [])]) + "\n"


def _table(options: list[Option]) -> str:
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for option in options:
        default = "required" if option.default is None else f"`{option.default}`"
        rows.append(f"| `{option.name}` | {_cell(option.type)} | {default} | {option.description} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    """Return a type as a table's cell has it: quoted texts as code, and no bar that would end the cell."""
    return re.sub('"[^"]*"', r"`\g<0>`", text).replace(" | ", " \\| ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
