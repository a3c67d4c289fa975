"""A mistyped table is refused with the table that was probably meant."""

from __future__ import annotations

import pytest

from airflow_provider_connect.clients.sql.database import Table
from airflow_provider_connect.errors import ConfigError
from tests.equipment.sql.fixtures import OwnDatabase

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["ordres", "Orders", "order"])
def test_the_nearest_table_is_suggested(every: OwnDatabase, name: str) -> None:
    every.run("CREATE TABLE orders (id int)", "CREATE TABLE customers (id int)")
    if (
        every.server.kind != "PostgreSQL"
        and name == "Orders"
        and every.run("SELECT @@lower_case_table_names") != [(0,)]
    ):
        pytest.skip("this server's names have no case")
    with pytest.raises(ConfigError, match=r"there is no table .*Did you mean 'orders'\?"):
        every.open().describe(Table(name))


def test_a_table_of_another_schema_is_suggested(postgresql: OwnDatabase) -> None:
    postgresql.run("CREATE SCHEMA shop", "CREATE TABLE shop.orders (id int)")
    with pytest.raises(ConfigError, match=r"Did you mean 'shop\.orders'\?"):
        postgresql.open().describe(Table("orders"))


def test_without_a_similar_table_nothing_is_suggested(every: OwnDatabase) -> None:
    every.run("CREATE TABLE zebra (id int)")
    with pytest.raises(ConfigError, match="there is no table") as refused:
        every.open().describe(Table("orders"))
    assert "zebra" not in str(refused.value)
