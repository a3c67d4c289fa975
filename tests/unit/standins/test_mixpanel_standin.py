from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.equipment.waiting import wait_until
from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

DATE = dt.date(2026, 10, 5)
PROJECT = Project(seed=3, events_per_day=60, duplicates_per_day=4)
ACCOUNT = Account(project_id=77, username="svc", secret='p"%{{\n:ü', project_secret="older")
NOON = dt.datetime(2026, 10, 9, 3, tzinfo=dt.UTC)  # still the 8th in Los Angeles


def start(project: Project = PROJECT, **options: Any) -> StandIn:
    return StandIn(project, **{"account": ACCOUNT, "now": lambda: NOON} | options)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        made.trust_env = False
        yield made


def ask(standin: StandIn, session: requests.Session, **changes: Any) -> requests.Response:
    """Ask for one day with the right credentials; a parameter given as None is left out."""
    headers = changes.pop("headers", {})
    auth = changes.pop("auth", (ACCOUNT.username.encode(), ACCOUNT.secret.encode()))
    params = {"from_date": str(DATE), "to_date": str(DATE), "project_id": "77"} | changes
    url = standin.url + "/api/2.0/export"
    return session.get(url, params=params, auth=auth, headers=headers, timeout=10)


def test_serves_the_days_asked_for_with_both_ends(session: requests.Session) -> None:
    with start() as standin:
        answer = ask(standin, session, to_date="2026-10-07")
    expected = b"".join(line for day in range(3) for line in PROJECT.lines(DATE + dt.timedelta(days=day)))
    assert answer.status_code == 200
    assert answer.content == expected
    assert answer.headers["Server"].startswith("mixpanel-standin/")
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Transfer-Encoding"] == "chunked"


def test_frames_by_length_on_request(session: requests.Session) -> None:
    with start(framing="length") as standin:
        answer = ask(standin, session, headers={"Accept-Encoding": "identity"})
    assert int(answer.headers["Content-Length"]) == len(answer.content)
    assert "Content-Encoding" not in answer.headers
    assert answer.content == b"".join(PROJECT.lines(DATE))


def test_compresses_only_above_1400_bytes_and_what_the_client_takes(session: requests.Session) -> None:
    with start(replace(PROJECT, events_per_day=1, duplicates_per_day=0)) as standin:
        assert "Content-Encoding" not in ask(standin, session).headers
    with start() as standin:
        for accepted, coding in (("gzip;q=0", None), ("br", None), ("br, gzip;q=0.5", "gzip"), ("*", "gzip")):
            answer = ask(standin, session, headers={"Accept-Encoding": accepted})
            assert answer.headers.get("Content-Encoding") == coding, accepted


def test_an_empty_day_is_a_200_without_a_byte(session: requests.Session) -> None:
    with start(replace(PROJECT, empty_dates=frozenset({DATE}))) as standin:
        answer = ask(standin, session)
    assert (answer.status_code, answer.content) == (200, b"")


def test_filters_by_event_where_and_limit(session: requests.Session) -> None:
    rows = [json.loads(line) for line in PROJECT.lines(DATE)]
    with start() as standin:

        def got(**changes: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in ask(standin, session, **changes).content.splitlines() if line]

        session.headers["Accept-Encoding"] = "identity"
        lines = ask(standin, session, event='["Page View","Session Start"]').content.split(b"\n")[:-1]
        assert [json.loads(line) for line in lines] == [
            row for row in rows if row["event"] in ("Page View", "Session Start")
        ]
        for where, wanted in (
            ('properties["plan"] == "free"', lambda p: p["plan"] == "free"),
            ('properties["plan"] != "free"', lambda p: p["plan"] != "free"),
            ('properties["$screen_width"]>=1920', lambda p: p["$screen_width"] >= 1920),
        ):
            lines = ask(standin, session, where=where).content.split(b"\n")[:-1]
            expected = [row for row in rows if wanted(row["properties"])]
            assert [json.loads(line) for line in lines] == expected, where
            assert 0 < len(expected) < len(rows)
        assert ask(standin, session, limit="7").content == b"".join(list(PROJECT.lines(DATE))[:7])
        assert ask(standin, session, time_in_ms="true").content == b"".join(PROJECT.lines(DATE, "ms"))


@pytest.mark.parametrize(
    "changes",
    [
        {"from_date": None},
        {"to_date": "20261005"},
        {"from_date": "2026-02-30"},
        {"from_date": "2026-10-06"},
        {"event": "Page View"},
        {"event": "[1]"},
        {"where": "datetime(1) > 2"},
        {"where": 'properties["plan"] > "free"'},
        {"limit": "0"},
        {"limit": "100001"},
        {"time_in_ms": "yes"},
        {"project_id": None},
    ],
)
def test_refuses_a_bad_query_with_400(session: requests.Session, changes: dict[str, Any]) -> None:
    with start() as standin:
        answer = ask(standin, session, **changes)
    assert answer.status_code == 400
    assert answer.json().keys() == {"request", "error"}


