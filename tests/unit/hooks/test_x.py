from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks.x import XHook
from tests.standins.x.access import App, Limits
from tests.standins.x.server import StandIn


@pytest.fixture
def x(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with StandIn(limits=Limits(monthly_posts=2000)) as standin:
        connection = {"conn_type": "x", "host": standin.url, "password": standin.app.token}
        monkeypatch.setenv("AIRFLOW_CONN_X_DEFAULT", json.dumps(connection))
        yield standin


def test_the_test_button_says_how_much_of_the_month_is_used_up_and_reads_no_post(x: StandIn) -> None:
    x.gate.read(1234)
    assert XHook().test_connection() == (True, "X accepts the token. 1,234 of 2,000 posts of this month are used up")
    assert x.requests_taken == []


def test_a_token_that_x_does_not_know_is_told_without_it(x: StandIn) -> None:
    old, x.app = x.app, App(token="another one")
    is_good, text = XHook().test_connection()
    assert not is_good
    assert "bearer token" in text
    assert old.token not in text


def test_a_connection_that_is_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_X_DEFAULT", json.dumps({"conn_type": "x", "host": "http://x.example"}))
    with pytest.raises(ConfigError, match=r"password is empty.*must be reached by https"):
        XHook().get_conn()
    assert not XHook().test_connection()[0]
