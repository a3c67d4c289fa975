"""The stand-in's Query API: its endpoints and their answers.

An endpoint is a function of the stand-in and the question. Later pages of ``engage`` do not count to the hour's
queries, as users and Mixpanel's support report (https://github.com/airbytehq/airbyte/issues/57513).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.export import GZIP_ABOVE_BYTES, damaged, instead_of_export
from tests.standins.mixpanel.faults import ANSWER_KINDS, GZIP_KINDS, Fault
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.report_api import ANNOTATIONS_PATH, REPORTS, Report, Reported
from tests.standins.wire import Answer

_JSON = {"Content-Type": "application/json"}


class Served(Reported, Protocol):
    """Data of the endpoints."""

    account: Account
    engage: Engage
    people: People


@dataclass(frozen=True)
class Question:
    """A request to the Query API.

    :param path: with ``{project_id}`` in place of the project's number.
    :param form: of a POST.
    """

    method: str
    path: str
    params: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def page(self) -> int:
        """Requested page. 0 without one, or if it is unreadable."""
        text = self.form.get("page", "")
        return int(text) if text.isascii() and text.isdigit() else 0

    @property
    def is_app(self) -> bool:
        """True for the App API, which has no stated limits and refuses project secrets."""
        return self.path == ANNOTATIONS_PATH

    @property
    def name(self) -> str:
        """Name in the stats."""
        return self.path.removeprefix("/api/query/") + (" pages" if self.page else "")


def _engage(standin: Served, question: Question, fault: Fault | None) -> bytes:
    return standin.engage.page(standin.people, question.form, fault)


def _cohorts(standin: Served, _: Question, __: Fault | None) -> bytes:
    return json.dumps(standin.people.cohort_entries(standin.account.project_id), ensure_ascii=False).encode()


def _reported(answer: Report) -> Callable[[Served, Question, Fault | None], bytes]:
    def endpoint(standin: Served, question: Question, fault: Fault | None) -> bytes:
        return json.dumps(answer(standin, question.params, fault), ensure_ascii=False).encode()

    return endpoint


ENDPOINTS: dict[tuple[str, str], Callable[[Served, Question, Fault | None], bytes]] = {
    ("POST", "/api/query/engage"): _engage,
    ("POST", "/api/query/cohorts/list"): _cohorts,
    **{place: _reported(answer) for place, answer in REPORTS.items()},
}


def parse_question(
    method: str, path: str, params: Mapping[str, str], form: Mapping[str, str] | None = None
) -> Question | None:
    """Parse a request. Returns None for an unknown endpoint.

    A project in the path becomes a parameter, as for all other paths.
    """
    if match := re.fullmatch(r"/api/app/projects/([0-9]+)/annotations", path):
        path, params = ANNOTATIONS_PATH, {**params, "project_id": match[1]}
    return Question(method, path, params, form or {}) if (method, path) in ENDPOINTS else None


def query(standin: Served, question: Question, fault: Fault | None, *, accepts_gzip: bool) -> Answer:
    """Return the answer to a question.

    :raises RefusedError: 400.
    """
    if fault is not None and fault.kind in ANSWER_KINDS:
        return instead_of_export(fault, question.path, accepts_gzip=accepts_gzip)
    body = ENDPOINTS[question.method, question.path](standin, question, fault)
    if fault is not None and fault.kind in GZIP_KINDS:
        return Answer(200, damaged(fault, memoryview(_gzip(body))), _JSON | {"Content-Encoding": "gzip"})
    if accepts_gzip and len(body) > GZIP_ABOVE_BYTES:
        return Answer(200, memoryview(_gzip(body)), _JSON | {"Content-Encoding": "gzip"})
    return Answer(200, memoryview(body), _JSON)


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()
