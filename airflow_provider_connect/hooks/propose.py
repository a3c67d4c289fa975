"""A removed command line, which names what replaces it."""

import sys

REPLACED = (
    "python -m airflow_provider_connect.hooks.propose is removed. Run: airflow connect propose mixpanel --conn-id ID"
)

if __name__ == "__main__":
    sys.exit(REPLACED)
