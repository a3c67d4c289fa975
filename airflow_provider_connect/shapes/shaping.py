"""A task's shapes on their way to the executors, with the connections that they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.chain import Chain

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Shaping:
    """What a poll does to each batch of rows before anything is written. Holds secrets; it is never printed.

    :param connections: those of the shapes alone, by their ids.
    """

    chain: Chain = field(default_factory=Chain)
    connections: Mapping[str, Connection] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, chain: Chain, connections: Mapping[str, Connection]) -> Shaping:
        """Take from all connections of a task what the shapes need."""
        return cls(chain, {conn_id: connections[conn_id] for conn_id in chain.conn_ids})

    def bind(self, schema: pa.Schema) -> Callable[[pa.RecordBatch, Counter[str]], pa.RecordBatch]:
        """Return what changes each batch of a poll; without shapes, what changes nothing. Executor, once a poll.

        :param schema: of the source's rows.
        """
        return self.chain.bind(schema, self.connections) if self.chain else _unchanged


def _unchanged(batch: pa.RecordBatch, counts: Counter[str]) -> pa.RecordBatch:
    return batch
