"""Where users of other frameworks lost rows, had them twice, or waited for ever: each case named after what they saw.

The issues are those of ``airbyte``, ``airbyte-python-cdk``, ``dlt``, the Meltano ``sdk`` and others.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources.rest import (
    Bounds,
    Cursor,
    ErrorRule,
    Flag,
    LastKey,
    LinkHeader,
    NextLink,
    Offset,
    PageNumber,
    RestSource,
    ShortPage,
    Total,
)
from tests.equipment.rest_api.items import DATE, item, items_of
from tests.equipment.rest_api.reading import counts, declared, ids, read, records
from tests.equipment.rest_api.server import Answer, Quirk, Request, RestApi

ALL = list(range(1, 36))
MORE = Flag(at="has_more", last=False)
NUMBERED = PageNumber(ends="empty_page", size_param="size", size=10)
AT_ONCE: dict[str, Any] = {"retry_budget_seconds": 0}


def api(*quirks: Quirk, count: int = 35) -> RestApi:
    return RestApi(items_of(DATE, count), quirks=quirks)


def test_a_short_page_was_taken_for_the_end_where_the_api_cuts_rows_after_paging() -> None:
    """airbyte #34883: with an end rule that does not count rows, nothing is lost."""
    source = declared("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), at="items")
    with api("drops_after_paging") as server:
        assert ids(read(server, source)) == [number for number in ALL if number % 3]


@pytest.mark.parametrize(
    ("path", "paging"),
    [
        ("/pages/totals", PageNumber(ends="short_page")),
        ("/offset", Offset(ends="short_page")),
        ("/cursor", Cursor(at="/meta/next", param="cursor", ends="empty_page")),
    ],
)
def test_a_filter_of_the_client_makes_no_page_short(path: str, paging: Any) -> None:
    """airbyte-python-cdk #1073, #484, #1074: what is dropped as another day's still counts as served."""
    kept = records("items", day="at", outside="drop")
    source = declared("", paging, request={"path": path}, records=kept)
    with RestApi([*items_of(DATE - dt.timedelta(days=1), 25, 100), *items_of(DATE, 10)]) as server:
        if path == "/cursor":
            server.quirks.add("always_a_token")
        polled = read(server, source)
    assert ids(polled) == ALL[:10]
    assert counts(polled)["other_day"] == 25


def test_a_server_that_serves_fewer_than_asked_for_has_no_short_pages() -> None:
    """Jira: a silent cap of the page's size. Steps of what was asked for lose rows; an end by it comes after page 1."""
    paging = Offset(ends="short_page", limit_param="limit", limit=100)
    with api("caps_silently") as server:
        assert ids(read(server, declared("/offset", paging, at="items"))) == ALL


def test_a_page_that_the_server_serves_short_is_no_end_before_its_total() -> None:
    source = declared("/pages/totals", PageNumber(ends=Total(at="total")), at="items")
    with api() as server:
        server.faults.append(only_first(2, short_page))
        with pytest.raises(RetriableError, match="announced 35 records and sent 32"):
            read(server, source)


@pytest.mark.parametrize("count", [30, 35])
def test_a_last_page_that_comes_again_past_the_end_is_never_read_for_ever(count: int) -> None:
    """airbyte #28226: the last page exactly full, or not, and the API gives it again."""
    with api("repeats_the_last_page", count=count) as server:
        with pytest.raises(RetriableError, match="sent the same rows twice"):
            read(server, declared("/pages", NUMBERED))
        assert len(server.asked) == 5 if count == 35 else 4
        by_short_page = declared("/pages", PageNumber(ends=Total(header="X-Total")))
        assert len(ids(read(server, by_short_page))) == count


def test_an_api_that_ignores_the_page_is_found() -> None:
    with api("ignores_the_page") as server:
        with pytest.raises(RetriableError, match="check the paging parameters, which the service may ignore"):
            read(server, declared("/pages", NUMBERED))
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "source",
    [
        declared("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token"), at="items"),
        declared("/linked", LinkHeader(ends="no_token"), at="items"),
        declared("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), at="items"),
    ],
)
def test_an_empty_page_in_the_middle_ended_the_reading(source: RestSource) -> None:
    """Meltano sdk #2980, twarc #602."""
    with api("empty_page_in_the_middle") as server:
        assert ids(read(server, source)) == ALL


