"""A stream's options as the DAG file declares them, with unrendered templates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.shapes.shape import Shape
from airflow_provider_connect.sink import Connections, Sink
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.definition import StreamDefinition

_DATE = r"\d{4}-\d\d-\d\d|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_MOMENT = re.compile(rf"(?<![\w-])(?:{_DATE})(?:[T ]?\d\d:?\d\d(?::?\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?(?![\w-])")

DeclaredBy = Literal["dag", "function"]
"""A DAG file with templates, or a function that a run calls."""


class DeclaredOptions(NamedTuple):
    """Source, shapes and transform with unrendered templates."""

    source: Source
    shapes: Sequence[Shape | dict[str, Any]] = ()
    transform: str | None = None
    declared_by: DeclaredBy = "dag"

    def build_definition(self, source: Source, sink: Sink, chain: Chain, connections: Connections) -> StreamDefinition:
        """Build the stream's definition from options and keys. Takes 50 ms for each mask with a key."""
        digests = Shaping.of(chain, connections).digests(sink.target)
        keys = {name: digest for name, digest in digests.items() if name != "shapes"}
        shapes = [shape.serialize() if isinstance(shape, Shape) else shape for shape in self.shapes]
        parts = self.source.serialize(), shapes, self.transform
        options, shapes, transform = parts if self.declared_by == "dag" else replace_moments(parts)
        return build_definition(source, options, connections[source.conn_id], shapes, keys, transform=transform)


def replace_moments(value: Any) -> Any:
    """Return a JSON value with ``…`` for each date and instant inside its texts."""
    if isinstance(value, str):
        return _MOMENT.sub("…", value)
    if isinstance(value, Mapping):
        return {name: replace_moments(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_moments(item) for item in value]
    return value
