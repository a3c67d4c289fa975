"""Every request to X, over all streams and options, fits its OpenAPI file."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._x_search.client import describe_usage
from airflow_provider_connect.sources._x_search.dialect import VOCABULARY, Dialect
from airflow_provider_connect.sources._x_search.options import StreamName
from airflow_provider_connect.sources.x_search import XSearchSource
from tests.equipment.specifications.requests import recorded_requests
from tests.equipment.specifications.specification import name_of, problems, x_requests
from tests.equipment.x import DAY, YESTERDAY, connection, found_by, poll, source
from tests.standins.x import vocabulary as standins
from tests.standins.x.server import StandIn

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
SEARCH = "GET /2/tweets/search/all"
PARAMETERS = {
    "post_fields": "{dialect}.fields",
    "expansions": "expansions",
    "user_fields": "user.fields",
    "media_fields": "media.fields",
    "poll_fields": "poll.fields",
    "place_fields": "place.fields",
}


def sent_by(x: StandIn, dialect: Dialect, **options: Any) -> list[str]:
    """Poll and count a day; fail if a request is not as specified; return the names of the requests."""
    day = options.pop("day", DAY)
    with recorded_requests() as sent, source(dialect=dialect, **options).open(connection(x), PollContext()) as poller:
        for part in poller.plan([day]):
            list(poller.poll(part, Tally([day])))
        poller.count(day, Tally())
    specified = x_requests(dialect)
    assert [problem for request in sent for problem in problems(request, specified)] == []
    assert all(request.headers["authorization"].startswith("Bearer ") for request in sent)
    return [name_of(request, specified) for request in sent]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", get_args(StreamName))
def test_every_stream_asks_as_specified(x: StandIn, dialect: Dialect, stream: str) -> None:
    names = sent_by(x, dialect, stream=stream)
    assert set(names) == {SEARCH, "GET /2/tweets/counts/all"}
    assert names.count(SEARCH) > 2, "later pages, too"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "options",
    [
        {"day": YESTERDAY},
        {"endpoint": "recent", "day": YESTERDAY},
        {"split_rows": 20},
        {"post_fields": [], "expansions": [], "user_fields": [], "media_fields": []},
        {"post_fields": ["context_annotations"], "expansions": ["author_id"]},
        {"access_level": "enterprise", "queries": ["q" * 4000]},
    ],
    ids=",".join,
)
def test_every_option_is_asked_as_specified(x: StandIn, dialect: Dialect, options: dict[str, Any]) -> None:
    if options.get("access_level") == "enterprise":
        x.app = type(x.app)(level="enterprise")
    sent_by(x, dialect, **options)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_months_usage_is_asked_for_as_specified(x: StandIn, dialect: Dialect) -> None:
    with recorded_requests() as sent:
        assert "posts of this month are used up" in describe_usage(connection(x))
    assert [name_of(request, x_requests(dialect)) for request in sent] == ["GET /2/usage/tweets"]
    assert [problem for request in sent for problem in problems(request, x_requests(dialect))] == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("option", PARAMETERS)
def test_all_names_that_x_knows_may_be_asked_for_and_no_others(x: StandIn, dialect: Dialect, option: str) -> None:
    """Of a name that it does not know X says nothing, and bills the posts that lack it."""
    known = sorted(VOCABULARY[dialect][option])
    sent_by(x, dialect, **{option: known})
    with pytest.raises(ConfigError, match=rf"{option}: X knows no 'nonsense' with dialect='{dialect}'"):
        source(dialect=dialect, **{option: [*known, "nonsense"]})


def test_names_of_the_other_dialect_are_refused_with_their_own() -> None:
    for dialect in DIALECTS:
        with pytest.raises(ConfigError, match=r"post_fields: X knows no 'note_tweet' .*: write 'note_post'"):
            source(dialect=dialect, post_fields=["note_tweet"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_stand_in_knows_the_names_that_are_specified(dialect: Dialect) -> None:
    facts = x_requests(dialect)[SEARCH]["query"]
    for option, parameter in PARAMETERS.items():
        name = parameter.format(dialect=dialect)
        assert standins.KNOWN[dialect][name] == set(facts[name]["items"]), option


def test_what_x_has_as_an_expansion_alone_is_in_the_rows_of_either_dialect(x: StandIn) -> None:
    """https://github.com/0xFlimbo/attention-index: post.fields=author_id,referenced_posts is a 200 without either."""
    rows = {dialect: poll(x, dialect=dialect)[0] for dialect in DIALECTS}
    for columns in ("author_id", "edit_history", "in_reply_to_user_id"):
        values = {dialect: [row[columns] for row in rows[dialect]] for dialect in DIALECTS}
        assert values["post"] == values["tweet"]
        assert any(values["post"])
    assert found_by(rows["post"]) == found_by(rows["tweet"])


def test_the_older_names_bring_ids_without_the_users_that_x_bills(x: StandIn) -> None:
    rows, _ = poll(x, dialect="tweet", expansions=[])
    assert all(row["author_id"] and row["author"] is None for row in rows)
    assert any(row["referenced"] for row in rows)
    assert XSearchSource(conn_id="x", queries=["a"]).dialect == "tweet"
