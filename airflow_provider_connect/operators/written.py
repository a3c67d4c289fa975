"""Options as the DAG file has them, before templates are rendered: what a stream's definition is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_connect.definition import definition_of
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.shapes.shape import Shape
from airflow_provider_connect.sink import Connections, Sink
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.transform import Given


class Written(NamedTuple):
    """Source, shapes and transform with their templates."""

    source: Source
    shapes: Sequence[Shape | dict[str, Any]] = ()
    transform: str | Given | None = None

    def definition(self, source: Source, sink: Sink, chain: Chain, connections: Connections) -> StreamDefinition:
        """Return the parts that decide the stream's rows. Takes 50 ms for each mask with a key.

        :param source: the same with its templates rendered, like ``sink`` and ``chain``.
        """
        digests = Shaping.of(chain, connections).digests(sink.target)
        keys = {name: digest for name, digest in digests.items() if name != "shapes"}
        shapes = [shape.serialize() if isinstance(shape, Shape) else shape for shape in self.shapes]
        transform = None if self.transform is None else str(self.transform)
        written, connection = self.source.serialize(), connections[source.conn_id]
        return definition_of(source, written, connection, shapes, keys, transform=transform)
