"""The part of Mixpanel's expressions that the stand-in understands.

Comparisons of a property with a text or a number, comparisons of an event's time with ``datetime("…")``, and what joins
them: ``and``, ``or``, ``not`` and brackets (https://docs.mixpanel.com/reference/segmentation-expressions, 2026-11).
What cannot be compared is undefined there. For ``and`` and ``or`` that is false, and ``not`` of it is true.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any

Wants = Callable[[dict[str, Any]], bool]
"""Tells for the properties of an event or profile whether an expression is true."""

_TEXT = r'"(?:[^"\\]|\\.)*"'
_OPERATOR = r"(==|!=|>=|<=|>|<)"
_PROPERTY = re.compile(rf"properties\[({_TEXT})\]\s*{_OPERATOR}\s*({_TEXT}|-?\d+(?:\.\d+)?)")
_TIME = re.compile(rf'event\["\$time"\]\s*{_OPERATOR}\s*datetime\("([^"]*)"\)')
_WORD = re.compile(r"(and|or|not)\b|([()])")
_MILLISECONDS = 100_000_000_000
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
}


def parse(text: str, *, orders_texts: bool = False) -> Wants:
    """Read an expression.

    :param orders_texts: whether texts may be greater or less, as the times of profiles are.
    :raises ValueError: it is none that this server understands.
    """
    reader = _Reader(text, orders_texts=orders_texts)
    wants = reader.any_of()
    reader.end()
    return wants


class _Reader:
    def __init__(self, text: str, *, orders_texts: bool) -> None:
        self._text = text
        self._at = 0
        self._orders_texts = orders_texts

    def any_of(self) -> Wants:
        """Read what ``or`` joins."""
        operands = [self._all_of()]
        while self._takes("or"):
            operands.append(self._all_of())
        return operands[0] if len(operands) == 1 else lambda row: any(wants(row) for wants in operands)

    def end(self) -> None:
        """Make sure that nothing is left."""
        if self._text[self._at :].strip():
            raise ValueError("something follows the expression")

    def _all_of(self) -> Wants:
        operands = [self._operand()]
        while self._takes("and"):
            operands.append(self._operand())
        return operands[0] if len(operands) == 1 else lambda row: all(wants(row) for wants in operands)

    def _operand(self) -> Wants:
        if self._takes("not"):
            denied = self._operand()
            return lambda row: not denied(row)
        if self._takes("("):
            wants = self.any_of()
            if not self._takes(")"):
                raise ValueError("a bracket is not closed")
            return wants
        if match := self._match(_PROPERTY):
            return _of_property(json.loads(match[1]), match[2], json.loads(match[3]), orders_texts=self._orders_texts)
        if match := self._match(_TIME):
            return _of_time(match[1], match[2])
        raise ValueError("no comparison")

    def _takes(self, word: str) -> bool:
        start = self._at
        match = self._match(_WORD)
        if match is not None and match[0] == word:
            return True
        self._at = start
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match


def _of_property(name: str, operator: str, constant: Any, *, orders_texts: bool) -> Wants:
    if isinstance(constant, str) and operator not in ("==", "!=") and not orders_texts:
        raise ValueError("texts have no order")
    compare = _COMPARISONS[operator]
    kinds = str if isinstance(constant, str) else (int, float)

    def wants(properties: dict[str, Any]) -> bool:
        value = properties.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return operator == "!="
        return compare(value, constant)

    return wants


def _of_time(operator: str, written: str) -> Wants:
    moment = dt.datetime.fromisoformat(written).replace(tzinfo=dt.UTC).timestamp()
    compare = _COMPARISONS[operator]

    def wants(properties: dict[str, Any]) -> bool:
        time = properties.get("time")
        if not isinstance(time, int):
            return False
        return compare(time / 1000 if time > _MILLISECONDS else time, moment)

    return wants
