"""Prints what each way to read a table loses: ``python tests/benchmarks/sql_losses.py [statements a day] [seeds]``.

The workload and the promises are those of tests/integration/sql/test_workload.py, which shows on real databases that
the package loads exactly these rows. docs/sql.md has the figures.
"""

from __future__ import annotations

import sys

from tests.equipment.sql.promises import WAYS, Losses, losses
from tests.equipment.sql.workload import workload

STATEMENTS = int(sys.argv[1]) if len(sys.argv) > 1 else 150
SEEDS = int(sys.argv[2]) if len(sys.argv) > 2 else 20


def span(found: list[int]) -> str:
    """Return the least and the most."""
    return f"{min(found)}" if min(found) == max(found) else f"{min(found)}-{max(found)}"


def main() -> None:
    played = [workload(seed, STATEMENTS) for seed in range(SEEDS)]
    late = span([sum(each.is_late for each in every) for every in played])
    print(f"{SEEDS} seeds; transactions: {span([len(every) for every in played])}, of which late: {late}")
    names = list(Losses.__dataclass_fields__)
    print(f"{'':42}" + "".join(f"{name:>14}" for name in names))
    for way in WAYS:
        found = [losses(every, way) for every in played]
        print(f"{way.name:42}" + "".join(f"{span([getattr(each, name) for each in found]):>14}" for name in names))


if __name__ == "__main__":
    main()
