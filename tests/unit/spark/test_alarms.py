"""An alarm about lost rows stands in the ledger until it is answered: whole jobs, a real database and real tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher
from airflow_provider_connect.stage.notes import (
    Resumption,
    count_answers,
    newest_alarm,
    resumption_note,
)
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.spark.shop import FOLLOWED, MONDAY, TUESDAY, WEDNESDAY, Shop, refusal


class TestAlarm:
    """A table that begins anew under a stream that follows it."""

    def begin_anew(self, shop: Shop) -> None:
        shop.run(MONDAY, **FOLLOWED)
        shop.execute("DELETE FROM orders", "DELETE FROM sqlite_sequence")

    def test_an_alarm_stands_while_the_table_grows_past_the_old_position(self, shop: Shop) -> None:
        self.begin_anew(shop)
        assert "cannot be followed any more" in refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        said = refusal(shop.run(WEDNESDAY, **FOLLOWED))
        assert "an alarm about lost rows stands" in said
        assert "airflow connect resume dag load --from now" in said
        assert len(shop.rows()) == 4
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        assert alarm.number == 1

    def test_an_alarm_that_the_ledger_could_not_keep_is_raised_by_the_next_try(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.begin_anew(shop)

        def away(*_: Any) -> None:
            raise RetriableError("the store is away")

        with monkeypatch.context() as patched:
            patched.setattr(DeltaPublisher, "note", away)
            report = shop.run(TUESDAY, **FOLLOWED)
        assert [day.failure.type for day in report.days if day.failure] == ["RetriableError"]
        assert "cannot be followed any more" in refusal(shop.run(TUESDAY, **FOLLOWED))
        assert newest_alarm(shop.ledger.notes()) is not None

    def test_when_needed_answers_an_alarm_and_loads_all_rows_again(self, shop: Shop) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        assert shop.run(WEDNESDAY, **FOLLOWED, snapshot_mode="when_needed").failure is None
        assert sum(row.startswith("new-") for row in shop.rows()) == 15
        shop.order(WEDNESDAY, "newer")
        assert shop.run(WEDNESDAY + ONE_DAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == 16

    @pytest.mark.parametrize(("position_of", "loaded"), [("the end", 1), ("the third row", 13)])
    def test_a_person_answers_an_alarm_with_a_position(self, shop: Shop, position_of: str, loaded: int) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        position = alarm.position.replace("4", "15" if position_of == "the end" else "3")
        shop.publisher.note(resumption_note(Resumption(alarm=alarm.id, position=position), "cli/host/person"))
        shop.order(WEDNESDAY, "newer")
        assert shop.run(WEDNESDAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == loaded

    def test_the_last_answer_counts_also_if_it_was_given_before(self, shop: Shop) -> None:
        self.begin_anew(shop)
        refusal(shop.run(TUESDAY, **FOLLOWED))
        shop.order(TUESDAY, *(f"new-{number}" for number in range(15)))
        alarm = newest_alarm(shop.ledger.notes())
        assert alarm is not None
        for number in ("3", "15", "3"):
            answer = Resumption(
                alarm=alarm.id,
                position=alarm.position.replace("4", number),
                answers_before=count_answers(shop.ledger.notes(), alarm),
            )
            shop.publisher.note(resumption_note(answer, "cli/host/person"))
        assert shop.run(WEDNESDAY, **FOLLOWED).failure is None
        assert sum(row.startswith("new") for row in shop.rows()) == 12


def test_superseded_days_of_a_snapshot_are_not_to_be_loaded_again(tmp_path: Path) -> None:
    """Their reload would be refused, so that the list of them never ended."""
    shop = Shop(tmp_path)
    shop.order(MONDAY, "signup", "login")
    shop.run(MONDAY, snapshot="replace")
    shop.run(TUESDAY, snapshot="replace")
    report = shop.run(WEDNESDAY, snapshot="replace", where="event = 'signup'")
    text = " ".join([*report.warnings, *(warning for day in report.days for warning in day.warnings)])
    assert "Loaded otherwise: 1 of 1 published days" in text
    assert f"airflow connect plan dag load --changed --days {TUESDAY}..{TUESDAY}" in text
