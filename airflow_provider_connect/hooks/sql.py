"""Removed command line. Prints its replacement."""

import sys

REPLACED = (
    "python -m airflow_provider_connect.hooks.sql is removed. Run: "
    'airflow connect check --source sql --options \'{"conn_id": "shop_db", "table": "orders"}\''
)

if __name__ == "__main__":
    sys.exit(REPLACED)
