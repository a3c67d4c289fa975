"""Cheap digests of masks' keys. What a guess of a key costs is tested in ``unit/shapes``."""

from __future__ import annotations

import pytest


@pytest.fixture
def weak_key_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save 25 ms for each digest of a mask's key."""
    monkeypatch.setattr("airflow_provider_connect.shapes.digests._COST", 2)
