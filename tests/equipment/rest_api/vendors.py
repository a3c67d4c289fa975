"""APIs of the shapes of GitHub, Stripe and Zendesk, which the example DAGs declare: made-up data, and their quirks."""

from __future__ import annotations

import datetime as dt
from typing import Any
from urllib.parse import urlencode

from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.server import Answer, Request, RestApi

START = dt.datetime.combine(DATE, dt.time(), dt.UTC)


def at(hours: float) -> dt.datetime:
    """Return the instant so many hours after the day began."""
    return START + dt.timedelta(hours=hours)


def _iso(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class GitHub(RestApi):
    """Issues and their comments updated after ``since``, oldest first, five on a page, with a Link header.

    Issue ``n`` was created ``n`` hours before the day and changed at ``changed[n]``. Its comments are of
    ``comments[n]``.
    """

    def __init__(self) -> None:
        super().__init__([], page_size=5)
        self.changed = {number: at(number - 3) for number in range(1, 33)}
        self.comments = {3: [at(-1), at(0), at(2)], 5: [at(23.9997), at(24)], 30: [at(1), at(27)]}

    def _repos(self, request: Request) -> Answer:
        steps = request.path.strip("/").split("/")[3:]
        since = dt.datetime.fromisoformat(request.first("since"))
        if steps == ["issues"]:
            assert (request.first("sort"), request.first("direction")) == ("created", "asc")
            matching = [self._issue(number, when) for number, when in sorted(self.changed.items()) if when > since]
        else:
            number = int(steps[1])
            if number not in self.changed:
                return Answer({"message": "This issue was deleted"}, 410)
            whens = enumerate(self.comments.get(number, []))
            matching = [self._comment(100 * number + index, when) for index, when in whens if when > since]
        page = int(request.first("page", "1"))
        query = urlencode([*((name, value) for name, value in request.query if name != "page"), ("page", page + 1)])
        has_next = page * self.page_size < len(matching)
        links = f'<http://127.0.0.1:{self.port}{request.path}?{query}>; rel="next", <http://127.0.0.1/x>; rel="last"'
        headers = {"X-RateLimit-Remaining": "4999"} | ({"Link": links} if has_next else {})
        return Answer(matching[(page - 1) * self.page_size : page * self.page_size], headers=headers)

    def _issue(self, number: int, changed: dt.datetime) -> dict[str, Any]:
        issue = {
            "id": 1000 + number,
            "number": number,
            "title": f"Issue {number}",
            "state": "open",
            "user": {"login": "octocat"},
            "created_at": _iso(START - dt.timedelta(days=40 - number)),
            "updated_at": _iso(changed),
        }
        return issue | ({"pull_request": {"html_url": f"https://pulls/{number}"}} if number % 10 == 0 else {})

    def _comment(self, number: int, created: dt.datetime) -> dict[str, Any]:
        times = {"created_at": _iso(created), "updated_at": _iso(created)}
        return {"id": number, "user": {"login": "hubot"}, "body": f"Comment {number}"} | times


def out_of_requests(reset: dt.datetime) -> Answer:
    """Return GitHub's answer when the hour's requests are used up."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(reset.timestamp()))}
    return Answer({"message": "API rate limit exceeded for user ID 1."}, 403, headers)


class Stripe(RestApi):
    """Events after the id ``starting_after``, newest first. Only ``has_more`` marks the end. Bounds: epoch seconds."""

    def __init__(self) -> None:
        super().__init__([], page_size=10)
        times = [at(-0.01), at(0), *(at(hour) for hour in range(1, 24)), at(24 - 1 / 3600), at(24)]
        self.events = [self._event(number, when) for number, when in enumerate(times)][::-1]

    def _v1(self, request: Request) -> Answer:
        since, until = int(request.first("created[gte]")), int(request.first("created[lt]"))
        matching = [event for event in self.events if since <= event["created"] < until]
        last_id = request.first("starting_after")
        start = 1 + next((index for index, event in enumerate(matching) if event["id"] == last_id), -1)
        end = start + min(self.page_size, int(request.first("limit", "10")))
        return Answer(
            {"object": "list", "url": "/v1/events", "has_more": end < len(matching), "data": matching[start:end]}
        )

    def _event(self, number: int, when: dt.datetime) -> dict[str, Any]:
        return {
            "id": f"evt_{number}",
            "object": "event",
            "api_version": "2026-10-29",
            "created": int(when.timestamp()),
            "data": {"object": {"id": f"ch_{number}", "object": "charge", "amount": 100 * number}},
            "livemode": True,
            "request": {"id": f"req_{number}", "idempotency_key": None} if number % 2 else {"id": None},
            "type": "charge.succeeded",
        }


class Zendesk(RestApi):
    """Ticket events from ``start_time`` to the present, ten on a page.

    A page starts at the second in which the previous one ended, so these events come twice. The last page has a link
    too.
    """

    def __init__(self) -> None:
        super().__init__([], page_size=10)
        self.events = [self._event(number, at(-2 + number)) for number in range(50)]

    def _api(self, request: Request) -> Answer:
        start = int(request.first("start_time"))
        matching = [event for event in self.events if event["timestamp"] >= start]
        page = matching[: self.page_size]
        end = page[-1]["timestamp"] if page else start
        link = f"http://127.0.0.1:{self.port}{request.path}?start_time={end}"
        counters = {"count": len(page), "end_time": end, "end_of_stream": len(matching) <= self.page_size}
        return Answer({"ticket_events": page, "next_page": link, **counters})

    def _event(self, number: int, when: dt.datetime) -> dict[str, Any]:
        return {
            "id": number,
            "ticket_id": 7000 + number,
            "updater_id": -1,
            "event_type": "Audit",
            "timestamp": int(when.timestamp()),
            "child_events": [{"id": 900 + number, "status": "open"}],
        }
