"""Decides which values are secret, and removes them from texts."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from airflow_provider_connect.errors import refuse_text

HIDDEN_NAME = (
    r"secret|passw|passphrase|token|credential|authorization|key|jaas|dsn|oauthbearer\.config$"
    r"|(?:^|[^a-z])sas(?:[^a-z]|$)"
)
"""Pattern for names of secret fields, in any case. Valid in Python and in Java."""
_SECRET_NAME = re.compile(HIDDEN_NAME, re.IGNORECASE)
_PLACE_NAME = re.compile(r"\.(?:location|keytab|private\.key\.file|token\.endpoint\.url)$", re.IGNORECASE)
"""Names of fields with files and services, which messages may show."""
_TOKEN = re.compile(r"(?i:\bauth=bearer\s*\S+|\b(?:bearer|basic)\s+\S+)|\bya29\.\S+|\beyJ[\w-]+\S*|-----BEGIN.*")
_DECODINGS_DEEP = 3
_STRUCK = "***"
_NOT_SHOWN = re.compile(r"[^\x21-\x7e]+")
_REPLACED = r"\?*"  # what servers put where a character is not in their encoding
_NOT_PRINTABLE = re.compile(r"(?:[^\x21-\x7e]|\?)+")
"""Characters that the search for a partial echo ignores."""
_HALF_AN_ESCAPE = re.compile(
    r"(?:\\(?:[uU]\{?[0-9A-Fa-f]{0,8}|x[0-9A-Fa-f]?|[0-3][0-7]?)?"
    r"|&(?:#(?:[0-9]{0,8}|[xX][0-9A-Fa-f]{0,7})|[A-Za-z][A-Za-z0-9]{0,31})?"
    r"|%(?:[0-9A-Fa-f]|u[0-9A-Fa-f]{0,3})?)\Z"
)
_SIMPLE_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}


def is_secret_name(name: str) -> bool:
    """Return True if a connection field of this name is secret."""
    return bool(_SECRET_NAME.search(name)) and not _PLACE_NAME.search(name)


def redact_tokens(text: str) -> str:
    """Return a text with ``…`` for anything that looks like a credential."""
    return _TOKEN.sub("…", text)


class Secrets:
    """Secret values that can be redacted in texts."""

    def __init__(self, values: Iterable[str]) -> None:
        refuse_text("values", values)
        parts = {value: [re.escape(part) for part in _NOT_SHOWN.split(value) if part] for value in values if value}
        self._patterns = [
            re.compile(_REPLACED.join(visible_parts)) for visible_parts in parts.values() if visible_parts
        ]
        self._not_shown = [value for value, visible_parts in parts.items() if not visible_parts]
        self._beginnings = [_NOT_PRINTABLE.sub("", value) for value in parts]

    def __repr__(self) -> str:
        return f"{len(self._patterns) + len(self._not_shown)} secrets"

    def redact(self, text: str, *, is_cut: bool = False) -> str:
        """Return the text with ``***`` for every secret, in any encoding of an echo.

        :param is_cut: True if the end of the text is missing.
        """
        readings = list(_readings(text, is_cut=is_cut))
        spans = [span for reading in readings for span in self._find_secrets(reading)]
        if is_cut:
            spans += [(begin, len(text)) for reading in readings for begin in self._partial_matches(reading)]
        text_parts, position = [], 0
        for begin, end in sorted(spans):
            if begin >= position:
                text_parts += [text[position:begin], _STRUCK]
            position = max(position, end)
        return "".join([*text_parts, text[position:]])

    def _find_secrets(self, reading: _Reading) -> Iterator[tuple[int, int]]:
        visible = reading.decoded(_NOT_SHOWN, lambda run: [])
        for pattern in self._patterns:
            for match in pattern.finditer(visible.text):
                yield visible.begins[match.start()], visible.ends[match.end() - 1]
        for value in self._not_shown:
            for match in re.finditer(re.escape(value), reading.text):
                yield reading.begins[match.start()], reading.ends[match.end() - 1]

    def _partial_matches(self, reading: _Reading) -> Iterator[int]:
        printable_reading = reading.decoded(_NOT_PRINTABLE, lambda run: [])
        for value in self._beginnings:
            most = min(len(value), len(printable_reading.text))
            length = next((n for n in range(most, 0, -1) if printable_reading.text.endswith(value[:n])), 0)
            if length:
                yield printable_reading.begins[len(printable_reading.text) - length]
        half = _HALF_AN_ESCAPE.search(reading.text)
        if half is not None:
            yield reading.begins[half.start()]


class _Reading(NamedTuple):
    """A decoded text, with each character's position in the original."""

    text: str
    begins: list[int]
    ends: list[int]

    def decoded(self, pattern: re.Pattern[str], decode: Callable[[str], list[tuple[str, int]]]) -> _Reading:
        """Return the text with every match decoded."""
        if pattern.search(self.text) is None:
            return self
        text: list[str] = []
        begins: list[int] = []
        ends: list[int] = []
        last = 0
        for match in pattern.finditer(self.text):
            at = match.start()
            text.append(self.text[last:at])
            begins += self.begins[last:at]
            ends += self.ends[last:at]
            for character, length in decode(match[0]):
                text.append(character)
                begins.append(self.begins[at])
                ends.append(self.ends[at + length - 1])
                at += length if at + length < match.end() else 0
            last = match.end()
        text.append(self.text[last:])
        return _Reading("".join(text), begins + self.begins[last:], ends + self.ends[last:])

    def without_half_an_escape(self) -> _Reading:
        half = _HALF_AN_ESCAPE.search(self.text)
        end = half.start() if half is not None else len(self.text)
        if end == len(self.text):
            return self
        return _Reading(self.text[:end], self.begins[:end], self.ends[:end])


