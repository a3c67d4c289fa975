"""Removed command line. Prints its replacement."""

import sys

REPLACED = (
    "python -m airflow_provider_connect.hooks.propose is removed. Run: airflow connect propose mixpanel --conn-id ID"
)

if __name__ == "__main__":
    sys.exit(REPLACED)
