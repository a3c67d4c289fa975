"""What a source must do that polls several days with one request: each of them is the day that it is alone."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.registry import days_per_plan
from airflow_provider_connect.source import PollContext, Source
from airflow_provider_connect.testing.faults import FaultyServer
from airflow_provider_connect.testing.polls import Served, attempt, poll, secrets_in, through
from airflow_provider_connect.window import ONE_DAY, Day

_MOST = 3


class TogetherCases:
    """Cases for sources whose poller is a :class:`.SeveralDaysARequest`; they need ``source`` and ``there``."""

    @pytest.fixture
    def days(self, source: Source, there: Served) -> list[Day]:
        """Return the served day and those before it; the case is skipped for a source that plans each day alone."""
        with source.open(there.connection, PollContext()) as poller:
            count = min(days_per_plan(poller), _MOST)
        if count == 1:
            pytest.skip("days_per_plan is 1: no request serves several days")
        return [Day(date=there.day.date - ago * ONE_DAY, zone=there.day.zone) for ago in reversed(range(count))]

    def test_days_of_one_plan_are_those_of_a_plan_each(self, source: Source, there: Served, days: list[Day]) -> None:
        """A day that is reloaded alone must be the same day: a row that moved would be there twice, or never."""
        together = poll(source, there.connection, *days)
        apart: Counter[str] = Counter()
        for day in days:
            apart += poll(source, there.connection, day).rows
        assert sum(apart.values()) >= there.rows
        assert ((together.rows - apart) + (apart - together.rows)).total() == 0

    def test_each_of_several_days_is_planned(self, source: Source, there: Served, days: list[Day]) -> None:
        """One that is forgotten would be taken for an empty day."""
        with source.open(there.connection, PollContext()) as poller:
            parts = poller.plan(days)
            assert parts == poller.plan(days)
        assert {day for part in parts for day in part.days} == set(days)

    @pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
    def test_a_cut_answer_of_several_days_is_never_a_short_day(
        self, source: Source, there: Served, days: list[Day], http_port: int, share: float
    ) -> None:
        """Whichever day the rows belong to that did not come: all of them are asked for again."""
        with FaultyServer(behind=http_port) as proxy:
            whole = poll(source, through(proxy, there), *days).rows
            size = proxy.passed
        with FaultyServer(behind=http_port, cut_after=min(int(size * share), size - 1)) as proxy:
            brought, error = attempt(lambda: poll(source, through(proxy, there), *days))
        # The very last bytes may be such that all rows came before.
        is_whole = brought is not None and not ((brought.rows - whole) + (whole - brought.rows)).total()
        assert is_whole or isinstance(error, RetriableError), error
        assert not secrets_in(error, there)
