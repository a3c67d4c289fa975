import datetime as dt

import pytest
from pydantic import SecretStr

from airflow_provider_connect.clients.http.auth import basic_auth
from airflow_provider_connect.clients.http.client import excerpt, retry_after_seconds
from airflow_provider_connect.clients.http.http_connection import HttpTimeouts
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.secrets import Secrets
from tests.equipment.http.sending import request

NOW = dt.datetime(2026, 11, 5, 12, 0, tzinfo=dt.UTC)
LIMITS = HttpTimeouts(connect_timeout_seconds=0.5, read_timeout_seconds=0.5, deadline_seconds=2)
AUTH = basic_auth(SecretStr("user"), SecretStr("canary&1 é"))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("30", 30),
        (" 1.5 ", 1.5),
        ("0", 0),
        ("-5", None),
        ("99999999999999999999", 3600),
        ("9" * 400, None),
        ("٣", None),
        ("nan", None),
        ("Thu, 05 Nov 2026 12:00:45 GMT", 45),
        ("Thu, 05 Nov 2026 11:00:00 GMT", 0),
        ("Thu, 05 Nov 2099 11:00:00 GMT", 3600),
        ("Thu, 99 Nov 2026 11:00:00 GMT", None),
        ("tomorrow", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date_and_capped(value, seconds):
    assert retry_after_seconds(value, NOW) == seconds


def test_excerpt_holds_no_credentials_and_no_control_characters_and_is_short():
    token = AUTH.headers["Authorization"].removeprefix("Basic ")
    text = excerpt(f"a\x1b[31m\nuser canary&1 é {token} " + "x" * 1000, Secrets(AUTH.secrets))
    assert "canary" not in text
    assert token not in text
    assert "\x1b" not in text
    assert "\n" not in text
    assert len(text) == 300


@pytest.mark.parametrize(
    ("url", "type_", "text"),
    [
        ("http://127.0.0.1:9/path?key=canary", RetriableError, "does not accept connections"),
        ("http://name.invalid/path?key=canary", RetriableError, "name service"),
    ],
)
def test_an_unreachable_server_raises_the_matching_error(url, type_, text):
    with pytest.raises(type_, match=text) as caught:
        request(url, {"secret": "canary"}, AUTH, LIMITS)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
