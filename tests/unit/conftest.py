"""Fixtures of several rooms: small servers, and cheap digests."""

from __future__ import annotations

from tests.equipment.bigquery.server import closed, private_key, server, silent
from tests.equipment.key_digests import weak_key_digests

__all__ = ["closed", "private_key", "server", "silent", "weak_key_digests"]
