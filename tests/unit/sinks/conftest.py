"""Fixtures of the sinks' tests."""

from __future__ import annotations

from tests.bigquery_server import closed, private_key, server, silent

__all__ = ["closed", "private_key", "server", "silent"]
