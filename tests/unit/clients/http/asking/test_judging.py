"""What an answer means: declared rules first, then the defaults; and how long it says to wait."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_connect.clients.http.asking.call import Reply
from airflow_provider_connect.clients.http.asking.judging import judge, wait_seconds
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, Moment

NOW = dt.datetime(2026, 11, 5, 12, 0, tzinfo=dt.UTC)
EPOCH = int(NOW.timestamp())


def seen(status: int = 200, body: Any = None, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, named, body if isinstance(body, bytes) else json.dumps(body).encode())


def then(answer: Reply, *rules: dict[str, Any]) -> str:
    return judge(answer, [ErrorRule(**rule) for rule in rules], NOW).action


@pytest.mark.parametrize(
    ("status", "expected"),
    [(200, "rows"), (201, "rows"), (206, "rows"), (204, "empty"), (429, "retry"), (500, "retry"), (599, "retry"),
     (400, "refuse"), (401, "refuse"), (404, "refuse"), (499, "refuse")],
)  # fmt: skip
def test_statuses_without_a_rule_get_the_default_verdict(status: int, expected: str) -> None:
    assert then(seen(status)) == expected


def test_the_first_rule_that_fits_counts() -> None:
    rules = ({"status": 404, "text": "Gone", "then": "empty"}, {"status": [404, "5xx"], "then": "ignore"})
    assert then(seen(404, "long gone"), *rules) == "empty"
    assert then(seen(404, "no"), *rules) == "ignore"
    assert then(seen(503), *rules) == "ignore"
    assert then(seen(410), *rules) == "refuse"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
@pytest.mark.parametrize("action", ["refuse", "ignore", "empty", "rows"])
def test_a_body_alone_takes_no_failing_service_for_an_answer(status: int, action: str) -> None:
    rule = {"at": "error", "then": action}
    body = {"error": "busy"}
    assert then(seen(status, body), rule) == "retry"
    assert then(seen(status, body), rule | {"status": status}) == action
    assert then(seen(200, body), rule) == action
    assert then(seen(404, body), rule) == action
    assert then(seen(status, body), rule | {"then": "wait"}) == "wait"


def test_a_rate_limit_that_comes_as_a_403_is_told_by_its_header() -> None:
    """GitHub's."""
    rule = {
        "status": 403,
        "header": "X-RateLimit-Remaining",
        "header_value": "0",
        "then": "wait",
        "until": {"header": "X-RateLimit-Reset"},
    }
    message = judge(seen(403, x_ratelimit_remaining="0", x_ratelimit_reset=str(EPOCH + 90)), [ErrorRule(**rule)], NOW)
    assert message[:2] == ("wait", 90)
    assert then(seen(403, x_ratelimit_remaining="7"), rule) == "refuse"
    assert then(seen(403), rule) == "refuse"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"ok": False, "error": "x"}, "refuse"),
        ({"ok": True}, "rows"),
        ({"ok": 0}, "rows"),  # 0 is not false
        ({"ok": "false"}, "rows"),
        ([], "rows"),
        (b"no json", "rows"),
        (b'{"ok": false, "error": "half of a pair: \\ud800"}', "refuse"),
    ],
)
def test_h8_an_error_document_with_status_200_is_told_by_its_declared_shape(body: Any, expected: str) -> None:
    """Slack's."""
    assert then(seen(200, body), {"at": "ok", "values": False, "then": "refuse"}) == expected


