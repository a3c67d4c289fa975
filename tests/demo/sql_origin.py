"""The demo's database: a shop in a file of SQLite, and the Delta tables that it goes into."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.demo.delta_target import DeltaTarget
from tests.demo.origin import Origin
from tests.demo.target import Target
from tests.standins.sql.shop import Shop

SHOP = Shop(seed=7)


class SqlDeltaTarget(DeltaTarget):
    """A Delta table of orders; one of customers lies beside it."""

    dag_id: ClassVar[str] = "sql_daily"
    table: ClassVar[str] = "shop_orders"

    @property
    def settings(self) -> dict[str, str]:
        """How the paths of both tables begin."""
        return {"CONNECT_DEMO_TABLE": self.path.removesuffix("_orders")}

    def events(self) -> list[tuple[dt.date, str, str]]:
        """Return day, product and all columns of every order, as JSON."""
        rows = self._select("select day, id, customer, product, cents, created_at from events")
        names = ("id", "customer", "product", "cents", "created_at")
        return [
            (
                day,
                values[2],
                json.dumps(dict(zip(names, map(_plain, values), strict=True)), separators=(",", ":")),
            )
            for day, *values in rows
        ]

    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest orders."""
        return self._select("select day, id, customer, product, cents, created_at from events order by id limit 3")


class SqlOrigin(Origin):
    """The shop that the example DAG ``sql_daily`` reads."""

    name: ClassVar[str] = "sql"
    title: ClassVar[str] = "shop's"
    things: ClassVar[str] = "orders, in a file of SQLite"
    task_id: ClassVar[str] = "orders"
    module: ClassVar[str] = "tests.standins.sql"

    def __init__(self) -> None:
        self._file = Path("shop.db")

    @property
    def targets(self) -> Mapping[str, type[Target]]:
        """The Delta table."""
        return {SqlDeltaTarget.name: SqlDeltaTarget}

    @property
    def served(self) -> Shop:
        """The shop."""
        return SHOP

    def arguments(self, folder: Path, dates: Iterable[dt.date], secret_variable: str) -> list[str]:
        """Return where to write the file, and which days."""
        self._file = (folder / "shop.db").resolve()
        days = [argument for date in dates for argument in ("--date", str(date))]
        return ["--file", str(self._file), "--seed", str(SHOP.seed), *days]

    def connection(self, port: int, secret: str) -> dict[str, Any]:
        """Return the connection ``shop_db``."""
        return {"connection_id": "shop_db", "conn_type": "sqlite", "host": str(self._file)}


def _plain(value: Any) -> Any:
    return value.isoformat(" ") if isinstance(value, dt.datetime) else value
