"""Prints the demo's results, and checks that the table holds exactly what the stand-in served."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.demo.local_airflow import LocalAirflow
from tests.demo.origin import Origin, Served
from tests.demo.target import Target

_COLUMNS = ("day", "rows", "duplicates dropped", "MB read", "seconds", "generation")


def print_all(airflow: LocalAirflow, target: Target, origin: Origin, dates: list[dt.date]) -> bool:
    """Print days, offset and some rows; return whether the table agrees with the stand-in."""
    _print_days(_day_reports(airflow, target.dag_id, origin.task_id))
    _print_offsets(airflow)
    _print_rows(target)
    differences = compare(target.events(), origin.served, dates, target.as_kept)
    for line in differences:
        print(line)
    if not differences:
        print(f"\nThe table holds exactly what the stand-in served: {target.rows():,} rows on {len(dates)} days.")
    return not differences


def compare(
    events: Iterable[tuple[dt.date, str, str]],
    project: Served,
    dates: Iterable[dt.date],
    as_kept: Callable[[str], str],
) -> list[str]:
    """Compare a table's rows with what was served, day by day, as multisets; [] when they are equal.

    :param events: day, event and properties of every row.
    :param as_kept: returns what a table keeps of the properties' text; only that is compared.
    """
    found: dict[dt.date, Counter[str]] = {}
    for day, event, properties in events:
        found.setdefault(day, Counter())[f"{event}\0{as_kept(properties)}"] += 1
    lines = []
    for date in dates:
        want = Counter(f"{row['event']}\0{as_kept(_served(row['properties']))}" for row in project.expected_rows(date))
        have = found.pop(date, Counter())
        if want != have:
            missing, extra = (want - have).total(), (have - want).total()
            lines.append(f"{date}: {missing} rows missing, {extra} rows too many")
    lines += [f"{date}: {found[date].total()} rows of a day that nobody requested" for date in sorted(found)]
    return lines


def _served(properties: dict[str, Any]) -> str:
    return json.dumps(properties, ensure_ascii=False, separators=(",", ":"))


def _day_reports(airflow: LocalAirflow, dag_id: str, task_id: str) -> list[dict[str, Any]]:
    days = []
    for run in airflow.runs(dag_id):
        path = f"dags/{dag_id}/dagRuns/{run['dag_run_id']}/taskInstances/{task_id}/xcomEntries/return_value"
        value = airflow.api("GET", path)["value"]
        days += (json.loads(value) if isinstance(value, str) else value)["days"]
    return sorted(days, key=lambda day: str(day["day"]))


def _print_days(days: list[dict[str, Any]]) -> None:
    cells = [_COLUMNS]
    for day in days:
        seconds = day["poll_seconds"] + day["publish_seconds"]
        figures = (f"{day['rows_written']:,}", f"{day['duplicates']:,}", f"{day['raw_bytes'] / 1e6:.1f}")
        cells.append((day["day"], *figures, f"{seconds:.1f}", str(day["generation"])))
    widths = [max(len(row[column]) for row in cells) for column in range(len(_COLUMNS))]
    print()
    for row in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _print_offsets(airflow: LocalAirflow) -> None:
    for variable in airflow.api("GET", "variables?limit=100")["variables"]:
        if variable["key"].startswith("connect_offset/"):
            offset = json.loads(variable["value"])
            print(f"\nOffset {variable['key']}:\n  days {offset['days']}, position {offset['position']}")


def _print_rows(target: Target) -> None:
    print(f"\nThree rows, read with {target.reader}:")
    for row in target.sample():
        print("  " + " | ".join(str(value) for value in row))
    for line in target.more():
        print(line)
