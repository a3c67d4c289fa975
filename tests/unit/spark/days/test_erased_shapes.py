"""An erase list that names people by what shapes made of them: loads under other shapes, or keys, are refused."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes import Chain
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.stage.erase_list import EraseList
from tests.equipment.spark.lab import DAY, Lab

KEYS = {"key": "0123456789abcdef-first", "other": "0123456789abcdef-other"}
MASK: tuple[dict[str, Any], ...] = ({"mask": {"columns": ["n"], "conn_id": "key"}},)


def hashed(text: str, key: str = KEYS["key"]) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def erase_masked(lab: Lab, *ids: str, shape: Any = MASK) -> None:
    """Put people on the list as an erase of masked rows does."""
    connections = {name: Connection(conn_id=name, password=SecretStr(key)) for name, key in KEYS.items()}
    shaping, path = Shaping(Chain.of(shape), connections), lab.root / "erased"
    listed = EraseList.model_validate_json(path.read_text()) if path.exists() else EraseList()
    values = [hashed(each) for each in ids]
    path.write_text(listed.with_values("n", values, shaping.column_digest).model_dump_json())


def test_erased_people_are_left_out_under_the_same_shapes_and_key(lab: Lab) -> None:
    erase_masked(lab, "1")
    report = lab.move(shape=MASK, keys=KEYS)
    assert (report.status, report.rows_written, report.counts["erased"]) == ("published", 2, 1)


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        (MASK, KEYS | {"key": KEYS["other"]}),
        (({"mask": {"columns": ["n"], "conn_id": "other"}},), KEYS),
        (({"mask": {"columns": ["n"], "mode": "redact"}},), KEYS),
        ((), KEYS),
        (({"cast": {"columns": {"n": "STRING"}}}, *MASK), KEYS),
    ],
    ids=["a changed key", "another connection", "another mode", "without the mask", "a cast before it"],
)
def test_under_other_shapes_or_keys_an_erase_list_stops_the_poll(lab: Lab, shape: Any, keys: dict[str, str]) -> None:
    """A changed key, mode, or a mask taken out brought all rows of a person back."""
    erase_masked(lab, "1")
    report = lab.move(shape=shape, keys=keys)
    assert (report.status, lab.polls) == ("failed", 0)
    assert report.failure is not None
    assert report.failure.type == "ConfigError"
    for way_out in ("its earlier shapes and key", "load into a new target", "empty the erase list"):
        assert way_out in report.failure.message
    assert KEYS["key"] not in report.failure.message


def test_the_same_key_under_another_name_is_the_same(lab: Lab) -> None:
    erase_masked(lab, "1")
    report = lab.move(shape=({"mask": {"columns": ["n"], "conn_id": "again"}},), keys={"again": KEYS["key"]})
    assert (report.status, report.rows_written) == ("published", 2)


def test_a_retry_from_a_stage_that_was_masked_under_the_old_key_does_not_publish(lab: Lab) -> None:
    failed = lab.move(shape=MASK, keys=KEYS, sink=("begin:RetriableError",))
    assert failed.status == "failed"
    assert lab.manifest().exists()
    report = lab.move(shape=MASK, keys={"key": KEYS["other"]}, attempt="2")
    assert (report.status, lab.polls) == ("published", 2)
    assert lab.ledger.row(DAY.date).attempt.startswith("aaaa-2")


def test_a_retry_under_the_same_key_publishes_from_the_stage(lab: Lab) -> None:
    lab.move(shape=MASK, keys=KEYS, sink=("begin:RetriableError",))
    report = lab.move(shape=MASK, keys=KEYS, attempt="2")
    assert (report.status, lab.polls) == ("published", 1)


def test_people_who_were_erased_before_the_mask_stay_out_beside_those_after_it(lab: Lab) -> None:
    path = lab.root / "erased"
    path.write_text(EraseList().with_values("n", ["0"]).model_dump_json())
    erase_masked(lab, "1")
    report = lab.move(shape=MASK, keys=KEYS)
    assert (report.status, report.rows_written, report.counts["erased"]) == ("published", 1, 2)


def test_a_list_of_an_earlier_version_goes_on_working(lab: Lab) -> None:
    (lab.root / "erased").write_text(EraseList().with_values("n", ["1"]).model_dump_json(exclude={"shaping", "others"}))
    assert lab.move(shape=MASK, keys=KEYS).rows_written == 2
