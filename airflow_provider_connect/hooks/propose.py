"""Proposes Mixpanel's option ``promote`` from a sample, on the command line.

::

    python -m airflow_provider_connect.hooks.propose mixpanel_default
    python -m airflow_provider_connect.hooks.propose mixpanel_default --stream engage --columns 20

It prints what :meth:`.MixpanelHook.propose_promote` returns: a dict to read, and to paste into the DAG file. It runs
where Airflow runs, or anywhere with the connection in the environment as ``AIRFLOW_CONN_<ID>``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from collections.abc import Sequence

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.hooks.mixpanel import MixpanelHook


def main(arguments: Sequence[str]) -> int:
    """Print a proposal; return the exit code, that of the error if there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_connect.hooks.propose",
        description="Propose MixpanelSource's option promote from a sample. Costs a query of the project's hour.",
    )
    parser.add_argument("conn_id", nargs="?", default=MixpanelHook.default_conn_name, help="the Airflow connection")
    parser.add_argument("--stream", choices=("export", "engage"), default="export", help="events, or profiles")
    parser.add_argument(
        "--day", type=dt.date.fromisoformat, help="whose events to look at, as YYYY-MM-DD; yesterday in UTC by default"
    )
    parser.add_argument("--records", type=int, default=1000, help="how many records to look at (default: 1000)")
    parser.add_argument("--columns", type=int, default=50, help="how many columns to propose at most (default: 50)")
    asked = parser.parse_args(arguments)
    hook = MixpanelHook(asked.conn_id)
    try:
        proposal = hook.propose_promote(asked.stream, asked.day, records=asked.records, columns=asked.columns)
    except ConnectError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{proposal}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
