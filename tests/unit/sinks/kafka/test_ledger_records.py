"""Which of a day's records counts, where no transaction decides, whoever reads them and whatever compaction left."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger.records import Entry, parsed, standing

DAY = dt.date(2026, 10, 5)


def entry(attempt: str, generation: int, built_on: int | None, *beaten: str) -> Entry:
    row = LedgerRow(day=DAY, generation=generation, token=f"of-{attempt}", rows=1, attempt=attempt)
    return Entry(row=row, built_on=built_on, beaten=beaten)


def counts(*entries: Entry) -> str | None:
    values = [each.model_dump_json().encode() for each in entries]
    return parsed(Entry, standing(values, "ledger"), "ledger").row.attempt


WINNER, LOSER = entry("winner", 2, 0), entry("loser", 1, 0)
FOLLOWER = entry("follower", 3, 2)


def test_of_two_that_were_decided_on_the_same_generation_the_first_counts() -> None:
    assert counts(WINNER, LOSER) == "winner"
    assert counts(LOSER, WINNER) == "loser"


def test_who_follows_what_counts_counts_instead() -> None:
    assert counts(WINNER, FOLLOWER) == "follower"
    assert counts(WINNER, LOSER, FOLLOWER) == "follower"


def test_the_winners_row_that_the_loser_writes_again_counts_for_every_reader() -> None:
    """Also for one from whom compaction has taken the first of them."""
    again = WINNER.over(LOSER)
    assert counts(WINNER, LOSER, again) == "winner"
    assert counts(LOSER, again) == "winner"
    assert counts(again) == "winner"


def test_it_does_not_take_the_place_of_what_followed_meanwhile() -> None:
    again = WINNER.over(LOSER)
    assert counts(WINNER, LOSER, FOLLOWER, again) == "follower"
    assert counts(WINNER, LOSER, FOLLOWER, again, FOLLOWER.over(LOSER)) == "follower"
    assert counts(again, FOLLOWER.over(LOSER)) == "follower"


@pytest.mark.parametrize("later", [[], [LOSER]])
def test_what_a_transaction_wrote_was_decided_in_it(later: list[Entry]) -> None:
    whole = entry("whole", 2, None)
    assert counts(WINNER, whole, *later) == "whole"
    assert counts(whole, LOSER, whole.over(LOSER)) == "whole"
    assert counts(LOSER, whole.over(LOSER)) == "whole"
    assert counts(whole, FOLLOWER, whole.over(LOSER)) == "follower"


def test_a_day_keeps_the_newest_of_its_earlier_generations() -> None:
    known = entry("first", 1, None)
    for generation in range(2, 80):
        known = entry(f"a{generation}", generation, None).model_copy(update={"covered": known.now_covered()})
    assert [earlier.generation for earlier in known.covered] == list(range(78, 28, -1))
    found = known.published("of-a40")
    assert found is not None
    assert (found.generation, found.day) == (40, DAY)
    assert known.published("of-first") is None
    assert known.published(known.row.token) == known.row
