"""Splits a JSON document into the unchanged texts of its parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from airflow_provider_connect.values.json.paths import MISSING

_TOLERANT = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n]*")
SURROGATES = re.compile("[\ud800-\udfff]")
"""Unpaired surrogates, which JSON may contain and no column can hold."""


class NotJsonError(ValueError):
    """A text is not the required JSON. The message shows no values."""


def members(text: str, decoder: json.JSONDecoder | None = None) -> Iterator[tuple[str, str]]:
    """Yield each key of the JSON object in ``text``, with the source text of its value.

    :param decoder: finds the end of a value. Default: refuses NaN.
    :raises NotJsonError: no JSON object.
    """
    decoder = decoder or json.JSONDecoder(parse_constant=refuse_constant)
    at = skip_token(text, 0, "{")
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            try:
                key, at = decoder.raw_decode(text, at)
                if not isinstance(key, str):
                    raise NotJsonError("no JSON object")
                at = skip_token(text, at, ":")
                _, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise as_not_json_error(error) from None
            yield key, text[at:end]
            at = skip_space(text, end)
            if text[at : at + 1] == "}":
                at += 1
                break
            at = skip_token(text, at, ",")
    if skip_space(text, at) != len(text):
        raise NotJsonError("something follows the JSON object")


def skip_token(text: str, at: int, token: str) -> int:
    """Return the position after ``token`` and the white space around it.

    :raises NotJsonError: another text comes next.
    """
    at = skip_space(text, at)
    if text[at : at + 1] != token:
        raise NotJsonError(f"invalid JSON at its character {at}")
    return skip_space(text, at + 1)


def skip_space(text: str, at: int) -> int:
    """Return the position after white space."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too


def elements(text: str, decoder: json.JSONDecoder | None = None) -> Iterator[str]:
    """Yield the source texts of an array's elements.

    :raises ValueError: the text is not an array.
    """
    decoder = decoder or json.JSONDecoder(parse_constant=refuse_constant)
    at = skip_token(text, 0, "[")
    while text[at : at + 1] != "]":
        _, end = decoder.raw_decode(text, at)
        yield text[at:end]
        at = skip_space(text, end)
        if text[at : at + 1] == ",":
            at = skip_space(text, at + 1)


def decode_utf8(data: bytes) -> str:
    """Return a document as text.

    :raises NotJsonError: the document is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(f"invalid UTF-8 at its byte {error.start}") from None


def parse_json(text: str) -> Any:
    """Decode a document.

    :raises NotJsonError: the text is not JSON.
    """
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise as_not_json_error(error) from None


def refuse_constant(name: str) -> Any:
    """Raise NotJsonError for NaN and Infinity. For ``parse_constant``."""
    raise NotJsonError(f"{name} is no JSON")


def as_not_json_error(error: Exception) -> NotJsonError:
    """Convert a decoder's error to a NotJsonError, without the text that it quotes."""
    if isinstance(error, NotJsonError):
        return error
    if isinstance(error, json.JSONDecodeError):
        return NotJsonError(f"invalid JSON at its character {error.pos}")
    return NotJsonError("nested too deep, or with a number too long")


class JsonSlicer:
    """Splits JSON bytes into the unchanged bytes of its parts."""

    def __init__(self) -> None:
        import msgspec

        self._object: Any = msgspec.json.Decoder(dict[str, msgspec.Raw])
        self._array: Any = msgspec.json.Decoder(list[msgspec.Raw])
        self.decode_errors = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def members(self, data: Any) -> dict[str, Any]:
        """Return an object's values by name. A duplicate name has its last value.

        :raises ValueError: no object.
        """
        try:
            parts: dict[str, Any] = self._object.decode(data)
        except self.decode_errors:
            text = bytes(data).decode("utf-8", "surrogateescape")
            parts = {name: _encoded(value) for name, value in members(text, _TOLERANT)}
        return parts

    def elements(self, data: Any) -> list[Any]:
        """Return an array's elements.

        :raises ValueError: the data is not an array.
        """
        try:
            parts: list[Any] = self._array.decode(data)
        except self.decode_errors:
            text = bytes(data).decode("utf-8", "surrogateescape")
            dict(members('{"":' + text + "}", _TOLERANT))  # to its end: an array that is cut is none
            parts = [_encoded(value) for value in elements(text, _TOLERANT)]
        return parts

    def value_at(self, data: Any, steps: Sequence[str]) -> Any:
        """Return the value at the end of a path's steps, or :data:`MISSING`.

        :raises ValueError: not JSON.
        """
        for step in steps:
            first = bytes(data[:1]) if isinstance(data, bytes) else bytes(data)[:1]
            if first == b"{":
                data = self.members(data).get(step, MISSING)
            elif first == b"[" and step.isascii() and step.isdigit():
                elements = self.elements(data)
                data = elements[int(step)] if int(step) < len(elements) else MISSING
            else:
                return MISSING
            if data is MISSING:
                break
        return data


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