def _readings(text: str, *, is_cut: bool) -> Iterator[_Reading]:
    positions = list(range(len(text) + 1))
    pending = [_Reading(text, positions[:-1], positions[1:])]
    texts_read: set[str] = set()
    for depth_left in range(_DECODINGS_DEEP, -1, -1):
        if is_cut:
            pending += [reading.without_half_an_escape() for reading in pending]
        generation = []
        for candidate in pending:
            if candidate.text not in texts_read:
                texts_read.add(candidate.text)
                generation.append(candidate)
        yield from generation
        pending = [reading.decoded(*decoder) for reading in generation for decoder in _DECODERS] if depth_left else []


def _backslash(escape: str) -> list[tuple[str, int]]:
    if len(escape) == 12:  # two halves of one character
        halves = chr(int(escape[2:6], 16)) + chr(int(escape[8:], 16))
        return [(halves.encode("utf-16", "surrogatepass").decode("utf-16"), 12)]
    digits = re.fullmatch(r"\\(?:[uU]\{?|x)([0-9A-Fa-f]+)\}?", escape)
    octal = re.fullmatch(r"\\([0-3][0-7]{2})", escape)
    if digits or octal:
        code = int(digits[1], 16) if digits else int(octal[1], 8)  # type: ignore[index]  # one of them matched
        return [(chr(code) if code <= 0x10FFFF else "\ufffd", len(escape))]
    return [(character, len(escape)) for character in _SIMPLE_ESCAPES.get(escape[1], escape[1])]


def _entity(escape: str) -> list[tuple[str, int]]:
    return [(character, len(escape)) for character in html.unescape(escape)]


def _percent(escapes: str) -> list[tuple[str, int]]:
    if escapes == "+":
        return [(" ", 1)]
    if escapes[1] in "uU":
        return [(chr(int(escapes[2:], 16)), len(escapes))]
    text = bytes.fromhex(escapes.replace("%", "")).decode("utf-8", "surrogateescape")
    return [(character, 3 * len(character.encode("utf-8", "surrogateescape"))) for character in text]


_PERCENTS = r"%u[0-9A-Fa-f]{4}|(?:%[0-9A-Fa-f]{2})+"
_DECODERS: tuple[tuple[re.Pattern[str], Callable[[str], list[tuple[str, int]]]], ...] = (
    (
        re.compile(
            r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"
            r"|\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|[0-3][0-7]{2}|.)",
            re.DOTALL,
        ),
        _backslash,
    ),
    (re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9A-Fa-f]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});?"), _entity),
    (re.compile(_PERCENTS), _percent),
    (re.compile(rf"\+|{_PERCENTS}"), _percent),
)
"""Decoders of escapes: of JSON, JavaScript and Python, of HTML, of URLs, and of forms."""
