"""Warnings of MySQL and MariaDB after a read: warnings about cut values fail it, others do not."""

from __future__ import annotations

import pytest

from airflow_provider_connect.clients.sql.mysql.results import require_unchanged_values
from airflow_provider_connect.errors import DataError

PLACE = "connection 'shop_db'"


def test_every_kind_of_cut_value_is_named_once_with_its_remedy() -> None:
    with pytest.raises(DataError) as refused:
        require_unchanged_values([1292, 1287, 1292, 1260], 4, PLACE)
    assert str(refused.value).startswith(
        "connection 'shop_db': reading rows: the server warns that it cut or replaced values: GROUP_CONCAT was cut: "
        "raise max_allowed_packet, or aggregate less (warning 1260, 1 times); a text was converted to a number"
    )
    assert str(refused.value).endswith("(warning 1292, 2 times)")


def test_warnings_without_a_changed_value_are_ignored() -> None:
    require_unchanged_values([1287, 3719], 2, PLACE)


def test_an_incomplete_list_of_warnings_fails() -> None:
    with pytest.raises(DataError, match="of 70 warnings it lists only 2: raise max_error_count"):
        require_unchanged_values([1287, 1287], 70, PLACE)
