"""Made-up answers of the page's server, the same at every call: what tests and pictures of the docs show."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

TODAY = dt.date(2026, 11, 22)
FIRST_DAY = "2016-11-01"
NOW = "2026-11-22T09:30:00+00:00"
FAILED_RUN = {
    "run_id": "scheduled__2026-11-20T08:00:00+00:00",
    "first_day": "2026-11-20",
    "last_day": "2026-11-20",
    "task_url": "/dags/orders_daily/runs/scheduled__2026-11-20/tasks/orders",
}
HOSTILE = '<img src=x onerror="window.hacked=1">'


def stream(dag_id: str, task_id: str = "events", **changes: Any) -> dict[str, Any]:
    """Return a stream that is well."""
    answer = {
        "id": f"{dag_id}/{task_id}",
        "dag_id": dag_id,
        "task_id": task_id,
        "map_index": -1,
        "source": "mixpanel",
        "stream": "mixpanel_default.export",
        "kind": "day",
        "sink": "delta",
        "target": "s3://lake/mixpanel/events",
        "timezone": "US/Pacific",
        "last_day": "2026-11-21",
        "position": "2026-11-21",
        "lag_days": 0,
        "state": "ok",
        "state_text": "Every day up to 2026-11-21 is done",
        "reported_at": "2026-11-22T09:02:11+00:00",
        "rows_last_day": 1_284_310,
        "rejected_last_day": 0,
        "can_edit": True,
        "stream_label": "mixpanel_default.export",
        "days_behind": 0,
        "resumes_at": None,
        "dag_url": f"/dags/{dag_id}",
        "task_url": f"/dags/{dag_id}/tasks/{task_id}",
        "log_url": f"/dags/{dag_id}/runs/newest/tasks/{task_id}",
        "failed_runs": [],
    }
    return answer | changes


def streams() -> list[dict[str, Any]]:
    """Return three: one is well, one has failed, one waits."""
    return [
        stream("mixpanel_daily"),
        stream(
            "orders_daily",
            "orders",
            source="sql",
            stream="shop.public.orders",
            stream_label="shop.public.orders",
            days_behind=2,
            failed_runs=[FAILED_RUN],
            sink="bigquery",
            target="analytics.shop.orders",
            timezone="UTC",
            last_day="2026-11-19",
            position="2026-11-12",
            lag_days=2,
            state="failed",
            state_text="Failed: 2026-11-20: the source answered with 412 rows, and 9,310 are published.",
            rows_last_day=9_310,
        ),
        stream(
            "posts_daily",
            "posts",
            source="x_search",
            stream="x_default.brand.3fa98c01",
            stream_label="x_default.brand",
            days_behind=1,
            resumes_at="2026-11-22T09:45:00+00:00",
            sink="kafka",
            target="social.posts",
            timezone="UTC",
            last_day="2026-11-20",
            position="2026-11-20",
            lag_days=1,
            state="waiting",
            state_text="Waiting until 2026-11-22 09:45 UTC (ready_after): 2026-11-21",
            rows_last_day=48_201,
            rejected_last_day=3,
        ),
    ]


def many(count: int) -> list[dict[str, Any]]:
    """Return so many streams."""
    return [stream(f"dag_{number:02d}", rows_last_day=1000 * number, days_behind=number % 7) for number in range(count)]


def days(first: dt.date, last: dt.date, state: str) -> list[dict[str, Any]]:
    """Return each day of a window: loaded, but for a few."""
    return [_day(first + dt.timedelta(days=number), state) for number in range((last - first).days + 1)]


def _day(day: dt.date, state: str) -> dict[str, Any]:
    odd = {
        ("failed", "2026-11-20"): "failed",
        ("failed", "2026-11-21"): "none",
        ("failed", "2026-11-13"): "gap",
        ("failed", "2026-11-14"): "gap",
        ("waiting", "2026-11-21"): "waiting",
        ("ok", "2026-11-22"): "running",
    }
    day_state = odd.get((state, str(day)), "done" if day < TODAY else "none")
    # A week has two quiet days, a year a slow wave, and no two days the same.
    wave = 1 + 0.25 * math.sin(day.toordinal() / 58) + (day.toordinal() * 7919 % 97) / 970
    rows = int((620_000 if day.weekday() > 4 else 1_150_000) * wave) if day_state == "done" else None
    if str(day) == "2026-08-11" and rows:
        rows //= 3
    is_reloaded = str(day) in ("2026-11-03", "2026-11-04", "2026-11-05", "2026-07-19")
    return {
        "day": str(day),
        "state": day_state,
        "generation": None if rows is None else (2 if is_reloaded else 1),
        "rows": rows,
        "bytes": None if rows is None else rows * 213,
        "rejected": None if rows is None else (14 if str(day) == "2026-10-30" else 0),
        "reloaded": is_reloaded,
        "run_id": f"scheduled__{day}T08:00:00+00:00",
        "run_url": f"/dags/mixpanel_daily/runs/scheduled__{day}",
        "link": None,
        "reported_at": f"{day}T09:02:11+00:00",
        "warnings": [],
    }


def band(days: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was to be expected of each day but the first four weeks."""
    rows_by_day = {day["day"]: day["rows"] for day in days}
    bands = []
    for day in days[28:]:
        date = dt.date.fromisoformat(day["day"])
        earlier_rows = [rows_by_day.get(str(date - dt.timedelta(weeks=number))) for number in range(1, 5)]
        rows = [count for count in earlier_rows if count]
        if rows:
            bands.append({"day": day["day"], "low": int(min(rows) * 0.85), "high": int(max(rows) * 1.15)})
    return bands


