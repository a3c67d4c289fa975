"""Fixtures of several rooms: small servers."""

from __future__ import annotations

from tests.equipment.bigquery.server import closed, private_key, server, silent

__all__ = ["closed", "private_key", "server", "silent"]
