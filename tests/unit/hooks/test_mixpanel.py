from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import source as hook_module
from airflow_provider_connect.hooks.mixpanel import MixpanelHook
from tests.equipment.mixpanel_answers import EVENT, Mixpanel, mixpanel
from tests.equipment.quota import Keys

__all__ = ["mixpanel"]


def test_one_small_request_is_made(mixpanel: Mixpanel) -> None:
    assert MixpanelHook().test_connection()[0]
    ((path, authorization),) = mixpanel.asked
    assert "limit=1" in path
    assert "project_id=7" in path
    assert authorization.startswith("Basic ")


@pytest.mark.parametrize("body", [b"", EVENT, EVENT[:-1], b'{"event":"' + b"x" * 40_000], ids=len)
def test_an_export_is_one(mixpanel: Mixpanel, body: bytes) -> None:
    mixpanel.body = body
    assert MixpanelHook().test_connection() == (True, MixpanelHook().test_connection()[1])


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error":"no"}', "credentials or the region are wrong"),
        (402, b"", "plan"),
        (403, b"hush-hush", "role"),
        (200, b'{"error":"Unable to authenticate request"}', "credentials"),
        (200, b"<html>login</html>\n", "the server failed"),
        (200, b"[1]\n", "the server failed"),
        (503, b"", "the server failed"),
    ],
)
def test_anything_else_is_named_without_the_secret(mixpanel: Mixpanel, status: int, body: bytes, told: str) -> None:
    mixpanel.status, mixpanel.body = status, body
    passed, message = MixpanelHook().test_connection()
    assert not passed
    assert told in message
    assert "hush-hush" not in message


def test_missing_and_incomplete_connections_are_told_without_a_request(
    mixpanel: Mixpanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no connection 'nowhere'" in MixpanelHook("nowhere").test_connection()[1]
    monkeypatch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", json.dumps({"conn_type": "mixpanel", "login": "me"}))
    passed, message = MixpanelHook().test_connection()
    assert not passed
    assert "password" in message
    assert "project_id" in message
    assert mixpanel.asked == []


def test_the_form_shows_a_line_for_all_that_was_looked_at(mixpanel: Mixpanel) -> None:
    passed, message = MixpanelHook().test_connection()
    assert passed
    first, *rows, last = message.splitlines()
    assert first.endswith("stream export, works.")
    assert {row.partition(":")[0].partition(" ")[2] for row in rows} == {
        "credentials",
        "region",
        "project id",
        "role",
        "plan",
        "clock",
        "time zone and timestamps",
        "quota",
    }
    assert last == "Requests sent: 1 of the export."
    assert all(row.endswith(".") for row in rows), "readable, too, where a form joins the lines"


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (
            lambda hook: hook.check("annotations"),
            'airflow connect check --source mixpanel --options \'{"conn_id": "mine"',
        ),
        (lambda hook: hook.propose_promote("engage"), "airflow connect propose mixpanel --conn-id mine"),
    ],
)
def test_what_is_removed_names_the_command_that_replaces_it(call: Any, command: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(command)):
        call(MixpanelHook("mine"))


@pytest.mark.parametrize("name", ["sql", "rest", "propose"])
def test_a_removed_command_line_names_the_one_that_replaces_it(name: str) -> None:
    command = [sys.executable, "-m", f"airflow_provider_connect.hooks.{name}", "check", "{}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "airflow connect " in ended.stderr


def test_the_request_is_counted_with_those_of_the_tasks(mixpanel: Mixpanel, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys()
    monkeypatch.setattr(hook_module, "VariableStore", lambda: keys)
    assert "OK quota: 59 of 60 requests an hour are left" in MixpanelHook().test_connection()[1]
    assert "OK quota: 58 of 60 requests an hour are left" in MixpanelHook().test_connection()[1]
    assert all(key.startswith("connect_quota/mixpanel.export.7.") for key in keys.all)
