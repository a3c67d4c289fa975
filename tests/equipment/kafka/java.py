"""Kafka's own Java classes, called from tests by way of py4j, which pyspark brings along."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.standins import server
from tests.standins.kafka_broker import VERSION, fetch_jars, java, spark_jars


def fetched(folder: Path = Path(sys.prefix) / "kafka-connect") -> Path:
    """Return the folder with Connect's converters and Kafka's clients; fetch them first if they are not there."""
    saying = f"Kafka Connect's JSON converter {VERSION} from Maven Central (20 MB, once)"
    return server.fetched_once(folder, VERSION, lambda empty: fetch_jars("connect-json", empty), saying)


@pytest.fixture(scope="session")
def kafka_java() -> Iterator[Any]:
    """``kafka_java.org.apache.kafka…`` is the Java class of that name, in a Java of the session's own; Avro's too."""
    (gate,) = spark_jars().glob("py4j-*.jar")
    (avro,) = (jar for jar in spark_jars().glob("avro-1*.jar"))
    jars = os.pathsep.join(str(jar) for jar in [*sorted((fetched() / "jars").glob("*.jar")), avro])
    port, token, process = launch_gateway(
        jarpath=str(gate),
        classpath=jars,
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1"],
        java_path=str(java()),
        enable_auth=True,
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)
