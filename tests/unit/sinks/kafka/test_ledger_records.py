"""Which of a day's records counts, where no transaction decides, whoever reads them and whatever compaction left."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry, parse_record, select_counting_value

DAY = dt.date(2026, 10, 5)


def entry(attempt: str, generation: int, built_on: int | None, *beaten: str) -> DayEntry:
    row = LedgerRow(day=DAY, generation=generation, token=f"of-{attempt}", rows=1, attempt=attempt)
    return DayEntry(row=row, built_on=built_on, beaten=beaten)


def counts(*entries: DayEntry) -> str | None:
    values = [each.model_dump_json().encode() for each in entries]
    return parse_record(DayEntry, select_counting_value(values, "ledger"), "ledger").row.attempt


WINNER, LOSER = entry("winner", 2, 0), entry("loser", 1, 0)
FOLLOWER = entry("follower", 3, 2)


def test_of_two_that_were_decided_on_the_same_generation_the_first_counts() -> None:
    assert counts(WINNER, LOSER) == "winner"
    assert counts(LOSER, WINNER) == "loser"


def test_a_record_decided_on_the_counting_one_replaces_it() -> None:
    assert counts(WINNER, FOLLOWER) == "follower"
    assert counts(WINNER, LOSER, FOLLOWER) == "follower"


def test_the_winners_row_that_the_loser_writes_again_counts_for_every_reader() -> None:
    """Also for one from whom compaction has taken the first of them."""
    again = WINNER.rewritten_over(LOSER)
    assert counts(WINNER, LOSER, again) == "winner"
    assert counts(LOSER, again) == "winner"
    assert counts(again) == "winner"


def test_a_rewritten_record_does_not_replace_a_later_publish() -> None:
    again = WINNER.rewritten_over(LOSER)
    assert counts(WINNER, LOSER, FOLLOWER, again) == "follower"
    assert counts(WINNER, LOSER, FOLLOWER, again, FOLLOWER.rewritten_over(LOSER)) == "follower"
    assert counts(again, FOLLOWER.rewritten_over(LOSER)) == "follower"


@pytest.mark.parametrize("later", [[], [LOSER]])
def test_a_record_written_in_a_transaction_always_counts(later: list[DayEntry]) -> None:
    whole = entry("whole", 2, None)
    assert counts(WINNER, whole, *later) == "whole"
    assert counts(whole, LOSER, whole.rewritten_over(LOSER)) == "whole"
    assert counts(LOSER, whole.rewritten_over(LOSER)) == "whole"
    assert counts(whole, FOLLOWER, whole.rewritten_over(LOSER)) == "follower"


def confirmation(of: DayEntry, token: str, *, in_transaction: bool = False) -> DayEntry:
    row = of.row.model_copy(update={"checks": of.row.checks + 1, "token": token})
    return of.confirmation(row, in_transaction=in_transaction)


def counting(*entries: DayEntry) -> tuple[str, int]:
    row = parse_record(
        DayEntry, select_counting_value([each.model_dump_json().encode() for each in entries], "ledger"), "ledger"
    ).row
    return row.token, row.checks


def test_a_confirmation_repeats_what_is_published() -> None:
    spans = {"events": {0: (3, 9)}}
    published = WINNER.model_copy(update={"offsets": spans, "columns": {"event": "string"}, "beaten": ("x",)})
    made = confirmation(published, "sees it again")
    assert (made.offsets, made.columns, made.row.rows) == (spans, {"event": "string"}, 1)
    assert (made.beaten, [earlier.token for earlier in made.covered]) == ((), ["of-winner"])
    for token in ("of-winner", "sees it again"):
        found = made.row_for_intent(token)
        assert found is not None
        assert (found.generation, found.token) == (2, token)
    assert confirmation(made, "and again").row_for_intent("sees it again") is not None


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_confirmed_day_without_transactions_keeps_built_on(in_transaction: bool) -> None:
    """A reader takes it for an error if a day that a transaction wrote has more records than it says."""
    exact = confirmation(entry("whole", 2, None), "again", in_transaction=in_transaction)
    assert (exact.built_on is None) == in_transaction
    assert confirmation(WINNER, "again", in_transaction=in_transaction).built_on == 2


def test_a_publish_decided_before_a_confirmation_does_not_count_after_it() -> None:
    confirmed = confirmation(WINNER, "again")
    late, later = entry("late", 3, 2), entry("later", 3, 2).model_copy(update={"built_on_checks": 1})
    assert counting(WINNER, confirmed) == ("again", 1)
    assert counting(WINNER, confirmed, late) == ("again", 1)
    assert counting(WINNER, confirmed, later) == ("of-later", 0)
    assert counting(WINNER, late, confirmed) == ("of-late", 0)
    # What compaction leaves, once the loser has written the other one again.
    assert counting(late, confirmed.rewritten_over(late)) == ("again", 1)
    assert counting(confirmed, late.rewritten_over(confirmed)) == ("of-late", 0)


def test_of_two_confirmations_at_once_the_first_counts_also_when_it_is_written_again_behind_a_third() -> None:
    """All of them repeat the same publish, so they are told apart by their intents."""
    first, second = confirmation(WINNER, "first"), confirmation(WINNER, "second")
    third, again = confirmation(first, "third"), first.rewritten_over(second)
    assert counting(WINNER, first, second) == ("first", 1)
    assert counting(second, again) == ("first", 1)
    assert counting(WINNER, first, second, third, again) == ("third", 2)
    assert counting(again, third.rewritten_over(second)) == ("third", 2)


def test_a_late_record_of_an_intent_that_confirmed_once_more_takes_back_no_check() -> None:
    """The first driver of an intent sleeps, its next one confirms a later check: the first one's record says less."""
    asleep, other = confirmation(WINNER, "twice"), confirmation(WINNER, "other")
    awake = confirmation(other, "twice")
    assert counting(WINNER, other, awake, asleep) == ("twice", 2)
    assert counting(asleep, awake.rewritten_over(asleep)) == ("twice", 2)