@pytest.mark.parametrize("pad", [0, 50_000], ids=["small", "large"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [("quota", "wait"), (None, "rows"), ("", "rows"), ([], "rows"), ({}, "rows"), (False, "rows"), ({"a": 1}, "wait")],
)
def test_something_at_a_place_is_neither_null_false_nor_empty(pad: int, error: Any, expected: str) -> None:
    body = {"rows": ["x" * pad], "meta": {"errors": [0, {"what": error}]}}
    assert then(seen(200, body), {"at": "/meta/errors/1/what", "then": "wait"}) == expected
    assert then(seen(200, body), {"at": "/meta/errors/2", "then": "wait"}) == "rows"
    assert then(seen(200, body), {"at": "/rows/what", "then": "wait"}) == "rows"


def test_half_of_a_pair_in_a_large_page_hides_no_error() -> None:
    body = b'{"rows": ["%b\\ud800"], "error": "quota"}' % (b"x" * 50_000)
    assert then(seen(200, body), {"at": "error", "values": "quota", "then": "wait"}) == "wait"


def test_numbers_at_a_place_are_compared_as_json_has_them() -> None:
    rule = {"at": "/errors/0/code", "values": [88, "89"], "then": "wait"}
    assert then(seen(400, {"errors": [{"code": 88}]}), rule) == "wait"
    assert then(seen(400, {"errors": [{"code": 88.0}]}), rule) == "wait"
    assert then(seen(400, {"errors": [{"code": "88"}]}), rule) == "refuse"
    assert then(seen(400, {"errors": [{"code": True}]}), rule | {"values": [1]}) == "refuse"


def test_a_text_alone_is_not_looked_for_among_rows() -> None:
    rule = {"text": "Rate Limit", "then": "wait"}
    assert then(seen(400, "rate limit"), rule) == "wait"
    assert then(seen(200, ["my talk about rate limits"]), rule) == "rows"
    assert then(seen(200, "rate limit"), rule | {"status": 200}) == "wait"


def test_only_the_error_in_a_page_is_quoted_not_its_rows() -> None:
    rule = ErrorRule(at="error", then="refuse", why="ask the vendor")
    message = judge(seen(200, {"error": {"code": 7}, "rows": ["private"]}), [rule], NOW)
    assert (message.server_text, message.reason) == ('{"code": 7}', "ask the vendor")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"then": "retry"}, "set at least one of status"),
        ({"status": 403, "values": [1], "then": "retry"}, "values requires at"),
        ({"status": 403, "header_value": "0", "then": "retry"}, "header_value requires header"),
        ({"status": 4030, "then": "retry"}, "set statuses such as 403 or '5xx'"),
        ({"status": "4x", "then": "retry"}, "set statuses such as 403 or '5xx'"),
        ({"status": 403, "until": {"header": "a"}, "then": "refuse"}, "until requires"),
        ({"status": 403, "until": {}, "then": "wait"}, "set either header or at"),
        ({"status": 403, "until": {"header": "a", "at": "b"}, "then": "wait"}, "set either header or at"),
        ({"status": 403, "then": "panic"}, "'retry', 'wait', 'refuse', 'ignore', 'empty', 'rows' or 'login'"),
        ({"at": "/a~2", "then": "retry"}, "in a JSON Pointer"),
        ({"stat": 403, "status": 403, "then": "retry"}, "Extra inputs are not permitted"),
    ],
)
def test_contradictory_rules_are_refused(rule: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        ErrorRule(**rule)


@pytest.mark.parametrize(
    ("value", "form", "seconds"),
    [
        ("90", "auto", 90),
        ("1.5", "auto", 1.5),
        (str(EPOCH + 90), "auto", 90),
        (str((EPOCH + 90) * 1000), "auto", 90),
        ("2026-11-05T12:01:30Z", "auto", 90),
        ("2026-11-05T13:01:30+01:00", "date", 90),
        ("Thu, 05 Nov 2026 12:01:30 GMT", "date", 90),
        (str(EPOCH + 90), "epoch_s", 90),
        (str((EPOCH + 90) * 1000), "epoch_ms", 90),
        (str(EPOCH - 90), "auto", 0),
        ("-3", "auto", 0),
        ("0", "auto", 0),
        (str(EPOCH + 10**6), "auto", 3600),
        ("9" * 20, "auto", 3600),
        ("2999-01-01T00:00:00Z", "auto", 3600),
        ("9" * 400, "auto", None),
        ("soon", "auto", None),
        ("", "auto", None),
        ("nan", "auto", None),
        ("90", "date", None),
        ("2026-11-05T12:01:30Z", "seconds", None),
        ("٣", "auto", None),
    ],
)
def test_a_moment_is_read_in_each_format(value: str, form: Any, seconds: float | None) -> None:
    assert wait_seconds(Moment(header="X-Reset", format=form), seen(429, x_reset=value), NOW) == seconds
    assert wait_seconds(Moment(at="/a/reset", format=form), seen(429, {"a": {"reset": value}}), NOW) == seconds


def test_a_moment_is_counted_from_the_clock_of_who_says_it() -> None:
    """Ours may be wrong by minutes, and so would be each wait."""
    late = seen(429, x_reset=str(EPOCH + 690), date="Thu, 05 Nov 2026 12:10:00 GMT")
    assert wait_seconds(Moment(header="x-reset"), late, NOW) == 90
    dated = seen(429, retry_after="Thu, 05 Nov 2026 12:11:30 GMT", date="Thu, 05 Nov 2026 12:10:00 GMT")
    assert judge(dated, [], NOW).wait_seconds == 90


@pytest.mark.parametrize("value", [None, True, [], {}])
def test_a_body_without_a_readable_moment_gives_no_wait(value: Any) -> None:
    assert wait_seconds(Moment(at="reset"), seen(429, {"reset": value}), NOW) is None
