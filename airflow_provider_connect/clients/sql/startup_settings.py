"""Checks settings that a connection makes at the start of a session."""

from __future__ import annotations

import re

_POSTGRESQL_OPTION = re.compile(r"(?:-c\s*|--)([A-Za-z_.-]+)=((?:\\.|\S)*)")
_MYSQL_SETTING = re.compile(r"(?:session\s+|@@session\.|@@)?(\w+)\s*:?=\s*(?:'[^'\\]*'|[\w.+-]+)", re.IGNORECASE)
_POSTGRESQL_SETTINGS = {
    "application_name", "effective_io_concurrency", "hash_mem_multiplier", "idle_in_transaction_session_timeout",
    "idle_session_timeout", "jit", "lock_timeout", "max_parallel_workers_per_gather", "random_page_cost", "role",
    "search_path", "statement_timeout", "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval",
    "temp_buffers", "work_mem",
}  # fmt: skip
_MYSQL_SETTINGS = {
    "innodb_lock_wait_timeout", "interactive_timeout", "join_buffer_size", "lock_wait_timeout", "max_execution_time",
    "max_statement_time", "net_read_timeout", "net_write_timeout", "read_buffer_size", "sort_buffer_size", "sql_mode",
    "time_zone", "tmp_table_size", "wait_timeout",
}  # fmt: skip


def postgresql_problem(options: str) -> str:
    """Return why libpq's ``options`` are refused. "" if every setting is harmless."""
    if _POSTGRESQL_OPTION.sub("", options).strip():
        return "extra field 'options' must be settings: -c name=value"
    names = [match[1].replace("-", "_").lower() for match in _POSTGRESQL_OPTION.finditer(options)]
    return _refused("options", names, _POSTGRESQL_SETTINGS)


def search_path(options: str) -> str | None:
    """Return the schemas in which libpq's ``options`` look for a table, if set."""
    paths = [match[2] for match in _POSTGRESQL_OPTION.finditer(options) if match[1].replace("-", "_") == "search_path"]
    return paths[-1] if paths else None


def mysql_problem(command: str) -> str:
    """Return why an ``init_command`` is refused. "" if every setting is harmless."""
    statement = re.fullmatch(r"\s*set\s+(.+?)\s*;?\s*", command, re.IGNORECASE | re.DOTALL)
    parts = [_MYSQL_SETTING.fullmatch(part.strip()) for part in statement[1].split(",")] if statement else [None]
    names = [match[1].lower() for match in parts if match]
    if len(names) < len(parts):
        return "extra field 'init_command' must be one SET of session settings: SET name = value"
    return _refused("init_command", names, _MYSQL_SETTINGS)


def _refused(field: str, names: list[str], allowed: set[str]) -> str:
    refused = [name for name in names if name not in allowed]
    if not refused:
        return ""
    return f"extra field {field!r}: the setting {refused[0]!r} may change rows or values: leave it out"
