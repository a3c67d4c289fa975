"""Applies the faults that change a page of results."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.standins.x.faults import Fault
from tests.standins.x.posts import Timeline
from tests.standins.x.search import SearchRequest, make_next_token, make_page, not_found, search


def page(timeline: Timeline, request: SearchRequest, fault: Fault | None) -> dict[str, Any]:
    """Return the page that a request gets."""
    kind = fault.kind if fault else "none"
    if kind == "empty_page":
        return {"meta": {"result_count": 0, "next_token": make_next_token(request, request.first_index)}}
    if kind == "error_document":
        return {
            "title": "Service Unavailable",
            "type": "about:blank",
            "status": 503,
            "detail": "The service is over capacity",
        }
    if kind == "short_page":
        return search(timeline, request, first=request.first_index, size=request.size // 2)
    if kind == "page_again":
        document = search(timeline, request, first=max(0, request.first_index - request.size), size=request.size)
        document["meta"]["next_token"] = make_next_token(request, request.first_index)
        return document
    document = search(timeline, request, first=request.first_index, size=request.size)
    if kind != "none":
        _change(kind, document, timeline, request)
    return document


def _change(kind: str, document: dict[str, Any], timeline: Timeline, request: SearchRequest) -> None:
    posts = document.get("data", [])
    if kind == "partial_error":
        document.setdefault("errors", []).append(not_found("404404404", "pinned_post_id"))
    elif kind == "same_token":
        document["meta"]["next_token"] = request.token
    elif kind == "repeating":
        document["meta"]["next_token"] = make_next_token(request, request.first_index)
    elif kind == "no_time":
        del posts[0]["created_at"]
    elif kind == "no_id":
        del posts[0]["id"]
    elif kind == "surrogate":
        posts[0]["text"] = "half \ud83d a character"
    elif kind == "other_day":
        day_before = request.start - dt.timedelta(days=1)
        strays = list(timeline.between(day_before, request.start))[:2]
        posts += make_page(timeline, request, strays)["data"]
    elif kind in ("overlap", "out_of_order"):
        earlier = timeline.search(request.query, request.start, request.end)[: request.first_index]
        again = make_page(timeline, request, earlier[-2:] if kind == "overlap" else earlier[:1]).get("data", [])
        document["data"] = again + posts if kind == "overlap" else posts + again
    document["meta"]["result_count"] = len(document.get("data", []))
