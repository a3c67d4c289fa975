"""Every test has a limit; tests/integration/house lets some reach it."""

from __future__ import annotations

import pytest


def test_this_very_test_has_a_limit(request: pytest.FixtureRequest):
    assert request.node.get_closest_marker("timeout") is None
    assert float(request.config.getini("timeout")) == 300
    assert request.config.pluginmanager.hasplugin("timeout")
