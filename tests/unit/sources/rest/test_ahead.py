"""The next page is asked for while rows are made of this one: faster, and nothing else is different."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from airflow_provider_connect.clients.http.network import Network
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._rest.building.rows import RowBuilder
from airflow_provider_connect.sources.rest import LastKey, PageNumber, RestSource
from tests.equipment.rest_api.items import DATE, items_of
from tests.equipment.rest_api.reading import DAY, declared, ids, read
from tests.equipment.rest_api.server import Answer, Request, RestApi

NUMBERED = declared("/pages", PageNumber(ends="short_page"))
SOON_SECONDS = 5.0


def polling(api: RestApi, source: RestSource) -> Any:
    """Return the rows of a day, a page at a time."""
    poller = source.open(api.connection, PollContext())
    (part,) = poller.plan([DAY])
    return closing(poller.poll(part, Tally(part.days)))  # type: ignore[type-var]  # a generator


def second(answer: Callable[[], Answer]) -> Callable[[Request], Answer | None]:
    return lambda asked: answer() if asked.first("page") == "2" else None


def bad(asked: Request) -> Answer | None:
    """Answer with a first page whose first record is no row."""
    return Answer([{"id": "x"}, *items_of(DATE, 9)]) if asked.first("page") == "1" else None


@pytest.fixture
def hanging() -> Iterator[Callable[[Request], Answer | None]]:
    """A second page that does not come until the test is over."""
    over = threading.Event()

    def wait() -> Answer:
        over.wait(60)
        return Answer([])

    yield second(wait)
    over.set()


def test_rows_are_made_while_the_next_page_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    has_come = threading.Event()
    alone: list[int] = []
    rows = RowBuilder.build_rows

    def late(self: RowBuilder, *args: Any) -> Any:
        if not has_come.wait(SOON_SECONDS):
            alone.append(len(args[0].records))
        return rows(self, *args)

    monkeypatch.setattr(RowBuilder, "build_rows", late)
    with RestApi() as api:
        api.faults.append(second(lambda: has_come.set() or Answer(items_of(DATE, 3, 50))))  # type: ignore[func-returns-value]
        assert len(ids(read(api, NUMBERED))) == 13
    assert alone == []


def test_an_error_of_the_next_page_comes_after_the_rows_of_this_one() -> None:
    with RestApi() as api:
        api.faults.append(second(lambda: Answer({}, 400)))
        with polling(api, NUMBERED) as batches:
            time.sleep(0.1)
            assert next(batches)[1].num_rows == 10
            with pytest.raises(ConfigError, match="answered 400"):
                next(batches)


def test_a_bad_record_of_this_page_counts_before_an_error_of_the_next_one() -> None:
    with RestApi() as api:
        api.faults += [bad, second(lambda: Answer({}, 400))]
        with polling(api, NUMBERED) as batches, pytest.raises(DataError, match="is no bigint"):
            next(batches)


def test_what_is_wrong_with_the_end_comes_after_the_rows_too() -> None:
    source = declared("/last", LastKey(param="after", ends="empty_page", field="gone"), at="data")
    with RestApi() as api, polling(api, source) as batches:
        assert next(batches)[1].num_rows == 10
        with pytest.raises(Exception, match="names no next page"):
            next(batches)


@pytest.mark.parametrize("is_bad", [True, False])
def test_nobody_waits_for_a_page_that_is_not_wanted_any_more(
    is_bad: bool, hanging: Callable[[Request], Answer | None]
) -> None:
    with RestApi() as api:
        api.faults += [bad, hanging] if is_bad else [hanging]
        began = time.monotonic()
        with polling(api, NUMBERED) as batches:
            if is_bad:
                with pytest.raises(DataError):
                    next(batches)
            else:
                next(batches)
        assert time.monotonic() - began < SOON_SECONDS
        assert not [one for one in threading.enumerate() if one.name == "prefetch"]


def test_all_pages_come_over_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[str] = []
    connect = Network.connect_tcp

    def counted(self: Network, host: str, port: int, timeout: float | None = None) -> Any:
        dialled.append(host)
        return connect(self, host, port, timeout)

    monkeypatch.setattr(Network, "connect_tcp", counted)
    with RestApi() as api:
        assert ids(read(api, NUMBERED)) == list(range(1, 36))
        assert len(api.asked) == 4
    assert len(dialled) == 1
