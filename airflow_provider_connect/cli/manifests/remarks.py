"""Remarks about a translated stream, which become comments in its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from airflow_provider_connect.errors import ConfigError

_MAX_CHARACTERS = 300


class UntranslatableError(ConfigError):
    """A stream that ``RestSource`` cannot declare."""


class Remark(NamedTuple):
    """One remark.

    :param section: option of the declaration that it belongs to.
    :param kind: ``gap``: a part of the file that was left out. ``check``: a choice that a person should confirm.
    """

    section: str
    text: str
    kind: Literal["gap", "check"]


class Remarks:
    """The remarks of one stream, each once."""

    def __init__(self) -> None:
        self._remarks: dict[Remark, None] = {}

    def __iter__(self) -> Iterator[Remark]:
        return iter(self._remarks)

    def gap(self, section: str, text: str) -> None:
        """Add a part of the file that the declaration lacks."""
        self._remarks[Remark(section, one_line(text), "gap")] = None

    def check(self, section: str, text: str) -> None:
        """Add a choice that a person should confirm."""
        self._remarks[Remark(section, one_line(text), "check")] = None

    @property
    def gaps(self) -> list[str]:
        """Texts of the parts that were left out."""
        return [remark.text for remark in self._remarks if remark.kind == "gap"]


def one_line(text: str) -> str:
    """Return a text for a comment: printable, on one line, and not too long."""
    plain = re.sub(r"\s+", " ", "".join(item if item.isprintable() else " " for item in str(text))).strip()
    return plain if len(plain) <= _MAX_CHARACTERS else f"{plain[: _MAX_CHARACTERS - 1]}…"
