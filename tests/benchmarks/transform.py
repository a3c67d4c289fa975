"""What ``transform=`` costs: whole tasks with it, beside tasks of the same day without, one after the other.

The query that passes every column on is the dearest for its rows: all of them are read, and written again. Nothing is
asserted: seconds mean little on another machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from day import DAYS, Bench, Task, show, standin

from airflow_provider_connect.stage.transform import Transform

QUERIES = {
    "every column and row": "SELECT * FROM polled",
    "counts by event": "SELECT event, count(*) AS events, max(time) AS latest FROM polled GROUP BY event",
}


def show_one(name: str, withs: list[Task], withouts: list[Task]) -> None:
    """Print the figures of one query."""
    print(name)
    show("  whole cold task", [one.seconds for one in withs], "s")
    pairs = list(zip(withs, withouts, strict=True))
    show("  as a ratio to without", [one.seconds / other.seconds for one, other in pairs], "x")
    show("  the moving alone, as a ratio", [one.work_seconds / other.work_seconds for one, other in pairs], "x")
    show("  Spark SQL's start, and the check", [one.report.seconds["sql_session"] for one in withs], "s")
    seconds = [day.transform_seconds for one in withs for day in one.report.days if day.transform_seconds is not None]
    show("  transform, a day", seconds, "s")
    show("  peak memory of a Python process", [one.peak_mb for one in withs], "MB")


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="events of a day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    days = DAYS[:1]
    with tempfile.TemporaryDirectory() as folder, standin(options.events, days, options.cache) as url:
        bench = Bench(url, Path(folder))
        bench.task(days)  # makes the class-data archive
        withouts = []
        withs: dict[str, list[Task]] = {name: [] for name in QUERIES}
        for _ in range(options.rounds):
            withouts.append(bench.task(days))
            for name, query in QUERIES.items():
                withs[name].append(bench.task(days, transform=Transform(sql=query)))
        print(f"a day of {options.events:,} events")
        show("without a transform: whole cold task", [one.seconds for one in withouts], "s")
        show("  peak memory of a Python process", [one.peak_mb for one in withouts], "MB")
        for name, tasks in withs.items():
            show_one(name, tasks, withouts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
