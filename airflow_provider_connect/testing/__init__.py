"""Conformance suite: the behaviour required of every source and sink, for connectors in any package.

Use it in a test file of your own::

    from airflow_provider_connect.testing import SinkConformance, SourceConformance, Target

    class TestMySource(SourceConformance):
        source = MySource(conn_id="my_default")

    class TestMySink(SinkConformance):
        def target(self, tmp_path):
            sink = MySink(path=str(tmp_path / "target"))
            return Target(sink=sink, rows=lambda: read_as_your_users_do(sink.path))

pytest collects the inherited cases. Install the extra ``testing``.
"""

from __future__ import annotations

import pytest

_SUITES = (
    "bench confirmations connectors definitions differences faults gaps increments kinds merges polls races recovery "
    "sinks sources"
)
for _suite in _SUITES.split():
    # Without it, a failed assert does not show its values.
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

from airflow_provider_connect.testing.bench import Bench, Target  # noqa: E402
from airflow_provider_connect.testing.connectors import LOGIN, PASSWORD, ConnectorConformance  # noqa: E402
from airflow_provider_connect.testing.merges import MergeConformance  # noqa: E402
from airflow_provider_connect.testing.sinks import SinkConformance  # noqa: E402
from airflow_provider_connect.testing.sources import Served, SourceConformance  # noqa: E402

__all__ = [
    "LOGIN",
    "PASSWORD",
    "Bench",
    "ConnectorConformance",
    "MergeConformance",
    "Served",
    "SinkConformance",
    "SourceConformance",
    "Target",
]
