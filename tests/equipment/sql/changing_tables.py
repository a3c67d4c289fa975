"""A database whose tables come, go, grow and change for days, and what each of them holds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.equipment.sql.fixtures import OwnDatabase

Row = tuple[int, ...]


@dataclass
class ChangingTables:
    """Tables ``t0``, ``t1``, …, and their rows by key.

    :ivar tables: the tables that are there.
    :ivar dropped: the last rows of the others.
    """

    database: OwnDatabase
    seed: int = 0
    tables: dict[str, dict[int, Row]] = field(default_factory=dict)
    dropped: dict[str, dict[int, Row]] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def add(self, count: int) -> None:
        """Create tables."""
        for _ in range(count):
            name = f"t{len(self.tables) + len(self.dropped)}"
            self.database.run(f"CREATE TABLE {name} (id int PRIMARY KEY, c1 int)")
            self.tables[name], self.widths[name] = {}, 1
            self._insert(name, self._random.randint(1, 30))

    def change(self) -> None:
        """Let a day pass: one table in three changes, some come and some go."""
        for name in self._random.sample(sorted(self.tables), max(1, len(self.tables) // 25)):
            self.database.run(f"DROP TABLE {name}")
            self.dropped[name] = self.tables.pop(name)
        for name in self._random.sample(sorted(self.tables), len(self.tables) // 3):
            self._random.choice([self._grow, self._update, self._delete, self._widen])(name)
        self.add(max(1, len(self.tables) // 25))

    def _insert(self, name: str, count: int) -> None:
        first = max(self.tables[name], default=0) + 1
        rows = [(number, *self._values(name)) for number in range(first, first + count)]
        self.tables[name] |= {row[0]: row for row in rows}
        self.database.run(f"INSERT INTO {name} VALUES {', '.join(str(row) for row in rows)}")

    def _grow(self, name: str) -> None:
        self._insert(name, self._random.randint(1, 50))

    def _update(self, name: str) -> None:
        for number in self._random.sample(sorted(self.tables[name]), len(self.tables[name]) // 2):
            row = (number, *self._values(name))
            self.tables[name][number] = row
            values = ", ".join(f"c{at} = {value}" for at, value in enumerate(row[1:], 1))
            self.database.run(f"UPDATE {name} SET {values} WHERE id = {number}")

    def _delete(self, name: str) -> None:
        for number in self._random.sample(sorted(self.tables[name]), len(self.tables[name]) // 4):
            del self.tables[name][number]
            self.database.run(f"DELETE FROM {name} WHERE id = {number}")

    def _widen(self, name: str) -> None:
        self.widths[name] += 1
        self.database.run(f"ALTER TABLE {name} ADD COLUMN c{self.widths[name]} int NOT NULL DEFAULT 7")
        self.tables[name] = {number: (*row, 7) for number, row in self.tables[name].items()}

    def _values(self, name: str) -> Row:
        return tuple(self._random.randint(0, 1000) for _ in range(self.widths[name]))
