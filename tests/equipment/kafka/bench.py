"""A whole Kafka sink at work, with a reader of committed records that watches all the time.

The reader must never see part of what one transaction wrote into a partition, a record twice, or an end that it cannot
pass once everybody is done.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks.kafka import KafkaSink
from tests.equipment.frozen import MONDAY, events, freeze
from tests.equipment.kafka.fixtures import records
from tests.equipment.kafka.proxy import Api, KafkaProxy
from tests.equipment.kafka.steps import Steps

PARTITIONS = 3
CATCH_UP_SECONDS = 30.0
READ_SECONDS = 120.0
SILENCE_SECONDS = 4.0
READY_SECONDS = 60.0


def connection_to(bootstrap: str, **settings: Any) -> Connection:
    """Return a connection; the ``__`` in names of settings stand for dots."""
    extra = {name.replace("__", "."): value for name, value in settings.items()}
    return Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": bootstrap} | extra)


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    """Make a topic and wait until it is there; the ``__`` in names of settings stand for dots."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {setting.replace("__", "."): value for setting, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, config=settings)])[name].result(20)
    _wait_until_listed(admin, name, there=True)


def drop_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([name])[name].result(20)
    _wait_until_listed(admin, name, there=False)


def set_topic(bootstrap: str, name: str, **config: str) -> None:
    """Change settings of a topic that is there."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entries = [
        ConfigEntry(setting.replace("__", "."), value, incremental_operation=AlterConfigOpType.SET)
        for setting, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def _wait_until_listed(admin: AdminClient, name: str, *, there: bool) -> None:
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while (name in admin.list_topics(timeout=10).topics) != there:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _wait(behind: Callable[[], str], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while where := behind():
        assert time.monotonic() < deadline, f"readers are held up by {what}: {where}"
        time.sleep(0.01)


class Watch:
    """Reads committed records of one topic in a thread, and remembers what it saw at each end of a partition.

    :param events: of each partition, day and generation, how often each event was seen.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        self.events: dict[tuple[int, str, int], Counter[str]] = defaultdict(Counter)
        self.torn: list[str] = []
        self._ends: dict[int, int] = {}
        self._next: dict[int, int] = defaultdict(int)
        self._seen: dict[tuple[int, str, int], int] = {}
        self._lock, self._stopping = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        if exc[0] is None:
            assert self.torn == []

    def consumer(self, isolation: str = "read_committed") -> Consumer:
        own = {"group.id": uuid.uuid4().hex, "isolation.level": isolation, "enable.partition.eof": True}
        own |= {"bootstrap.servers": self.bootstrap, "enable.auto.commit": False, "auto.offset.reset": "error"}
        own |= {"fetch.wait.max.ms": 10, "log_level": 0, "reconnect.backoff.max.ms": 200}
        return Consumer(own)

    def _run(self) -> None:
        """Read on from where it was; who is started anew does not hang where the broker died under an older one."""
        patience = SILENCE_SECONDS
        while not self._stopping.is_set():
            # One that heard nothing at all may have been too slow, on a busy machine: the next one has longer.
            patience = SILENCE_SECONDS if self._read_until_silence(patience) else 2 * patience

    def _read_until_silence(self, seconds: float) -> bool:
        """Return whether there was a record or an end. Errors are silence: they come as long as a broker is away."""
        reader = self.consumer()
        began = heard = time.monotonic()
        try:
            reader.assign([TopicPartition(self.topic, number, self._next[number]) for number in range(PARTITIONS)])
            while not self._stopping.is_set() and time.monotonic() - heard < seconds:
                for message in reader.consume(1000, 0.05):
                    if self._take(message):
                        heard = time.monotonic()
        finally:
            reader.close()
        return heard > began

    def _take(self, message: Any) -> bool:
        """Return whether it is a record or an end of a partition."""
        error, partition = message.error(), message.partition()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                return False
            self._look(partition, message.offset())
            return True
        self._next[partition] = message.offset() + 1
        told = dict(message.headers() or [])
        if told:  # else of a test that looks for itself
            place = (partition, told["connect.day"].decode(), int(told["connect.generation"]))
            with self._lock:
                self.events[place][message.key().decode()] += 1
        return True

    def _look(self, partition: int, end: int) -> None:
        with self._lock:
            for place, found in self.events.items():
                if place[0] == partition and self._seen.setdefault(place, found.total()) != found.total():
                    self.torn.append(f"partition, day, generation {place}: {self._seen[place]}, then {found.total()}")
            self._ends[partition] = end

    def look_away(self) -> None:
        """Stop: what comes now is not what a transaction promises."""
        self._stopping.set()
        self._thread.join(20)

    def caught_up(self) -> None:
        """Wait until all that was ever written is read; fail if an open transaction is in the way.

        The broker says how far readers of committed records may go, which is the promise. That this one gets there is
        another matter: it starts anew where it hangs, and fails only if no fresh one can read on either.
        """
        high = self._readable("read_uncommitted")
        _wait(lambda: self._behind(self._readable("read_committed"), high), CATCH_UP_SECONDS, "an open transaction")
        _wait(lambda: self._behind(self._ends, high), READ_SECONDS, "reading")

    def _readable(self, isolation: str) -> dict[int, int]:
        """Return each partition's end for readers of committed records, from the broker."""
        other = self.consumer(isolation)
        try:
            places = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
            return {place.partition: other.get_watermark_offsets(place, timeout=10)[1] for place in places}
        finally:
            other.close()

    @staticmethod
    def _behind(ends: dict[int, int], high: dict[int, int]) -> str:
        """Return how far ends are behind; empty if none is."""
        behind = any(ends.get(partition, 0) < end for partition, end in high.items())
        return f"at {ends} of {high}" if behind else ""

    def generations_of(self, day: dt.date) -> dict[int, Counter[str]]:
        """Return the events seen of a day, by generation."""
        found: dict[int, Counter[str]] = defaultdict(Counter)
        with self._lock:
            for (_, name, generation), counted in self.events.items():
                if name == str(day):
                    found[generation] += counted
        return found


