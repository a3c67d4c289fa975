"""The commit decision: what was published or confirmed since an attempt looked refuses it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.publishing import confirmed_row, is_unchanged, ledger_row, next_generation, seen_publish
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.window import Day

MAY = dt.date(2026, 5, 1)
NOON = dt.datetime(2026, 5, 2, 12, tzinfo=dt.UTC)
KEY = StreamKey(connector="c", stream="s")
NEWEST = LedgerRow(
    day=MAY, generation=3, checks=2, token="theirs", rows=7, run="d/theirs/t", attempt="x", digest="d", answer="a"
)


def publish(seen: SeenPublish, *, answer: str | None = "a", **more: Any) -> Publish:
    polled = PollResult(rows_written=9, digest="mine")
    manifest = Manifest(day=Day(date=MAY), attempt="y", fingerprint="f", polled=polled, seen=seen, polled_at=NOON)
    return Publish(
        key=KEY,
        day=manifest.day,
        intent=Intent(token="mine", run="d/mine/t", clear_number=1),
        manifest=manifest,
        schema=pa.schema([]),
        stage="/stage",
        answer=answer,
        **more,
    )


def test_what_was_seen_is_compared_with_its_checks() -> None:
    assert seen_publish(NEWEST) == SeenPublish(day=MAY, generation=3, checks=2)
    assert next_generation(publish(seen_publish(NEWEST)), NEWEST) == 4
    for checks in (1, 3):
        stale = publish(SeenPublish(day=MAY, generation=3, checks=checks))
        for decide in (next_generation, confirmed_row):
            with pytest.raises(OvertakenError, match="d/theirs/t has confirmed generation 3 since") as caught:
                decide(stale, NEWEST)
            assert (caught.value.by, caught.value.may_poll_again) == ("theirs", True)


def test_a_confirmation_changes_who_looked_last_and_nothing_of_the_data() -> None:
    row = confirmed_row(publish(seen_publish(NEWEST)), NEWEST)
    mine = {"checks": 3, "token": "mine", "run": "d/mine/t", "clear_number": 1, "polled_at": NOON}
    assert row == NEWEST.model_copy(update=mine)


def test_a_new_generation_is_confirmed_by_nobody() -> None:
    row = ledger_row(publish(seen_publish(NEWEST), answer="b"), 4)
    assert (row.generation, row.checks, row.answer, row.digest) == (4, 0, "b", "mine")


@pytest.mark.parametrize(
    ("newest", "more"),
    [
        (None, {}),
        (NEWEST.model_copy(update={"answer": "b"}), {}),
        (NEWEST.model_copy(update={"answer": None}), {"answer": None}),
        (NEWEST.model_copy(update={"day": MAY - dt.timedelta(days=1)}), {}),
        (NEWEST, {"kind": "snapshot"}),
    ],
    ids=["nothing", "another answer", "answers that nobody knows", "another day", "a snapshot"],
)
def test_what_is_not_known_to_be_the_same_is_not_confirmed(newest: LedgerRow | None, more: dict[str, Any]) -> None:
    answered = publish(seen_publish(newest), **more)
    assert not is_unchanged(answered, newest)
    with pytest.raises(OvertakenError):
        confirmed_row(answered, newest)
    assert is_unchanged(publish(seen_publish(NEWEST)), NEWEST)
