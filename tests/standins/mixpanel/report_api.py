"""The stand-in's endpoints for reports, each a function of the stand-in, the parameters and a fault."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.query import RefusedError
from tests.standins.mixpanel.reports import Reports, count_events, count_events_by_hour
from tests.standins.mixpanel.templates import EVENT_NAMES

ANNOTATIONS_PATH = "/api/app/projects/{project_id}/annotations"


class Reported(Protocol):
    """Data of the reports."""

    reports: Reports

    @property
    def project(self) -> Project:
        """Project with the counted events."""

    @property
    def today(self) -> dt.date:
        """Last date that a request may name."""


Report = Callable[[Reported, Mapping[str, str], Fault | None], Any]
"""Makes the document that answers parameters."""

_TYPES = ("general", "unique", "average")
_MOST_DAYS = 90


def _funnels(standin: Reported, _: Mapping[str, str], __: Fault | None) -> Any:
    return [{"funnel_id": funnel.id, "name": funnel.name} for funnel in standin.reports.funnels]


def _funnel(standin: Reported, params: Mapping[str, str], fault: Fault | None) -> Any:
    funnels = {funnel.id: funnel for funnel in standin.reports.funnels}
    funnel = funnels.get(_number(params, "funnel_id"))
    if funnel is None:
        raise RefusedError(400, "funnel_id does not exist")
    _require_one_span(params)
    data = {}
    for date in _dates(params, standin.today, fault):
        steps = standin.reports.steps(funnel, date, standin.today)
        analysis = {
            "completion": steps[-1]["count"],
            "starting_amount": steps[0]["count"],
            "steps": len(steps),
            "worst": 1,
        }
        data[str(date)] = {"steps": steps, "analysis": analysis}
    return {"meta": {"dates": list(data)}, "data": data}


def _retention(standin: Reported, params: Mapping[str, str], fault: Fault | None) -> Any:
    if params.get("retention_type", "birth") == "birth" and "born_event" not in params:
        raise RefusedError(400, "born_event is required when retention_type is birth")
    _require_one_span(params)
    days, count = _number(params, "interval", 1), _number(params, "interval_count", 1)
    if params.get("unit", "day") != "day":
        raise RefusedError(400, "unit is not one that this server understands")
    today = standin.today
    return {str(date): standin.reports.retention(date, today, days, count) for date in _dates(params, today, fault)}


def _require_one_span(params: Mapping[str, str]) -> None:
    """Refuse a request that names its interval twice, or one that is too long.

    The specification allows both parameters. The real API answers both mistakes with 500:
    https://github.com/PipedreamHQ/pipedream/pull/21600 (``unit`` and ``interval``, of retention as of funnels, and more
    than 90 days), and https://github.com/jaredmcfarland/mixpanel_data, which met it with real credentials (2026-11).

    :raises RefusedError: 500.
    """
    if "unit" in params and "interval" in params:
        raise RefusedError(500, "unit and interval both specified")
    if _number(params, "interval", 1) > _MOST_DAYS:
        raise RefusedError(500, f"interval may not be greater than {_MOST_DAYS} days")


def _insights(standin: Reported, params: Mapping[str, str], _: Fault | None) -> Any:
    report = standin.reports.saved.get(_number(params, "bookmark_id"))
    if report is None:
        raise RefusedError(404, "bookmark not found")
    return report


def _segmentation(standin: Reported, params: Mapping[str, str], fault: Fault | None) -> Any:
    if "event" not in params:
        raise RefusedError(400, "event is a required parameter")
    on, expression = params.get("on"), params.get("where")
    limit = _number(params, "limit", 60)
    values: dict[str, dict[str, int]] = {}
    dates = list(_dates(params, standin.today, fault))
    for date in dates:
        for segment, count in (
            count_events(standin.project, date, on=on, expression=expression).get(params["event"], {}).items()
        ):
            values.setdefault(segment, {})[str(date)] = count
    if params.get("unit") == "hour":
        hours = _by_hour(standin.project, dates, expression).get(params["event"], {})
        return _by_date(dates, {params["event"]: hours})
    top = dict(sorted(values.items(), key=lambda item: -sum(item[1].values()))[:limit])
    return _by_date(dates, top if on is not None else values or {params["event"]: {}})


def _events(standin: Reported, params: Mapping[str, str], fault: Fault | None) -> Any:
    unit = params.get("unit")
    if params.get("type") not in _TYPES or unit not in ("hour", "day"):
        raise RefusedError(400, "type and unit are required parameters")
    names = json.loads(params.get("event", "[]"))
    dates = list(_dates(params, standin.today, fault))
    if unit == "hour":
        hours = _by_hour(standin.project, dates, None)
        return _by_date(dates, {name: hours[name] for name in names if name in hours})
    values: dict[str, dict[str, int]] = {}
    for date in dates:
        counts = count_events(standin.project, date)
        for name in names:
            if name in counts:
                values.setdefault(name, {})[str(date)] = counts[name].total()
    return _by_date(dates, values)


def _names(standin: Reported, params: Mapping[str, str], _: Fault | None) -> Any:
    if params.get("type") not in _TYPES:
        raise RefusedError(400, "type is a required parameter")
    names = [name for name in EVENT_NAMES if name not in standin.reports.unlisted]
    return sorted(names[: _number(params, "limit", 255)], reverse=True)


def _by_hour(project: Project, dates: list[dt.date], expression: str | None) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for date in dates:
        for name, hours in count_events_by_hour(project, date, expression=expression).items():
            counts.setdefault(name, Counter()).update(hours)
    return {name: dict(hours) for name, hours in counts.items()}


def _by_date(dates: list[dt.date], values: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Write counts as Mixpanel does: a date without any is missing from ``values``."""
    return {"data": {"series": [str(date) for date in dates], "values": values}, "legend_size": len(values)}


def _annotations(standin: Reported, params: Mapping[str, str], _: Fault | None) -> Any:
    first, last = params.get("fromDate", ""), params.get("toDate", "9")
    annotations = [annotation for annotation in standin.reports.annotations if first <= annotation["date"][:10] <= last]
    return {"status": "ok", "results": annotations}


def _dates(params: Mapping[str, str], today: dt.date, fault: Fault | None) -> Iterator[dt.date]:
    try:
        first, last = (dt.date.fromisoformat(params[name]) for name in ("from_date", "to_date"))
    except (KeyError, ValueError):
        raise RefusedError(400, "from_date and to_date are required, in the format yyyy-mm-dd") from None
    if first > last or last > today:
        raise RefusedError(400, "to_date cannot be later than today")
    shift = 1 if fault is not None and fault.kind == "other_day" else 0
    for number in range((last - first).days + 1):
        yield first + dt.timedelta(days=number + shift)


def _number(params: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = params.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit()):
        raise RefusedError(400, f"{name} must be a whole number")
    return int(text)


REPORTS: dict[tuple[str, str], Report] = {
    ("GET", "/api/query/funnels/list"): _funnels,
    ("GET", "/api/query/funnels"): _funnel,
    ("GET", "/api/query/retention"): _retention,
    ("GET", "/api/query/insights"): _insights,
    ("GET", "/api/query/segmentation"): _segmentation,
    ("GET", "/api/query/events"): _events,
    ("GET", "/api/query/events/names"): _names,
    ("GET", ANNOTATIONS_PATH): _annotations,
}
