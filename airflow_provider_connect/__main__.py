"""``python -m airflow_provider_connect …``: the same as ``airflow connect …``."""

from __future__ import annotations

import sys

from airflow_provider_connect.cli.entry import main

if __name__ == "__main__":
    main(sys.argv[1:])
