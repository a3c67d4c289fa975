"""The definition of a stream: the options and columns that decide which rows its days have.

A digest replaces literals of conditions and queries.
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
"""Effect of an option on a day's rows. ``reading``: how rows are read, identified and assigned to days. ``narrowing``:
leaves rows out. ``condition``: leaves rows out by a text with literals, of which a ledger has a digest.
"""

DIGEST_BITS = 60
"""Some ledgers hold a definition's digest in a signed 64-bit number."""
_DIGEST_DIGITS = DIGEST_BITS // 4
_MOST_CHARACTERS = 80
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|(?<!\w)\d[\w.]*")
_UNCLEAR = re.compile(r"\\|\$\w*\$")
_PLAIN = re.compile(r"[^\x00-\x1f]{0,100}")


class StreamDefinition(Wire):
    """The parts of a definition.

    :param reading: kind, columns of day, cursor and key, zone, account.
    :param narrowing: options that leave rows out.
    :param access: host and login.
    :param shapes: shapes, digests of the masks' keys, and transform.
    :param key: columns of ``record_key``, each with its kind of value.
    """

    reading: dict[str, str] = Field(default_factory=dict)
    narrowing: dict[str, str] = Field(default_factory=dict)
    access: dict[str, str] = Field(default_factory=dict)
    shapes: dict[str, str] = Field(default_factory=dict)
    key: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """15 hex digits over all fields."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def options_digest(self) -> str:
        """15 hex digits over all fields but ``key``."""
        return digest_of(self.model_dump(mode="json", exclude={"key"}))


def digest_of(value: Any) -> str:
    """Return 15 hex digits over a plain JSON value, regardless of the order of names."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def plain_part(value: Any) -> str:
    """Return a name, number or mode as text. Long texts are shortened."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    text = redact_tokens(text)
    return text if _PLAIN.fullmatch(text) else literal_part(value)


def literal_part(value: Any) -> str:
    """Return a value as shortened text without literals, with a digest of the whole."""
    text = value if isinstance(value, str) else json.dumps(_replace_values(value), sort_keys=True, ensure_ascii=False)
    shortened = _without_literals(redact_tokens(text)) if isinstance(value, str) else text
    shortened = " ".join(shortened.split())
    if len(shortened) > _MOST_CHARACTERS:
        shortened = f"{shortened[:_MOST_CHARACTERS]}…"
    return f"{shortened} #{digest_of(value)}"


def _without_literals(text: str) -> str:
    shortened = _LITERAL.sub("…", text)
    is_unclear = _UNCLEAR.search(text) or "'" in shortened or '"' in shortened
    return "…" if is_unclear else shortened


def _replace_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {("…" if is_secret_name(name) else name): _replace_values(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_values(inner) for inner in value][:1] + (["…"] if len(value) > 1 else [])
    return value if value is None or isinstance(value, bool) else "…"
