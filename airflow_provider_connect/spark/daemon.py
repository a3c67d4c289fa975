"""Parent of the Python workers on a local master: imports once, before it forks them, what every task needs."""

import importlib

from pyspark.daemon import manager

NEEDED = (
    "isal.isal_zlib",
    "msgspec",
    "numpy",
    "pyarrow.compute",
    "requests",
    "xxhash",
    "airflow_provider_connect.spark.poll",
)

if __name__ == "__main__":
    for name in NEEDED:
        importlib.import_module(name)
    manager()
