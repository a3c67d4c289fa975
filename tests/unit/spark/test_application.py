"""How many tasks a local master runs at the same time."""

from __future__ import annotations

import pytest

from airflow_provider_connect.spark.application import local_master


@pytest.mark.parametrize(
    ("cores", "slots", "master"),
    [(2, 1, "local[2]"), (2, 4, "local[4]"), (16, 4, "local[16]")],
)
def test_a_local_master_has_a_slot_for_each_poll_and_never_fewer_than_cores(
    cores: int, slots: int, master: str
) -> None:
    assert local_master(cores, slots) == master
