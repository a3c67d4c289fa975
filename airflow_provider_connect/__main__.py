"""``python -m airflow_provider_connect …`` is ``airflow connect …``."""

from __future__ import annotations

import sys

from airflow.__main__ import main

if __name__ == "__main__":
    sys.argv = ["airflow", "connect", *sys.argv[1:]]
    main()  # type: ignore[no-untyped-call]