def detail(stream: dict[str, Any], first: dt.date, last: dt.date) -> dict[str, Any]:
    """Return a stream with its days."""
    window_days = days(first, last, stream["state"])
    quota = {
        "name": "mixpanel project 3141592",
        "conn_id": "mixpanel_default",
        "used": 41,
        "limit": 60,
        "period_seconds": 3600,
        "waiting": 2,
        "resets_at": "2026-11-22T09:45:00+00:00",
    }
    backfill = {
        "id": 7,
        "from": "2026-01-01",
        "to": "2026-06-30",
        "done": 120,
        "total": 181,
        "estimated_end": "2026-11-22T13:10:00+00:00",
        "url": "/dags/mixpanel_daily/backfills",
    }
    return {
        "as_of": NOW,
        "stream": stream,
        "origin": "2016-11-20",
        "first_day": FIRST_DAY,
        "from": str(first),
        "to": str(last),
        "days": window_days,
        "band": band(window_days),
        "quota": quota,
        "backfill": backfill if stream["state"] == "ok" else None,
        "missing": [gap("2026-11-13", "2026-11-14")] if stream["state"] == "failed" else [],
    }


def gap(first: str, last: str) -> dict[str, Any]:
    """Return a range of missing days."""
    return {"from": first, "to": last, "days": _day_count(first, last)}


def preview(first: str, last: str, **changes: Any) -> dict[str, Any]:
    """Return the cost of a backfill: a run and a request for each day, and six minutes a run."""
    runs = _day_count(first, last)
    answer = {
        "as_of": NOW,
        "command": f"airflow backfill create --dag-id orders_daily --from-date {first} --to-date {last}",
        "first_day": "2026-11-01",
        "runs": runs,
        "requests": runs,
        "seconds": runs * 360,
        "max_active_runs": 1,
        "before_start": sum(
            dt.date.fromisoformat(first) + dt.timedelta(days=number) < dt.date(2026, 11, 1) for number in range(runs)
        ),
        "text": f"{runs} runs, about {runs} requests, about {runs * 6} min (at the pace of the last runs)",
        "notes": ["The DAG is paused. Its runs begin when you unpause it"],
        "problem": None,
    }
    return answer | changes


def _day_count(first: str, last: str) -> int:
    return (dt.date.fromisoformat(last) - dt.date.fromisoformat(first)).days + 1


def one_day(stream: dict[str, Any], day: dt.date) -> dict[str, Any]:
    """Return a day with what each run has told of it."""
    sample_day = _day(day, stream["state"])
    entry = {
        "generation": 1,
        "status": "published",
        "run_id": sample_day["run_id"],
        "run_url": sample_day["run_url"],
        "task_url": f"{sample_day['run_url']}/tasks/{stream['task_id']}",
        "rows": sample_day["rows"],
        "bytes": sample_day["bytes"],
        "rejected": sample_day["rejected"],
        "published_at": sample_day["reported_at"],
        "link": "https://lake.example.com/history/41",
        "warnings": [],
        "rejects": [],
    }
    if sample_day["state"] == "failed":
        entry |= {"generation": None, "status": "failed", "published_at": None, "link": None}
        entry["warnings"] = ["DataError: the source answered with 412 rows, and 9,310 are published"]
    entries = [entry | {"generation": 2}, entry] if sample_day["reloaded"] else [entry]
    if sample_day["rejected"]:
        entry["rejects"] = ["_connect/attempts/a1/rejects-00000-9c1e.parquet"]
    return {"as_of": NOW, "day": sample_day, "generations": entries if sample_day["state"] != "none" else []}