def test_a_cursor_on_the_last_page_too_ends_by_the_empty_page() -> None:
    """dlt #3358."""
    source = declared("/cursor", Cursor(at="/meta/next", param="cursor", ends="empty_page"), at="items")
    with api("always_a_token") as server:
        assert ids(read(server, source)) == ALL


def test_null_in_place_of_an_empty_list_ends_the_reading_only_where_that_is_declared() -> None:
    """dlt #2932. Beside an error, as GraphQL's, null is no empty day."""
    paging = Cursor(at="/meta/next", param="cursor", ends="empty_page")
    with api("always_a_token", "null_for_empty") as server:
        assert ids(read(server, declared("/cursor", paging, records=records("items", missing="empty")))) == ALL
        with pytest.raises(RetriableError, match="page 5: the answer has no list of records at 'items'"):
            read(server, declared("/cursor", paging, at="items"))


def test_a_missing_list_is_empty_only_where_that_is_declared() -> None:
    paging = Cursor(at="/meta/next", param="cursor", ends="empty_page")
    with api("always_a_token", "omits_empty") as server:
        assert (
            ids(
                read(
                    server,
                    declared("/cursor", paging, records=records("items", missing="empty", empty_has=("has_more",))),
                )
            )
            == ALL
        )
        with pytest.raises(RetriableError, match="page 5: the answer has no list of records at 'items'"):
            read(server, declared("/cursor", paging, at="items"))


def test_has_more_is_the_only_end_though_a_cursor_is_always_there() -> None:
    """dlt #2816, HubSpot."""
    paging = Cursor(at="/meta/next", param="cursor", ends=MORE)
    with api("always_a_token") as server:
        assert ids(read(server, declared("/cursor", paging, at="items"))) == ALL
        assert len(server.asked) == 4


def test_a_next_link_on_the_last_page_too_ends_by_the_flag() -> None:
    """Zendesk's incremental exports: the link is always there, end_of_stream says when to stop."""
    paging = NextLink(at="/links/next", ends=Flag(at="end_of_stream", last=True))
    with api("always_a_token") as server:
        assert ids(read(server, declared("/linked", paging, at="items"))) == ALL
        assert len(server.asked) == 4


def test_a_total_that_is_null_is_told_and_not_guessed() -> None:
    """dlt #1530, #1637; PagerDuty."""
    with api("total_is_null") as server, pytest.raises(RetriableError, match="page 1 has no total in 'total'"):
        read(server, declared("/pages/totals", PageNumber(ends=Total(at="total")), at="items"))


@pytest.mark.parametrize(
    ("path", "paging"),
    [
        ("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token")),
        ("/linked", LinkHeader(ends="no_token")),
        ("/linked", NextLink(at="/links/next", ends="no_token")),
    ],
)
def test_links_that_go_round_in_a_circle_longer_than_one_end(path: str, paging: Any) -> None:
    """botocore #3778: A, B, A, B is not seen by a look at the last token."""
    with api("loops") as server:
        with pytest.raises(RetriableError, match=r"(same next page|same rows) twice"):
            read(server, declared(path, paging, at="items"))
        assert len(server.asked) <= 4


def test_new_tokens_for_the_same_rows_end() -> None:
    paging = Cursor(at="/meta/next", param="cursor", ends="no_token")
    with api("tokens_change_rows_stay") as server, pytest.raises(RetriableError, match="same rows twice"):
        read(server, declared("/cursor", paging, at="items"))


