"""Removed command line. Prints its replacement."""

import sys

REPLACED = (
    "python -m airflow_provider_connect.hooks.rest is removed. Run: "
    "airflow connect preview --source rest --options FILE --day YYYY-MM-DD, "
    "or airflow connect propose rest --path /v1/events --conn-id ID"
)

if __name__ == "__main__":
    sys.exit(REPLACED)