@dataclass(frozen=True)
class SinkBench(Steps):
    """A sink with its connections and a watched topic.

    :param bootstrap: the broker's address without the proxy.
    """

    sink: KafkaSink
    connection: Connection
    bootstrap: str
    root: Path
    watch: Watch

    @property
    def connections(self) -> dict[str, Connection]:
        return {self.sink.conn_id: self.connection}

    def having(self, **options: Any) -> SinkBench:
        """Return the same bench with other options of the sink, which are not checked."""
        return replace(self, sink=self.sink.model_copy(update=options))

    def through(self, proxy: KafkaProxy) -> SinkBench:
        """Return the same bench, which reaches the broker through a proxy and reconnects fast."""
        quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
        own = {name: value for name, value in self.connection.extra.items() if name != "bootstrap.servers"}
        return replace(self, connection=connection_to(proxy.bootstrap, **own | quick))

    def naming(self, api: Api) -> bytes:
        """Return bytes that only calls about the data contain, not those for the claim in the ledger."""
        return self.sink.topic.encode() if api in (Api.PRODUCE, Api.ADD_PARTITIONS_TO_TXN) else b"connect-"

    def stage(self, day: dt.date, *files: pa.Table, **how: Any) -> Publish:
        """Look into the ledger, without the proxy, and freeze a day, as a driver does."""
        if "seen" not in how:
            straight = replace(self, connection=connection_to(self.bootstrap))
            how["seen"] = seen_publish(straight.ledger.newest(day, "day"))
        return freeze(self.root, day, *files, **how)

    def publish(self, staged: Publish) -> LedgerRow:
        """Take the steps of the driver and the executors; after an error, clean up nothing."""
        row = self.ledger.published(staged.day.date, staged.intent.token)
        if row is not None:
            return row
        token = self.begin(staged)
        receipts = self.put(token, staged)
        return self.publisher.commit(staged, token, receipts)

    def publish_at_last(self, staged: Publish, tries: int = 4) -> LedgerRow:
        """Publish as Airflow does, with retries."""
        for _ in range(tries - 1):
            with contextlib.suppress(RetriableError):
                return self.publish(staged)
        return self.publish(staged)

    def records(self, day: dt.date, isolation: Any = "read_committed") -> list[Any]:
        """Return a day's records of all generations, as a new reader sees them."""
        found = records(self.bootstrap, self.sink.topic, isolation)
        return [each for each in found if each.headers.get("connect.day") == str(day)]

    def holds(self, day: dt.date, *generations: tuple[str, ...]) -> LedgerRow:
        """Fail unless the day's generations have these events once each, for every reader, and the ledger says so."""
        self.watch.caught_up()
        wanted = {number: Counter(names) for number, names in enumerate(generations, start=1) if names}
        assert self.watch.generations_of(day) == wanted
        found: dict[int, Counter[str]] = defaultdict(Counter)
        told = replace(self, connection=connection_to(self.bootstrap)).ledger
        [entry] = told.entries(told.key_for(day)).values()
        for record in self.records(day):
            found[record.generation][(record.key or b"").decode()] += 1
            if record.generation == entry.row.generation:
                first, end = entry.offsets[record.topic][record.partition]
                assert first <= record.offset < end
        assert found == wanted
        assert (entry.row.generation, entry.row.rows) == (len(generations), len(generations[-1]))
        assert self.watch.torn == []
        return entry.row