@pytest.mark.parametrize(
    ("path", "paging", "empty_pages"),
    [
        ("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), 10),
        ("/cursor", Cursor(at="/meta/next", param="cursor", ends=Flag(at="more", last=False)), 10),
        ("/cursor", Cursor(at="/meta/next", param="cursor", ends="no_token"), 100),
        ("/linked", LinkHeader(ends="no_token"), 100),
    ],
)
def test_empty_pages_that_always_promise_more_come_to_an_end(path: str, paging: Any, empty_pages: int) -> None:
    """dlt #2816, #3358: a flag or a token says for ever that there is more; each page is new, and none has a row."""

    def promise(asked: Request) -> Answer | None:
        found = server.served(asked)
        found.document |= {"more": True}
        return found

    with api("always_a_token") as server:
        server.faults.append(promise)
        with pytest.raises(RetriableError, match=r"announces more\. Reading would never end"):
            read(server, declared(path, paging, at="items"))
        assert len(server.asked) == 4 + empty_pages


def test_nine_empty_pages_in_the_middle_are_no_end() -> None:
    """X answers like that: an empty page with a next token says only that there was nothing here."""

    def seldom(asked: Request) -> Answer | None:
        page = int(asked.first("page"))
        items = [] if page % 10 else items_of(DATE, 3, page)
        return Answer({"items": items, "more": page < 40})

    with api() as server:
        server.faults.append(seldom)
        source = declared("/pages", PageNumber(ends=Flag(at="more", last=False)), at="items")
        assert ids(read(server, source)) == [10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42]


def test_the_query_of_a_next_link_is_not_added_a_second_time() -> None:
    """dlt #1514."""
    with api() as server:
        read(server, declared("/linked", LinkHeader(ends="no_token"), at="items", params={"state": "all"}))
        for request in server.asked:
            assert sorted(name for name, _ in request.query if name != "from") == ["since", "state", "until"]


def test_a_name_with_dots_and_an_at_sign_is_one_name() -> None:
    """dlt #2505: no pagination found, ONE page loaded, no error."""
    with api() as server:
        assert (
            ids(read(server, declared("/linked", NextLink(at="@odata.nextLink", ends="no_token"), at="items"))) == ALL
        )


@pytest.mark.parametrize(
    "paging", [NextLink(at="links.next", ends="no_token"), NextLink(at="links.next", ends="empty_page")]
)
def test_a_path_that_was_meant_by_dots_is_told_and_does_not_load_one_page(paging: NextLink) -> None:
    with api() as server, pytest.raises(ConfigError, match=r"no field 'links.next', but there is one at '/links/next'"):
        read(server, declared("/linked", paging, at="items"))


def test_a_record_of_the_moment_at_which_the_last_read_ended_is_in_the_next_read() -> None:
    """airbyte #14732: equal values of the cursor, added after the read. A day knows no cursor: all is asked for."""
    with api() as server:
        source = declared("/pages", NUMBERED)
        assert ids(read(server, source)) == ALL
        server.items.append(item(99, dt.datetime.fromisoformat(server.items[-1]["at"])))
        assert ids(read(server, source)) == [*ALL, 99]


def test_an_api_that_wants_both_bounds_gets_both_on_each_page() -> None:
    """dlt #3223."""
    with api() as server:
        server.authorize = lambda asked: bool(asked.first("since") and asked.first("until"))
        assert ids(read(server, declared("/pages", NUMBERED))) == ALL


def test_a_page_past_the_end_that_is_a_400_is_an_empty_page_where_that_is_declared() -> None:
    """WooCommerce."""
    past_the_end = ErrorRule(status=400, at="code", values=("invalid_page",), then="empty")
    with api("past_the_end_is_400") as server:
        assert ids(read(server, declared("/pages", NUMBERED, errors=(past_the_end,)))) == ALL
        with pytest.raises(ConfigError):
            read(server, declared("/pages", NUMBERED))


@pytest.mark.parametrize("quirks", [(), ("inclusive_end",)])
def test_the_last_second_of_a_day_is_in_that_day_alone(quirks: Sequence[Quirk]) -> None:
    """airbyte #20322 and its fix: a slice that begins one step late loses, one that begins early doubles."""
    bounds = Bounds(end="inclusive" if quirks else "exclusive", granularity="second")
    midnight = dt.datetime.combine(DATE + dt.timedelta(days=1), dt.time(), dt.UTC)
    late = [item(90, midnight - dt.timedelta(milliseconds=1)), item(91, midnight)]
    with RestApi([*items_of(DATE, 35), *late], quirks=quirks) as server:
        assert ids(read(server, declared("/pages", NUMBERED, bounds=bounds))) == [*ALL, 90]


def test_an_api_without_any_filter_is_cut_to_the_day() -> None:
    """dlt #3223, #2274, #1928."""
    source = declared("", NUMBERED, request={"path": "/pages"}, records=records(day="at", outside="drop"))
    with RestApi([*items_of(DATE, 35), *items_of(DATE + dt.timedelta(days=1), 12, 100)]) as server:
        polled = read(server, source)
    assert (ids(polled), counts(polled)["other_day"]) == (ALL, 12)


def test_a_request_that_names_no_day_is_refused_before_it_loads_all_days_into_one() -> None:
    with pytest.raises(ConfigError, match="request: does not select a day"):
        declared("", NUMBERED, request={"path": "/pages"})


def test_a_link_to_another_host_is_refused_and_nothing_is_sent_there() -> None:
    """erpl-web #183, azure-sdk-for-python #47390, Policy-Weaver #112: credentials followed the link."""
    source = declared("/linked", NextLink(at="next", ends="no_token"), at="items")
    with api() as server, api() as elsewhere:
        link = f"http://127.0.0.1:{elsewhere.port}/linked"
        server.faults.append(lambda _: Answer({"items": items_of(DATE, 3), "next": link}))
        with pytest.raises(ConfigError, match=f"leads to http://127.0.0.1:{elsewhere.port}"):
            read(server, source)
        assert elsewhere.asked == []


def test_a_next_page_is_asked_with_the_credentials_and_tried_again() -> None:
    """dotnet-stellar-sdk #193: followed pages went without both."""
    with api() as server:
        server.authorize = lambda request: "authorization" in request.headers
        server.faults.append(only_first(3, lambda _: Answer({"error": "busy"}, 503)))
        assert ids(read(server, declared("/linked", LinkHeader(ends="no_token"), at="items"))) == ALL
        assert len(server.asked) == 5


@pytest.mark.parametrize("more", [None, "yes", 1])
def test_a_flag_that_is_no_flag_is_told(more: Any) -> None:
    with api() as server:
        server.faults.append(only_first(2, lambda _: Answer({"items": [], "more": more})))
        with pytest.raises(RetriableError, match="page 2 has neither true nor false at 'more'"):
            read(server, declared("/pages/totals", PageNumber(ends=Flag(at="more", last=False)), at="items"))


def test_a_page_larger_than_it_may_be_is_refused_before_it_is_in_memory() -> None:
    """H24: a few kilobytes of gzip that become a gigabyte."""
    with api() as server:
        server.faults.append(lambda _: Answer(raw=b"[" + b" " * (8 << 20) + b"]"))
        with pytest.raises(ConfigError, match="request smaller pages"):
            read(server, declared("/pages", NUMBERED, max_page_bytes=1 << 20))


def test_a_last_record_without_its_key_is_told() -> None:
    source = declared("/last", LastKey(param="starting_after", field="nr", ends=MORE), at="data")
    with api() as server, pytest.raises(RetriableError, match="page 1 names no next page, though its end rule 'flag'"):
        read(server, source)


def test_full_pages_that_are_larger_than_declared_are_not_short() -> None:
    source = declared("/pages", PageNumber(ends=ShortPage(serves=5)))
    with api() as server:
        assert ids(read(server, source)) == ALL


def test_a_record_that_moves_to_the_next_page_meanwhile_comes_once() -> None:
    """H17: a record is inserted before the others while pages are read."""

    def insert(asked: Request) -> None:
        if asked.first("page") == "2" and server.items[0]["id"] != 99:
            server.items.insert(0, item(99, dt.datetime.combine(DATE, dt.time(12), dt.UTC)))

    with api() as server:
        server.faults.append(insert)
        polled = read(server, declared("/pages", NUMBERED))
    assert ids(polled) == ALL
    assert counts(polled)["duplicates"] == 1


def test_an_answer_that_is_no_json_is_never_an_empty_day() -> None:
    """H8: a login page, an error document, an empty body, half a document."""
    bodies = [b"<html>log in</html>", b'{"error": "no"}', b"", b'[{"id": 1}', b"42", b'"text"']
    for body in bodies:
        with api() as server:
            server.faults.append(lambda _, body=body: Answer(raw=body))
            with pytest.raises(RetriableError) as caught:
                read(server, declared("/pages", NUMBERED, **AT_ONCE))
        assert "log in" not in str(caught.value)


def only_first(page: int, answer: Callable[[Request], Answer]) -> Callable[[Request], Answer | None]:
    """Return a fault that answers the request for one page, once."""
    asked: list[str] = []

    def fault(request: Request) -> Answer | None:
        asked.append(json.dumps(request.query))
        return answer(request) if len(asked) == page else None

    return fault


def short_page(_: Request) -> Answer:
    return Answer({"items": items_of(DATE, 17)[10:], "total": 35})
