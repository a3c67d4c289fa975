"""The shop's command line: ``python -m tests.standins.sql --file shop.db --date 2026-10-05 …``.

Writes the file and ends. There is no server, so the port is 0.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.standins.sql.shop import Shop


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file; return the exit code."""
    options = _parser().parse_args(arguments)
    Shop(options.seed, options.orders_per_day).write(options.file, options.date)
    if options.port_file:
        options.port_file.write_text("0\n")
    print(f"made-up orders of {len(options.date)} days are in {options.file}", flush=True)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sql-standin", description="A shop's database in a file of SQLite.")
    add = parser.add_argument
    add("--file", type=Path, required=True, help="the file to write")
    add("--date", type=dt.date.fromisoformat, action="append", default=[], help="a day with orders; may be repeated")
    add("--seed", type=int, default=0)
    add("--orders-per-day", type=int, default=2000)
    add("--port-file", type=Path, help="written when the file is there; holds 0")
    return parser


if __name__ == "__main__":
    sys.exit(main())
