"""What Spark's driver imports for `sql_transform.py`, which gives it this file as `py_files`."""

import os

CUSTOMERS = f"{os.environ.get('CONNECT_DEMO_TABLE', '/tmp/shop')}_customers.parquet"  # noqa: S108  # a path of your own


def with_customers(orders):
    customers = orders.sparkSession.read.parquet(CUSTOMERS)
    return orders.join(customers.selectExpr("id AS customer", "name"), "customer", "left")
