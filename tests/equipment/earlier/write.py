"""Writes the frozen targets of the version of this package that is imported. Another checkout's, for example::

    PYTHONPATH=/another/checkout python tests/equipment/earlier/write.py tests/equipment/earlier/1.0.0rc1 delta

The sinks after the folder are written, by default all. Broker and emulator are started for it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tests.equipment

if __name__ == "__main__":  # the stories are of this checkout, whatever the package is
    tests.equipment.__path__.append(str(Path(__file__).parents[1]))

from tests.equipment.earlier import bigquery_tables, delta_tables, kafka_topics
from tests.equipment.earlier.scenes import BIGQUERY, DELTA, DELTA_HALTED, KAFKA, Scene
from tests.equipment.earlier.stories import Shop

if TYPE_CHECKING:
    from collections.abc import Callable


def write_all(scenes: dict[str, Scene], folder: Path, open_shop: Callable[[str, Path], Shop], keep: Any) -> None:
    """Tell each story once, and keep its target with what the ledger then says.

    :param open_shop: returns the shop of a name with a target of its own.
    :param keep: writes a shop's target to a path without a suffix.
    """
    for name, scene in scenes.items():
        with tempfile.TemporaryDirectory() as root:
            shop = open_shop(name, Path(root))
            scene.begin(shop)
            streams = {conn_id: shop.recorded(scene.kind, conn_id) for conn_id in scene.streams}
            recorded = {"orders": shop.orders(), "runs": shop.runs, "streams": streams}
            (folder / f"{name}.json").write_text(json.dumps(recorded, indent=1) + "\n")
            keep(shop, folder / name)


def write_delta(folder: Path) -> None:
    scenes = DELTA | {"halted": DELTA_HALTED}
    write_all(scenes, folder, lambda name, root: delta_tables.shop_of(root, scenes[name]), delta_tables.keep)


def write_bigquery(folder: Path) -> None:
    from tests.equipment.bigquery.fixtures import connection_to
    from tests.standins.bigquery_emulator import BigQueryEmulator

    with tempfile.TemporaryDirectory() as log:
        emulator = BigQueryEmulator(log=Path(log) / "log")
        emulator.start()
        try:
            connection = connection_to(emulator)

            def shop(name: str, root: Path) -> Shop:
                emulator.create_dataset(name)
                return bigquery_tables.shop_of(root, connection, name, BIGQUERY[name])

            write_all(BIGQUERY, folder, shop, bigquery_tables.keep)
        finally:
            emulator.stop()


def write_kafka(folder: Path) -> None:
    from tests.standins.kafka_broker import KafkaBroker

    with tempfile.TemporaryDirectory() as data:
        broker = KafkaBroker(Path(data) / "broker")
        broker.start()
        try:

            def shop(name: str, root: Path) -> Shop:
                return kafka_topics.shop_of(root, broker.bootstrap, f"frozen-{name}", KAFKA[name])

            write_all(KAFKA, folder, shop, kafka_topics.keep)
        finally:
            broker.stop()


WRITERS = {"delta": write_delta, "bigquery": write_bigquery, "kafka": write_kafka}

if __name__ == "__main__":
    for sink_name in sys.argv[2:] or list(WRITERS):
        target = Path(sys.argv[1]) / sink_name
        target.mkdir(parents=True, exist_ok=True)
        WRITERS[sink_name](target)