def test_an_intent_that_lost_a_confirmation_may_win_a_later_one() -> None:
    """What the loser wrote again, or another one of a day that was reloaded since, may come in late."""
    first, lost = confirmation(WINNER, "first"), confirmation(WINNER, "again")
    copy, won = first.rewritten_over(lost), confirmation(first, "again")
    assert counting(WINNER, first, lost, won, copy) == ("again", 2)
    reloaded = entry("reloaded", 3, 2).model_copy(update={"built_on_checks": 1})
    assert counting(WINNER, first, lost, reloaded, confirmation(reloaded, "again"), copy) == ("again", 1)


def test_a_confirmation_in_a_transaction_is_written_again_as_what_it_followed() -> None:
    published, late = entry("whole", 2, None), entry("late", 3, 2)
    confirmed = confirmation(published, "again", in_transaction=True)
    assert counting(published, confirmed, late) == ("again", 1)
    assert counting(late, confirmed.rewritten_over(late)) == ("again", 1)
    follows = confirmation(confirmed, "third")
    assert counting(published, confirmed, late, follows, confirmed.rewritten_over(late)) == ("third", 2)


def test_a_record_of_an_earlier_version_was_never_confirmed() -> None:
    old = b'{"row":{"day":"2026-10-05","generation":2,"token":"t","rows":1,"attempt":"a"},"built_on":1,"beaten":[]}'
    found = parse_record(DayEntry, old, "ledger")
    assert (found.row.checks, found.row.answer, found.built_on_checks) == (0, None, 0)
    assert counting(found, confirmation(found, "again")) == ("again", 1)


def test_a_day_keeps_the_newest_of_its_earlier_generations() -> None:
    known = entry("first", 1, None)
    for generation in range(2, 80):
        known = entry(f"a{generation}", generation, None).model_copy(update={"covered": known.covered_generations()})
    assert [earlier.generation for earlier in known.covered] == list(range(78, 28, -1))
    found = known.row_for_intent("of-a40")
    assert found is not None
    assert (found.generation, found.day) == (40, DAY)
    assert known.row_for_intent("of-first") is None
    assert known.row_for_intent(known.row.token) == known.row
