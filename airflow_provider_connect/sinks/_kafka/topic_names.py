"""Makes topic names from a template and the rows' values.

A value that is no legal name part becomes ``<legal part>_x<10 hex digits of its hash>``. Kafka's rules
(``org.apache.kafka.common.internals.Topic``, 4.3, 2026-11): at most 249 letters, digits, ``.``, ``_`` and ``-``,
neither ``.`` nor ``..``. Kafka also refuses names that differ only in ``.`` and ``_``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.values.hashed_names import HASH_SUFFIX_CHARS, has_hash, name_with_hash, value_hash

MAX_TOPIC_NAME = 249
_LEGAL = re.compile(r"[A-Za-z0-9_-]+")
_COLUMN = re.compile(r"\{([^{}]+)\}")
_NULL = "null"
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


def topic_name_problem(name: str) -> str | None:
    if name in INTERNAL_TOPICS:
        return f"{name!r} is one of Kafka's internal topics"
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", ".."):
        return f"{name!r} is no legal topic name. Use letters, digits, '.', '_' and '-'"
    if len(name) > MAX_TOPIC_NAME:
        return f"a topic name may have at most {MAX_TOPIC_NAME} characters, this one has {len(name)}"
    return None


def topic_template_problem(template: str) -> str | None:
    """Return a message about an invalid topic name or template, or None."""
    fixed, columns = _COLUMN.sub("", template), _COLUMN.findall(template)
    if not columns:
        return topic_name_problem(template)
    if len(columns) > 1:
        return f"{template!r} names {len(columns)} columns: use one"
    if fixed and topic_name_problem(fixed):
        return f"{template!r}: around the column use letters, digits, '.', '_' and '-'"
    if len(fixed) > MAX_TOPIC_NAME - HASH_SUFFIX_CHARS:
        return (
            f"{template!r}: the text around the column may have at most {MAX_TOPIC_NAME - HASH_SUFFIX_CHARS} characters"
        )
    return None


def template_column(template: str) -> str | None:
    """Return the column in the template's braces, or None."""
    match = _COLUMN.search(template)
    return match[1] if match else None


def topic_names(
    template: str, values: Iterable[str | None], reserved_names: Collection[str] = ()
) -> dict[str | None, str]:
    """Return the topic of each value. None becomes ``null`` and a hash.

    :param reserved_names: unavailable names.
    :raises ConfigError: an invalid template, or two equal hashes.
    """
    if problem := topic_template_problem(template):
        raise ConfigError(f"topic: {problem}")
    start, end = _COLUMN.split(template)[::2] if template_column(template) else (template, None)
    if end is None:
        return dict.fromkeys(values, template)
    reserved_metrics = {_metric_name(name) for name in (*reserved_names, *INTERNAL_TOPICS)}
    names_by_value = {value: _topic_name(start, value, end, reserved_metrics) for value in values}
    if len({_metric_name(name) for name in names_by_value.values()}) < len(names_by_value):
        raise ConfigError(
            "topic: two values of the column in the template have the same hash and would share a topic. Rename one in "
            "the source"
        )
    return names_by_value


def topic_name_pattern(template: str) -> str:
    """Return a regular expression for a template's topics, and perhaps a few others."""
    return _LEGAL.pattern.join(re.escape(text) for text in _COLUMN.split(template)[::2])


def _topic_name(start: str, value: str | None, end: str, reserved_metrics: Collection[str]) -> str:
    name = f"{start}{value}{end}"
    is_legal = value is not None and _LEGAL.fullmatch(value) and not has_hash(value)
    if is_legal and len(name) <= MAX_TOPIC_NAME and _metric_name(name) not in reserved_metrics:
        return name
    room = MAX_TOPIC_NAME - len(start) - len(end) - HASH_SUFFIX_CHARS
    text = _NULL if value is None else value
    return f"{start}{name_with_hash(text, value_hash(value), legal_chars='A-Za-z0-9_-', max_chars=room)}{end}"


def _metric_name(name: str) -> str:
    return name.replace(".", "_")
