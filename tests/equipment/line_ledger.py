"""The ledger of the tiny sinks: a file with one row a line."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from airflow_provider_connect.sink import Ledger, LedgerRow
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.window import DaySet


class LineLedger(Ledger):
    """Reads the file anew for each question, as other processes write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, row: LedgerRow) -> None:
        with self.path.open("a") as file:
            file.write(row.model_dump_json() + "\n")

    def rows(self) -> list[LedgerRow]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [LedgerRow.model_validate_json(line) for line in lines]

    def row(self, day: dt.date) -> LedgerRow | None:
        return next((row for row in reversed(self.rows()) if row.day == day), None)

    def erased(self) -> EraseList:
        lists = self.path.with_name("erased")
        return EraseList.model_validate_json(lists.read_text()) if lists.exists() else EraseList()

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        return next((row for row in reversed(self.rows()) if (row.day, row.token) == (day, token)), None)

    def days(self) -> DaySet:
        return DaySet.from_dates(row.day for row in self.rows())
