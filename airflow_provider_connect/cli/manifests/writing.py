"""Writes translated streams and connections as YAML with comments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.cli.manifests.connections import FILL_IN, ConnectionDraft
from airflow_provider_connect.cli.manifests.remarks import Remarks, one_line
from airflow_provider_connect.cli.manifests.translation import TranslatedStream

_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_BLOCKS = ("request", "records", "columns", "parent", "errors")
_MARKS = {"gap": "not translated", "check": "check"}


def stream_yaml(stream: TranslatedStream) -> str:
    """Return a stream's file, for ``RestSource.from_file``. Each remark is a comment above the option it belongs to."""
    lines = [
        "# Translated from another project's declaration. Check the comments against the API's reference, then try it:",
        "# airflow connect preview --source rest --options FILE --day YYYY-MM-DD",
    ]
    lines += _comments(stream.remarks, {remark.section for remark in stream.remarks} - stream.options.keys())
    for name, value in stream.options.items():
        lines += _comments(stream.remarks, {name})
        lines += _lines(name, value, 0)
    return "\n".join(lines) + "\n"


def connections_yaml(connections: Mapping[str, ConnectionDraft]) -> str:
    """Return the connections' file, for ``airflow connections import``. It holds no secret."""
    lines = [
        f"# Replace each {FILL_IN}, then: airflow connections import FILE",
        "# Delete the file afterwards, because it holds your credentials.",
    ]
    for conn_id, connection in connections.items():
        lines += _comments(connection.remarks, {remark.section for remark in connection.remarks})
        lines += [f"# {field}: {one_line(source)}" for field, source in sorted(connection.sources.items())]
        lines += [f"{_yaml(conn_id)}:"]
        for name, value in connection.as_fields().items():
            lines += _lines(name, value, 1)
    return "\n".join(lines) + "\n"


def _comments(remarks: Remarks, sections: set[str]) -> list[str]:
    return [f"# {_MARKS[remark.kind]}: {one_line(remark.text)}" for remark in remarks if remark.section in sections]


def _lines(name: str, value: Any, depth: int) -> list[str]:
    """Return an option's lines. Objects that people edit have a line for each field."""
    indent = "  " * depth
    if isinstance(value, Mapping) and value and (depth == 0 or name in _BLOCKS or name in ("params", "extra")):
        inner = [line for key, item in value.items() for line in _lines(str(key), item, depth + 1)]
        return [f"{indent}{_yaml(name)}:", *inner]
    return [f"{indent}{_yaml(name)}: {_yaml(value)}"]


def _yaml(value: Any) -> str:
    """Return a value as JSON, which is also YAML. A plain word needs no quotes."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) and not _means_other(value):
        return value
    text = json.dumps(value, ensure_ascii=False, default=str)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _means_other(word: str) -> bool:
    return word.lower() in ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none")
