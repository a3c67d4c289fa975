"""Deletes people's rows from a stream's target and keeps them out of later loads.

>>> print(erase(source, sink, ["u-17", "u-18"]))
/data/lake/events has 1,204 rows of 31 days with 2 values of 'distinct_id'. Nothing was changed.
>>> print(erase(source, sink, ["u-17", "u-18"], mode="erase"))
1,204 rows of 31 days with 2 values of 'distinct_id' are erased from /data/lake/events, and later loads leave them out
(version 1 of its erase list).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from airflow_provider_connect.capabilities.publisher import Erases
from airflow_provider_connect.capabilities.source import ListsStreams
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.definition import MASK_KEYS, MASKED
from airflow_provider_connect.errors import ConfigError, refuse_text
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.registry import column_names
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.shapes.column import ColumnShapes, shapes_of_column, target_name
from airflow_provider_connect.shapes.digests import shape_digests
from airflow_provider_connect.shapes.shape import Shape
from airflow_provider_connect.sink import Connections, Ledger, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.erase_list import Erasure, PersonId, id_texts, is_erase_run
from airflow_provider_connect.stage.notes import definitions_by_digest
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import describe_staged_copies, local_stage, local_stage_path, stage_name

_LOG = logging.getLogger(__name__)
_MASK_COUNT = re.compile(r"shape_[0-9]+_mask")
_DAYS_LOOKED_AT = 30


def erase(
    source: Source,
    sink: Sink,
    values: Sequence[PersonId],
    *,
    column: str = "distinct_id",
    shape: Sequence[Shape | Mapping[str, Any]] = (),
    mode: Literal["count", "erase"] = "count",
    staging: str | None = None,
    connections: Connections | None = None,
) -> Erasure:
    """Count or erase the rows whose ``column`` holds one of the values. Connects to the sink only, without Spark.

    Safe to repeat.

    :param values: people's ids as the source has them: texts, integers, decimals of scale 0, UUIDs.
    :param mode: ``count`` changes nothing.
    :param staging: the task's ``staging=``.
    :param connections: of the sink and of the masks' keys, by id. By default Airflow's.
    :raises ConfigError: the sink cannot erase, the column is missing, or rows are masked and ``shape`` is missing.
    :raises RetriableError: the sink is unavailable, or other writers committed first.
    """
    refuse_text("shape", shape)
    if source.capability(ListsStreams) is not None:
        raise ConfigError(f"source {source.name!r} has many tables. Pass source and sink of one of them")
    chain, ids = Chain.of(shape), id_texts(values)
    column_shapes = _shapes_of(source, chain, column)
    resolved_connections = connections
    if resolved_connections is None:
        conn_ids = dict.fromkeys((*sink.connection_ids, *chain.conn_ids))
        resolved_connections = {conn_id: credentials.resolve_connection(conn_id) for conn_id in conn_ids}
    texts = column_shapes.target_texts(ids, resolved_connections)
    shaping = Shaping.of(chain, resolved_connections)
    key = StreamKey(connector=source.name, stream=source.stream_key)
    with closing_quietly(sink.open(key, resolved_connections), _LOG.warning) as publisher:
        if not isinstance(publisher, Erases):
            raise ConfigError(f"{type(sink).__name__} cannot erase. Delete the rows in {sink.target} yourself")
        rows = {} if mode == "erase" else publisher.find(column_shapes.name, texts)
        if not chain:
            _require_unmasked(publisher.ledger, sink.target, column_shapes.name)
        elif column_shapes.masks:
            _require_same_keys(publisher.ledger, sink.target, column_shapes, resolved_connections)
        publisher.ledger.erased().require_same_shapes(shaping.column_digest, sink.target)
        # Listed before the erase: an error after it would hide its result.
        copies = (*publisher.copies(), *_describe_staged(sink, key, staging, resolved_connections))
        if mode == "erase":
            erasure = publisher.erase(column_shapes.name, texts, source.kind, shaping.column_digest)
            return replace(erasure, values=len(ids), copies=copies)
        return Erasure(sink.target, column_shapes.name, len(ids), rows, copies=copies)


def outer_stage(sink: Sink, key: StreamKey, staging: str | None, connections: Connections) -> Folder | None:
    """Return the stage outside the sink, None without staged days."""
    if sink.stage_root(connections) is not None:
        return None
    if staging is not None:
        return Folder(staging)
    name = stage_name(key, sink.target)
    return Folder(local_stage(name)) if local_stage_path(name).is_dir() else None


def _describe_staged(sink: Sink, key: StreamKey, staging: str | None, connections: Connections) -> list[str]:
    if sink.stage_root(connections) is not None:
        return []
    stage = outer_stage(sink, key, staging, connections)
    descriptions = [] if stage is None else describe_staged_copies(stage)
    if staging is None:
        descriptions.append(
            f"staged days in the temporary folders of workers ({local_stage_path(stage_name(key, sink.target))}), "
            "for tasks without staging=. The day's next load or 'airflow connect sweep' on that machine deletes them"
        )
    return descriptions


def _shapes_of(source: Source, chain: Chain, column: str) -> ColumnShapes:
    column_shapes = shapes_of_column(chain.shapes, column)
    if column_shapes is None:
        name = target_name(chain.shapes, column)
        column_shapes = None if name is None else shapes_of_column(chain.shapes, name)
    if column_shapes is None:
        raise ConfigError(
            f"nothing was changed: a shape leaves column {column!r} out of the target. Name a column that the "
            "target has"
        )
    names = column_names(source)
    if names is not None and column_shapes.source is not None and column_shapes.source not in names:
        hint = "" if chain else ". If a shape of the task makes it, pass the task's shape="
        raise ConfigError(
            f"nothing was changed: the source's rows have no column {column_shapes.source!r}, so later loads could not "
            f"leave rows out by it. Name it as the source does: {suggest_nearest(column_shapes.source, names)}{hint}"
        )
    return column_shapes


def _require_unmasked(ledger: Ledger, target: str, column: str) -> None:
    definition = _definition(ledger)
    is_masked = _passes_masks(ledger) if definition is None else column in definition.shapes.get(MASKED, "").split(", ")
    if is_masked or any(part.shaping for part in ledger.erased().parts):
        raise ConfigError(
            f"nothing was changed: a mask of the task may have hashed column {column!r} of {target}. Pass the "
            "task's shape=, so that the values are hashed in the same way"
        )


def _require_same_keys(ledger: Ledger, target: str, column_shapes: ColumnShapes, connections: Connections) -> None:
    definition = _definition(ledger)
    if definition is None or MASK_KEYS not in definition.shapes:
        return
    digests = shape_digests(column_shapes.masks, connections, target)
    used_digests = {digest for name, digest in digests.items() if name != "shapes"}
    if not used_digests <= {*definition.shapes[MASK_KEYS].split(", ")}:
        raise ConfigError(
            f"nothing was changed: rows of {target} were masked with another key than shape= has, so no row would "
            "match. Use the key of the load, or first load the days again with the new key"
        )


def _definition(ledger: Ledger) -> StreamDefinition | None:
    in_force = ledger.definition_in_force()
    return None if in_force is None else definitions_by_digest(ledger.notes()).get(in_force.digest)


def _passes_masks(ledger: Ledger) -> bool:
    for day in sorted(ledger.days(), reverse=True)[:_DAYS_LOOKED_AT]:
        row = ledger.row(day)
        if row is not None and not is_erase_run(row.run):  # an erase counts no shapes
            return any(_MASK_COUNT.fullmatch(name) for name in row.counts)
    return False
