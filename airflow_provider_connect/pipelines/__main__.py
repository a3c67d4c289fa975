"""Prints the JSON Schema of a pipeline file: ``python -m airflow_provider_connect.pipelines > schema.json``."""

from __future__ import annotations

import json
import sys

from airflow_provider_connect.pipelines.schema import schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
