"""Converts the body of a JSON answer to UTF-8 without a byte order mark."""

from __future__ import annotations

import codecs
import json
from email.message import Message


def utf8_json(body: bytes, content_type: str) -> bytes:
    """Return JSON as UTF-8 without a byte order mark, or a body that cannot be converted unchanged.

    The first bytes decide on UTF-16 and UTF-32. Else valid UTF-8 counts before the encoding of ``content_type``.
    """
    encoding: str = json.detect_encoding(body)
    if encoding == "utf-8":
        encoding = _declared_encoding(content_type)
        if encoding in ("utf-8", "ascii") or _is_utf8(body):
            return body
    try:
        return body.decode(encoding).encode()
    except UnicodeError:
        return body


def _declared_encoding(content_type: str) -> str:
    if "charset" not in content_type.lower():
        return "utf-8"
    message = Message()
    message["Content-Type"] = content_type
    try:
        "".encode(charset := str(message.get_content_charset("utf-8")))  # refuses codecs such as base64
        return codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
