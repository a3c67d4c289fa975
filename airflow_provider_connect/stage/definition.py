"""The definition of a stream: the parts that decide which rows its days have, as text that a person can read.

A ledger row holds the digest of the definition that its day was loaded with, and the ledger keeps each definition once,
as a note (:mod:`.notes`). The next attempt compares (:mod:`airflow_provider_connect.definition`).

A ledger never holds literals of conditions and queries. A part that may contain literals is shortened, with ``…`` in
place of each literal, and ends in a digest of the whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.secrets import is_secret_name, redact_tokens
from airflow_provider_connect.wire import Wire

RowRole = Literal["reading", "narrowing", "condition"]
"""How an option decides which rows a day has. ``reading``: how rows are read, identified and assigned to days.
``narrowing``: it leaves rows out. ``condition``: the same, by a text with literals, of which a ledger has a digest."""

DIGEST_BITS = 60
"""Bits of a definition's digest: few enough for a signed 64-bit number, which is all that some ledgers can hold."""
_DIGEST_DIGITS = DIGEST_BITS // 4
_MOST_CHARACTERS = 80
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|(?<!\w)\d[\w.]*")
_UNCLEAR = re.compile(r"\\|\$\w*\$")
"""Dialects differ in where a literal with an escape ends, and dollars quote in some: then nothing is shown."""
_PLAIN = re.compile(r"[^\x00-\x1f]{0,100}")


class StreamDefinition(Wire):
    """The parts that decide which rows the days of a stream have, each as text under its name.

    :param reading: how rows are read, identified and assigned to days: kind, day column, cursor columns, key, zone,
        project or account.
    :param narrowing: options that leave rows out.
    :param access: host and login.
    :param shapes: the shapes, a digest of the key of each mask, and the transform.
    :param key: columns of ``record_key`` with the classes of their values, as the source has resolved them. Empty if
        rows have no key.
    """

    reading: dict[str, str] = Field(default_factory=dict)
    narrowing: dict[str, str] = Field(default_factory=dict)
    access: dict[str, str] = Field(default_factory=dict)
    shapes: dict[str, str] = Field(default_factory=dict)
    key: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """15 hex digits over all parts."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def options_digest(self) -> str:
        """15 hex digits over all parts except the resolved key."""
        return digest_of(self.model_dump(mode="json", exclude={"key"}))


def digest_of(value: Any) -> str:
    """Return 15 hex digits of a plain JSON value, whatever the order of its objects' names."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def plain_part(value: Any) -> str:
    """Return the text of a part that holds names, numbers and modes. Shortens long texts and texts of several lines."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    text = redact_tokens(text)
    return text if _PLAIN.fullmatch(text) else literal_part(value)


def literal_part(value: Any) -> str:
    """Return the text of a part that may hold literals: shortened, without literals, with a digest of the whole."""
    text = value if isinstance(value, str) else json.dumps(_names_alone(value), sort_keys=True, ensure_ascii=False)
    shown = _without_literals(redact_tokens(text)) if isinstance(value, str) else text
    shown = " ".join(shown.split())
    if len(shown) > _MOST_CHARACTERS:
        shown = f"{shown[:_MOST_CHARACTERS]}…"
    return f"{shown} #{digest_of(value)}"


def _without_literals(text: str) -> str:
    shown = _LITERAL.sub("…", text)
    is_unclear = _UNCLEAR.search(text) or "'" in shown or '"' in shown
    return "…" if is_unclear else shown


def _names_alone(value: Any) -> Any:
    """Return a plain JSON value with ``…`` in place of each text and number."""
    if isinstance(value, dict):
        return {("…" if is_secret_name(name) else name): _names_alone(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_names_alone(inner) for inner in value][:1] + (["…"] if len(value) > 1 else [])
    return value if value is None or isinstance(value, bool) else "…"