@contextlib.contextmanager
def running_bench(bootstrap: str, root: Path, **options: Any) -> Iterator[SinkBench]:
    """Run a bench with a topic and a ledger of its own, both made, and a reader that watches from the beginning."""
    own = uuid.uuid4().hex[:12]
    sink = KafkaSink(
        topic=f"events-{own}",
        ledger_topic=f"ledger-{own}",
        key_fields=("event",),
        partitions=PARTITIONS,
        **{"timeout_seconds": 20, "transaction_timeout_seconds": 60} | options,
    )
    bench = SinkBench(sink, connection_to(bootstrap), bootstrap, root, Watch(bootstrap, sink.topic))
    assert bench.preflight() == []
    with bench.watch:
        yield bench


@contextlib.contextmanager
def shared_bench(bootstrap: str, root: Path, **options: Any) -> Iterator[SinkBench]:
    """Run a bench for many tests with different days; a day published before is still whole at the end."""
    with running_bench(bootstrap, root, **options) as bench:
        bench.publish(bench.stage(MONDAY, events("other", "other")))
        yield bench
        bench.holds(MONDAY, ("other", "other"))


_CHILD = """
import pickle, sys
import confluent_kafka, pyarrow.parquet
from airflow_provider_connect.sinks._kafka import publisher as _kafka_publisher
sink, staged, connections = pickle.load(sys.stdin.buffer)
publisher = sink.open(staged.key, connections)
print("ready", flush=True)
sys.stdin.buffer.readline()
token = publisher.begin(staged)
print("begun", flush=True)
shares = publisher.shares(staged.manifest.polled.files)
receipts = [publisher.put(token, staged.stage, share) for share in shares]
print(publisher.commit(staged, token, receipts).generation, flush=True)
"""


class Child:
    """A publish in a separate process, which can be killed or suspended; it waits for :meth:`go`."""

    def __init__(self, bench: SinkBench, staged: Publish) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        pickle.dump((bench.sink, staged, bench.connections), self.stdin)
        self.stdin.flush()
        self.says("ready")

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def stdin(self) -> Any:
        return self.process.stdin

    def says(self, word: str) -> None:
        line = self.process.stdout.readline().decode().strip()  # type: ignore[union-attr]
        if line != word:
            raise AssertionError(f"{line!r} instead of {word!r}: {self.process.communicate()[1].decode()}")

    def go(self) -> None:
        self.stdin.write(b"\n")
        self.stdin.flush()

    def waits_at(self, rule: Any, seconds: float = 30) -> None:
        """Wait until one of its calls has reached a rule of the proxy."""
        deadline = time.monotonic() + seconds
        while not rule.seen:
            assert self.process.poll() is None, self.process.communicate()[1].decode()
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def end(self, seconds: float = 60) -> tuple[int, str]:
        """Wait for its end; return its exit code and the last line that it wrote."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, (err.decode() or out.decode()).strip().splitlines()[-1]
