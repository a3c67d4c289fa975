"""Drawn APIs: ties, repeats, pinned rows, wrong totals, empty pages and endless tokens, with each kind of paging.

Whatever is drawn, the day is whole, or it fails. Not drawn are lies that no client can notice: a low total or an early
last flag where pages are counted, a low total before an empty page, an empty page with ``empty_page``, a short one with
``short_page``.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.sources.rest import (
    Cursor,
    Flag,
    LastKey,
    LinkHeader,
    NextLink,
    NoToken,
    Offset,
    PageNumber,
    ShortPage,
    Total,
)
from tests.equipment.rest_api.items import DATE, item
from tests.equipment.rest_api.reading import declared, ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

NOON = dt.datetime.combine(DATE, dt.time(12), dt.UTC)
MORE, TOTAL = Flag(at="more", last=False), Total(at="total")


@dataclass(frozen=True)
class DrawnApi:
    """An API with a paging and its quirks.

    :param ties: how many records share a moment.
    :param overlap: how many records of the page before each page repeats.
    :param pinned: how many records come first on each page.
    :param total_error: what the announced total is wrong by.
    :param gap: number of the page that is served empty, before the page that should be there.
    :param is_endless: whether the last page names a next one too: itself.
    :param is_inclusive: whether the parameter of ``LastKey`` includes its value.
    """

    paging: Any
    count: int
    size: int
    ties: int
    overlap: int
    pinned: int
    total_error: int
    gap: int | None
    is_endless: bool
    is_inclusive: bool

    @property
    def items(self) -> list[dict[str, Any]]:
        return [item(number + 1, NOON + dt.timedelta(seconds=number // self.ties)) for number in range(self.count)]

    def answer(self, request: Request) -> Answer:
        items = self.items
        pinned, listed = items[: self.pinned], items[self.pinned :]
        start = self._start(request, listed)
        if self.gap is not None and start >= self.gap * self.size:
            is_empty, start = start < (self.gap + 1) * self.size, start - self.size
        else:
            is_empty = False
        begin = max(start - self.overlap, 0)
        page = [] if is_empty else [*pinned, *listed[begin : start + self.size]]
        has_more = is_empty or start + self.size < len(listed)
        step = self.size if self.gap is not None and start + self.size > self.gap * self.size else 0
        following = str(start + step + self.size if has_more else start + step)
        names_next = has_more or self.is_endless
        link = f"/x?from={following}"
        body = {
            "items": [] if start and start >= len(listed) else page,
            "total": len(items) + self.total_error,
            "more": has_more,
            "next": (link if isinstance(self.paging, NextLink) else following) if names_next else None,
        }
        return Answer(body, headers={"Link": f'<{link}>; rel="next"'} if names_next else {})

    def _start(self, request: Request, listed: list[dict[str, Any]]) -> int:
        after = request.first("after")
        if after and self.paging.field == "at":
            reached = [row["at"] > after or (self.is_inclusive and row["at"] == after) for row in listed]
            return reached.index(True) if True in reached else len(listed)
        if after:
            return next((at + 1 - self.is_inclusive for at, row in enumerate(listed) if str(row["id"]) == after), 0)
        if page := request.first("page"):
            return (int(page) - 1) * self.size
        return int(request.first("from") or request.first("offset") or "0")


def pagings(size: int) -> st.SearchStrategy[Any]:
    counted = st.sampled_from([MORE, TOTAL, ShortPage(), ShortPage(serves=size), "empty_page"])
    tokens = st.sampled_from([MORE, TOTAL, NoToken()])
    return st.one_of(
        tokens.map(lambda ends: LinkHeader(ends=ends)),
        tokens.map(lambda ends: NextLink(at="next", ends=ends)),
        tokens.map(lambda ends: Cursor(at="next", param="from", ends=ends)),
        counted.map(lambda ends: Offset(ends=ends, limit_param="limit", limit=size)),
        counted.map(lambda ends: PageNumber(ends=ends, size_param="size", size=size)),
        st.builds(
            lambda ends, field: LastKey(param="after", field=field, ends=ends),
            st.sampled_from([MORE, TOTAL, "empty_page"]),
            st.sampled_from(["id", "at"]),
        ),
    )


@st.composite
def apis(draw: st.DrawFn) -> DrawnApi:
    size = draw(st.integers(2, 7))
    paging = draw(pagings(size))
    rule = paging.ends.rule
    is_token, is_key = isinstance(paging, LinkHeader | NextLink | Cursor), isinstance(paging, LastKey)
    is_counted = isinstance(paging, Offset | PageNumber)
    total_error = draw(st.integers(-3 if is_token else 0, 3))
    may_have_gap = is_token or (rule == "flag" and not is_key)
    return DrawnApi(
        paging=paging,
        count=draw(st.integers(0, 25)),
        size=size,
        ties=draw(st.integers(1, 3)),
        overlap=0 if is_key else draw(st.integers(0, size - 1)),
        pinned=0 if is_key or (is_counted and rule == "empty_page") else draw(st.integers(0, 2)),
        total_error=total_error,
        gap=draw(st.none() | st.integers(1, 3)) if may_have_gap and total_error >= 0 else None,
        is_endless=draw(st.booleans()),
        is_inclusive=draw(st.booleans()),
    )


@given(apis())
def test_a_day_is_whole_or_it_fails(drawn: DrawnApi) -> None:
    source = declared("/x", drawn.paging, at="items", retry_budget_seconds=0)
    with RestApi([]) as api:
        api.faults.append(drawn.answer)
        try:
            loaded = sorted(ids(read(api, source)))
        except ConnectError:
            return
    assert loaded == list(range(1, drawn.count + 1))
