"""The conformance suite: what every source and every sink must do, for connectors anywhere.

A test file of yours takes it up::

    from airflow_provider_connect.testing import SinkConformance, SourceConformance, Target

    class TestMySource(SourceConformance):
        source = MySource(conn_id="my_default")

    class TestMySink(SinkConformance):
        def target(self, tmp_path):
            sink = MySink(path=str(tmp_path / "target"))
            return Target(sink=sink, rows=lambda: read_as_your_users_do(sink.path))

pytest collects the cases with these classes. Needs the extra ``testing``. The name of a case says what must hold; its
docstring says what it means for the data of users if it does not.
"""

from __future__ import annotations

import pytest

_SUITES = "bench confirmations connectors definitions differences faults gaps kinds polls races recovery sinks sources"
for _suite in _SUITES.split():
    # Else a failed assert would not show its values.
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

from airflow_provider_connect.testing.bench import Bench, Target  # noqa: E402
from airflow_provider_connect.testing.connectors import LOGIN, PASSWORD, ConnectorConformance  # noqa: E402
from airflow_provider_connect.testing.sinks import SinkConformance  # noqa: E402
from airflow_provider_connect.testing.sources import Served, SourceConformance  # noqa: E402

__all__ = [
    "LOGIN",
    "PASSWORD",
    "Bench",
    "ConnectorConformance",
    "Served",
    "SinkConformance",
    "SourceConformance",
    "Target",
]
