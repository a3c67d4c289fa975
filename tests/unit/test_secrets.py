"""An echo of a secret is struck out in whatever form a server, a proxy or a page may give it back."""

from __future__ import annotations

import html
import json
import tracemalloc
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import excerpt
from airflow_provider_connect.secrets import Secrets

PASSWORD = 'Canary\'s "pass\\wörd" & <100%>/+={{%41&amp;\\u0041}}'
LOGIN = "me@canary.example"
AUTH = basic_auth(SecretStr(LOGIN), SecretStr(PASSWORD))
Encoding = Callable[[str], str]

ENCODINGS: dict[str, Encoding] = {
    "plain": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "json in utf-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json of a careful server": lambda text: "".join(
        rf"\u{ord(one):04x}" if one in "'<>&" else json.dumps(one)[1:-1] for one in text
    ),
    "json, every character": lambda text: "".join(rf"\u{ord(one):04X}" for one in text),
    "html": html.escape,
    "html without quotes": lambda text: html.escape(text, quote=False),
    "html, decimal": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "html, padded": lambda text: "".join(f"&#{ord(one):07d};" if not one.isalnum() else one for one in text),
    "html, hexadecimal": lambda text: "".join(f"&#X{ord(one):X};" for one in text),
    "html, by name": lambda text: html.escape(text).replace("&#x27;", "&apos;").replace("ö", "&ouml;"),
    "percent": lambda text: quote(text, safe=""),
    "percent, lower case": lambda text: "".join(
        quote(one, safe="").lower() if not one.isalnum() else quote(one) for one in text
    ),
    "percent, slashes kept": quote,
    "percent, every byte": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent, latin-1": lambda text: quote(text, safe="", encoding="latin-1", errors="replace"),
    "form": quote_plus,
    "javascript escape": lambda text: "".join(f"%u{ord(one):04x}" if not one.isalnum() else one for one in text),
    "python repr": lambda text: ascii(text)[1:-1],
    "python bytes": lambda text: repr(text.encode())[2:-1],
    "php": lambda text: text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"'),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "latin-1 read as utf-8": lambda text: text.encode("latin-1", "replace").decode("utf-8", "replace"),
    "question marks": lambda text: text.encode("ascii", "replace").decode(),
    "without what is not ascii": lambda text: text.encode("ascii", "ignore").decode(),
}


@pytest.mark.parametrize("outer", ENCODINGS)
def test_a_login_and_a_password_are_struck_out_in_every_form_and_in_one_inside_the_other(outer: str) -> None:
    for inner, encode in ENCODINGS.items():
        password, login = (ENCODINGS[outer](encode(secret)) for secret in (PASSWORD, LOGIN))
        said = excerpt(f"before {password} of {login} after", AUTH_SECRETS)
        assert said == "before *** of *** after", inner


AUTH_SECRETS = Secrets(AUTH.secrets)


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_header_is_struck_out_too(name: str) -> None:
    token = AUTH.headers["Authorization"].removeprefix("Basic ")
    for form in (token, token.rstrip("="), token.replace("+", "-").replace("/", "_")):
        said = excerpt(f"Authorization: {ENCODINGS[name](form)}", AUTH_SECRETS)
        assert token[:6] not in said
        assert "***" in said


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.text(min_size=1, max_size=12).filter(lambda text: len(text.encode("ascii", "ignore").split()) > 0),
    st.lists(st.sampled_from(["json", "html", "percent", "form", "python repr"]), max_size=3),
)
def test_any_secret_under_any_three_encodings(secret: str, names: list[str]) -> None:
    echo = f"[{secret}]"
    for name in names:
        echo = ENCODINGS[name](echo.encode("utf-8", "replace").decode())
    shown = Secrets([secret]).redact(f"before {echo} after")
    assert "***" in shown


def test_what_is_no_secret_stays() -> None:
    text = 'line 1: {"error": "bad \\"where\\" &amp; 100%25 + more"}\n'
    assert Secrets(["hush"]).redact(text) == text
    assert Secrets([""]).redact(text) == text
    assert Secrets([]).redact("") == ""
    assert Secrets(["a"]).redact("banana") == "b***n***n***"


def test_half_an_echo_at_the_end_of_what_was_read_is_not_quoted() -> None:
    text = (" " * 9000 + PASSWORD)[:8192][: 9000 + 5]
    assert excerpt(" " * 8180 + PASSWORD[:12], AUTH_SECRETS) == ""
    assert excerpt(text, AUTH_SECRETS) == ""


def test_an_error_as_long_as_a_record_is_quoted_from_its_beginning() -> None:
    long = f"trouble with {PASSWORD} " + "&#39;%27\\u0027+" * 500_000
    tracemalloc.start()
    said = excerpt(long, AUTH_SECRETS)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert said.startswith("trouble with *** ")
    assert peak_bytes < 50 << 20


def test_secrets_do_not_show_themselves() -> None:
    assert PASSWORD not in repr(AUTH_SECRETS) + repr(AUTH) + str(AUTH_SECRETS) + str(AUTH)


@pytest.mark.parametrize("piece", ["\\u0026#39;", "%2525", "&amp;amp;", "\\\\\\\\", "+", "&#x", "\\"])
def test_a_text_of_nothing_but_escapes_is_read_to_its_end(piece: str) -> None:
    assert excerpt(piece * (8192 // len(piece)), AUTH_SECRETS)