def test_today_is_the_projects_own(session: requests.Session) -> None:
    with start(replace(PROJECT, timezone="America/Los_Angeles")) as standin:
        assert ask(standin, session, to_date="2026-10-08").status_code == 200
        answer = ask(standin, session, to_date="2026-10-09")
    assert (answer.status_code, answer.text) == (400, "to_date cannot be later than today")
    with start() as standin:
        assert ask(standin, session, to_date="2026-10-09").status_code == 200


def test_takes_every_documented_form_of_credentials(session: requests.Session) -> None:
    pair = f"{ACCOUNT.username}:{ACCOUNT.secret}"
    with start() as standin:
        assert ask(standin, session).status_code == 200
        assert ask(standin, session, auth=(ACCOUNT.username, ACCOUNT.secret)).status_code == 200  # sent as Latin-1
        assert ask(standin, session, auth=("older", ""), project_id=None).status_code == 200
        header = "Basic " + base64.b64encode(pair.encode()).decode()
        assert ask(standin, session, auth=None, headers={"Authorization": header}).status_code == 200
    with start(account=replace(ACCOUNT, secret="plain")) as standin:
        assert ask(standin, session, auth=None, headers={"Authorization": "Basic svc:plain"}).status_code == 200


@pytest.mark.parametrize("auth", [None, ("svc", "wrong"), ("older", "x"), ("", ""), ("wrong", "")])
def test_refuses_wrong_credentials_with_401(session: requests.Session, auth: Any) -> None:
    with start() as standin:
        answer = ask(standin, session, auth=auth)
    assert answer.status_code == 401
    assert answer.json()["error"] == "Unable to authenticate request"


@pytest.mark.parametrize(("access", "status"), [("no_plan", 402), ("no_role", 403), ("other_region", 401)])
def test_refuses_by_plan_role_and_region(session: requests.Session, access: Any, status: int) -> None:
    with start(account=replace(ACCOUNT, access=access)) as standin:
        assert ask(standin, session).status_code == status
        assert ask(standin, session, auth=("svc", "wrong")).status_code == 401


def test_another_project_is_403_and_another_path_404(session: requests.Session) -> None:
    with start() as standin:
        assert ask(standin, session, project_id="78").status_code == 403
        assert session.get(standin.url + "/api/2.0/engage", timeout=10).status_code == 404


def test_limits_the_hour_with_live_counters(session: requests.Session) -> None:
    limits = Limits(queries_per_hour=2, hour_seconds=0.4, retry_after="seconds")
    with start(limits=limits) as standin:
        assert [ask(standin, session).status_code for _ in range(2)] == [200, 200]
        refused = ask(standin, session)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert refused.json()["error"] == (
            "Query rate limit exceeded for project_id: 77. "
            "1/100 queries running concurrently and 3/2 queries running in the last hour"
        )
        time.sleep(0.45)
        assert ask(standin, session).status_code == 200


def test_limits_the_second(session: requests.Session) -> None:
    with start(limits=Limits(queries_per_second=3)) as standin:
        statuses = [ask(standin, session).status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]


@pytest.mark.parametrize("said", [None, "soon", "-5", "http-date"])
def test_says_retry_after_as_told(session: requests.Session, said: str | None) -> None:
    with start(limits=Limits(queries_per_hour=0, retry_after=said, form="text")) as standin:
        answer = ask(standin, session)
    assert answer.text.startswith("Query rate limit exceeded for project_id: 77. 1/100 ")
    header = answer.headers.get("Retry-After")
    if said == "http-date":
        assert header is not None
        assert 3500 < (parsedate_to_datetime(header) - dt.datetime.now(dt.UTC)).total_seconds() < 3700
    else:
        assert header == said


def test_limits_what_runs_at_once(session: requests.Session) -> None:
    faults = [Fault("slow", times=2, size_bytes=2000, seconds=0.05)]
    with start(limits=Limits(concurrent=2), faults=faults) as standin:
        both = [threading.Thread(target=_ask_alone, args=(standin,)) for _ in range(2)]
        for thread in both:
            thread.start()
        wait_until(lambda: standin.stats["running"] == 2)
        refused = ask(standin, session)
        for thread in both:
            thread.join()
        assert refused.status_code == 429
        assert "3/2 queries running concurrently" in refused.json()["error"]
        assert standin.stats["concurrent_peak"] == 2
        wait_until(lambda: standin.stats["running"] == 0)  # an answer is there before its place is free
        assert ask(standin, session).status_code == 200
        wait_until(lambda: standin.stats["running"] == 0)


