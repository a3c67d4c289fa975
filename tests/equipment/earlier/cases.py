"""What this version must do with every target of an earlier version: a test class of each sink inherits these."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.job import DayReport, JobReport
from airflow_provider_connect.stage.notes import definitions_by_digest
from tests.equipment.earlier.scenes import Scene
from tests.equipment.earlier.stories import DAYS, Shop, require_all

FOLDER = Path(__file__).parent / "1.0.0rc1"
UNKNOWN_BEFORE = "days published before the ledger kept definitions: "


@dataclass
class Earlier:
    """A frozen target that is laid out, with the shop that it was loaded from.

    :param kept: all that was written down when it was frozen.
    :param people: reads the target as its users do: the person of every visible row.
    """

    shop: Shop
    scene: Scene
    kept: dict[str, Any]
    people: Callable[[Shop], Sequence[str]]

    def load(
        self,
        *days: Any,
        conn_id: str = "shop",
        task: str = "load",
        attempt: int = 1,
        clear_number: int = 0,
        **reading: Any,
    ) -> JobReport:
        """Run a job as this version's operator does: with a definition."""
        options = {**self.scene.reading, **reading}
        source = self.shop.source(options, conn_id)
        definition = build_definition(source, source.serialize(), self.shop.database(conn_id))
        return self.shop.load(
            *days,
            reading=options,
            conn_id=conn_id,
            task=task,
            attempt=attempt,
            clear_number=clear_number,
            definition=definition,
        )

    def load_one(self, day: Any, **how: Any) -> DayReport:
        (report,) = require_all(self.load(day, **how)).days
        return report

    def row(self, day: Any, conn_id: str = "shop") -> Any:
        with self.shop.publisher(conn_id) as publisher:
            return publisher.ledger.row(day)

    def visible(self) -> Counter[str]:
        return Counter(self.people(self.shop))

    def expected(self) -> Counter[str]:
        """Return whose rows must be visible: all orders, without those of the erased."""
        erased = {person for stream in self.kept["streams"].values() for person in stream["erased"]}
        people = [person for _, _, person, _ in [*self.shop.orders(), *self.scene.outlived] if person not in erased]
        return Counter(set(people) if self.scene.is_compacted else people)


def earlier_of(shop: Shop, scene: Scene, path: Path, people: Callable[[Shop], Sequence[str]]) -> Earlier:
    """Return the shop as it was when its target was frozen. The target is laid out already."""
    kept = json.loads(path.with_suffix(".json").read_text())
    for order in kept["orders"]:
        shop.execute(f"INSERT INTO orders VALUES {tuple(order)}")
    shop.runs = kept["runs"]
    return Earlier(shop, scene, kept, people)


class EarlierCases:
    """A subclass has a fixture ``target``: an :class:`Earlier` for each frozen target of a sink."""

    def test_the_ledger_says_what_it_said(self, target: Earlier) -> None:
        assert target.visible() == target.expected()
        erased = sorted({person for stream in target.kept["streams"].values() for person in stream["erased"]})
        for conn_id, kept in target.kept["streams"].items():
            recorded = target.shop.recorded(target.scene.kind, conn_id)
            for row in (*recorded["rows"].values(), recorded["newest"] or {}):
                assert row.pop("definition", None) is None
                assert (row.get("span") or {}).pop("run", None) is None
            assert recorded == kept | {"erased": erased}

    def test_the_next_day_is_loaded_and_says_once_that_nothing_is_known_of_the_days_before(
        self, target: Earlier
    ) -> None:
        newest, last = target.kept["streams"]["shop"]["newest"], len(target.kept["streams"]["shop"]["rows"])
        target.shop.order(DAYS[4], "ann", "eve")
        report = require_all(target.load(DAYS[4]))
        assert [text for text in report.warnings if "before" in text] == [
            f"{UNKNOWN_BEFORE}{last}. Their options cannot be compared"
        ]
        assert target.visible() == target.expected()
        row = target.row(DAYS[4])
        assert row.generation == 1
        if target.scene.kind == "increment":
            assert (row.span.number, row.span.after) == (newest["span"]["number"] + 1, newest["span"]["to"])
        with target.shop.publisher() as publisher:
            in_force, notes = publisher.ledger.definition_in_force(), publisher.ledger.notes()
        assert in_force is not None
        assert row.definition == in_force.digest
        assert list(definitions_by_digest(notes)) == [in_force.digest]

        target.shop.order(DAYS[5], "fay")
        assert require_all(target.load(DAYS[5])).warnings == ()
        assert target.visible() == target.expected()

    def test_from_then_on_definitions_are_compared(self, target: Earlier) -> None:
        target.shop.order(DAYS[4], "eve")
        target.load_one(DAYS[4])
        failure = target.load(DAYS[5], task="another", where="event = 'view'").failure
        assert failure is not None
        assert failure.type == "ConfigError"
        assert "where was null, and is event = … #" in failure.message

    def test_a_run_of_before_is_known_and_a_new_one_loads_its_day_again(self, target: Earlier) -> None:
        """An increment's day is loaded again by a clear of its run. Another run makes the next increment."""
        day, run = target.scene.reloaded
        kept, before = target.kept["streams"]["shop"]["rows"][str(day)], target.visible()
        target.shop.runs = run - 1
        assert target.load_one(day).status == "already_published"
        if target.scene.kind == "increment":
            target.shop.runs = run - 1
            report = target.load_one(day, clear_number=1)
        else:
            target.shop.runs = target.kept["runs"]
            report = target.load_one(day)
        assert report.status == "published"
        row = target.row(day)
        assert (row.generation, row.definition is None) == (kept["generation"] + 1, False)
        assert target.visible() == before == target.expected()
        assert (row.span and row.span.model_dump(exclude={"run"})) == kept["span"]

    def test_more_people_are_erased_and_all_stay_out(self, target: Earlier) -> None:
        column, kind = target.scene.erases_now, target.scene.kind
        if column is None:
            with pytest.raises(ConfigError, match=target.scene.refusal):
                target.shop.erase("bob", kind=kind)
            return
        assert target.shop.erase("bob", kind=kind, column=column)
        target.kept["streams"]["shop"]["erased"].append("bob")
        assert target.visible() == target.expected()
        target.shop.order(DAYS[4], "ann", "bob", "eve")
        target.load_one(DAYS[4])
        assert target.visible() == target.expected()
        for conn_id in target.scene.streams:
            assert "bob" in target.shop.recorded(kind, conn_id)["erased"]

    def test_every_stream_of_a_target_keeps_to_the_lists_of_all(self, target: Earlier) -> None:
        target.shop.order(DAYS[4], "ann", "gil")
        for conn_id in target.scene.streams:
            target.load_one(DAYS[4], conn_id=conn_id)
        assert target.visible() == target.expected()
