"""A Spark connection's master is checked before Spark starts."""

from __future__ import annotations

import socket
import time

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.submit.master import require_master


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[2,3]", "local-cluster[1,1,512]", "yarn", "k8s://https://host:443"],
)
def test_masters_that_need_no_connection_pass(master: str) -> None:
    require_master("spark_default", master)


@pytest.mark.parametrize("master", ["sprak://x", "", "local[x]", "mesos://host", "yarn-client", "http://host:7077"])
def test_a_master_of_no_known_form_is_refused(master: str) -> None:
    with pytest.raises(
        ConfigError, match=r"Spark connection 'spark_one': .* is not a master of Spark. Use local\[\*\]"
    ):
        require_master("spark_one", master)


def test_an_unknown_host_is_refused_in_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"'spark_one'.*host 'nowhere.invalid' is unknown.*Correct the connection's"):
        require_master("spark_one", "spark://nowhere.invalid:7077")
    assert time.monotonic() - began < 10


def test_a_closed_port_is_retriable_and_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        port = open_port.getsockname()[1]
        require_master("spark_one", f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(RetriableError, match=r"127.0.0.1:1 does not accept connections \(ConnectionRefusedError\)"):
        require_master("spark_one", "spark://127.0.0.1:1,nowhere.invalid:7077")
    with pytest.raises(RetriableError, match="does not accept connections"):
        require_master("spark_one", "spark://127.0.0.1:port")