def _ask_alone(standin: StandIn) -> None:
    with requests.Session() as session:
        session.trust_env = False
        ask(standin, session)


def test_counts_requests_and_keeps_no_credentials(session: requests.Session) -> None:
    with start() as standin:
        answer = ask(standin, session, headers={"Accept-Encoding": "identity"})
        ask(standin, session, auth=("canary", "canary"))
        ask(standin, session, from_date="canary")
        stats = session.get(standin.url + "/_standin/stats", timeout=10).json()
    assert stats["requests"] == {"2026-10-05": {"200": 1, "401": 1}, "unreadable": {"400": 1}}
    assert stats["bytes"] > len(answer.content)
    assert "canary" not in json.dumps(stats)


def test_control_takes_faults_and_tells_the_truth(session: requests.Session) -> None:
    control = None
    with start() as standin:
        control = standin.url + "/_standin/"
        faults = [{"kind": "status", "date": str(DATE), "status": 502, "times": 2}]
        assert session.post(control + "faults", json=faults, timeout=10).status_code == 200
        assert ask(standin, session).status_code == 502
        assert len(session.get(control + "faults", timeout=10).json()) == 1
        assert session.post(control + "faults", json=[{"kind": "typo"}], timeout=10).status_code == 400
        assert session.post(control + "faults", json=[], timeout=10).status_code == 200
        assert ask(standin, session).status_code == 200
        truth = session.get(control + "truth", params={"date": str(DATE)}, timeout=10).json()
        assert truth == {"lines": 64, "rows": 60, "duplicates": 4, "missing_ids": 0, "late": 0}
        assert session.get(control + "truth", timeout=10).status_code == 400


def test_another_project_can_be_put_in_its_place(session: requests.Session) -> None:
    with start() as standin:
        ask(standin, session)
        standin.project = replace(PROJECT, late_per_day=5)
        assert ask(standin, session).content == b"".join(standin.project.lines(DATE))


def test_a_cached_day_is_found_again_and_a_changed_project_is_not(tmp_path: Path, session: requests.Session) -> None:
    for _ in range(2):
        with start(cache=tmp_path) as standin:
            assert ask(standin, session).content == b"".join(PROJECT.lines(DATE))
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(gzip.compress(b'{"from":"the cache"}\n' * 99))
    with start(cache=tmp_path) as standin:
        assert ask(standin, session).content.startswith(b'{"from":"the cache"}')
    with start(replace(PROJECT, seed=4), cache=tmp_path) as standin:
        assert b"the cache" not in ask(standin, session).content


def launch(tmp_path: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> tuple[subprocess.Popen[str], Path]:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "tests.standins.mixpanel"]
    process = subprocess.Popen(
        [*prefix, *command, "--port-file", str(port_file), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "STANDIN_SECRET": "from the environment"},
    )
    return process, port_file


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_and_ends_cleanly(tmp_path: Path, session: requests.Session, number: signal.Signals) -> None:
    process, port_file = launch(
        tmp_path, "--events-per-day", "20", "--username", "svc", "--project-id", "77", "--secret-env",
        "STANDIN_SECRET", "--now", "2026-10-09T12:00:00Z", "--cache", str(tmp_path / "cache"), "--prepare", str(DATE),
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+$", line.strip())
        assert "mixpanel-standin" in line
        assert url.endswith(":" + port_file.read_text().strip())
        params = {"from_date": str(DATE), "to_date": str(DATE), "project_id": "77"}
        answer = session.get(url + "/api/2.0/export", params=params, auth=("svc", "from the environment"), timeout=10)
        process.send_signal(number)
        assert process.wait(timeout=10) == 0
        assert process.stdout.read() == ""
    assert answer.content == b"".join(Project(events_per_day=20).lines(DATE))


@pytest.mark.parametrize("extra", [(), ("1",)])
def test_the_command_leaves_with_its_parent(tmp_path: Path, extra: tuple[str, ...]) -> None:
    """Its parent is killed, or (a stranger's id) was gone before it looked."""
    code = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); sys.stdin.read()"
    parent, port_file = launch(tmp_path, "--exit-with-parent", *extra, prefix=(sys.executable, "-c", code))
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(port_file.exists)
        if not extra:
            parent.kill()
        try:
            wait_until(lambda: not _runs(child), seconds=10)
        finally:
            parent.kill()
            if _runs(child):
                os.kill(child, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
