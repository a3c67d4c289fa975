"""JSON in other encodings becomes UTF-8."""

from __future__ import annotations

import codecs
import json

import pytest

from airflow_provider_connect.clients.http.charsets import utf8_json

TEXT = '{"name": "Zoë € ä"}'
LATIN = '{"name": "Zoë"}'


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        (TEXT.encode(), "application/json", TEXT),
        (codecs.BOM_UTF8 + TEXT.encode(), "application/json; charset=utf-8", TEXT),
        (TEXT.encode("utf-16"), "application/json; charset=utf-16", TEXT),
        (TEXT.encode("utf-16-le"), "application/json; charset=UTF-16", TEXT),
        (TEXT.encode("utf-16-be"), "", TEXT),
        (LATIN.encode("latin-1"), 'application/json; charset="ISO-8859-1"', LATIN),
        (LATIN.encode("latin-1"), "application/json;charset=windows-1252", LATIN),
        (LATIN.encode(), "application/json; charset=iso-8859-1", LATIN),
        (codecs.BOM_UTF8, "", ""),
        (b"", "application/json; charset=utf-16", ""),
    ],
)
def test_json_of_any_encoding_becomes_utf8(body: bytes, content_type: str, text: str) -> None:
    assert utf8_json(body, content_type) == text.encode()


@pytest.mark.parametrize("charset", ["base64", "utf-8", "unknown-1", "hex"])
def test_a_body_of_no_known_encoding_stays_as_it_came(charset: str) -> None:
    body = json.dumps({"name": "x"}).encode() + b"\xff"
    assert utf8_json(body, f"application/json; charset={charset}") == body
