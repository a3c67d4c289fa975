"""Digests by which a try knows what an earlier one has left, and an answer the published one."""

from __future__ import annotations

import hashlib
import json

from airflow_provider_connect import __version__
from airflow_provider_connect.spark.context import Context
from airflow_provider_connect.stage.manifest import Manifest


def fingerprint_of(context: Context) -> str:
    """Digest of all that decides what a poll yields and where it goes: options, shapes, place, columns, target.

    Takes 50 ms for each key of a mask.
    """
    job, intake, sink = context.job, context.intake, context.outlet.sink
    place = intake.connection.model_dump(include={"conn_id", "host", "port", "path"})
    place |= {name: intake.connection.extra.get(name) for name in intake.source.connection_fields}
    # Sinks with different ledgers may share one stage.
    target = [job.sink_name, sink.target, context.has_marks]
    options = job.model_dump(include={"source_name", "source", "shape", "rejects_keep"})
    keys = intake.shaping.digests(sink.target)  # an id has another hash under another key
    parts = [__version__, options, place, target, intake.schema.serialize().to_pybytes().hex(), keys]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_of(context: Context, manifest: Manifest) -> str | None:
    """Return the digest of an answer and of all that decides what becomes of it; None if its rows have none.

    The sink's options count, unlike in the fingerprint: with others the same rows go into another table or format.
    So does this package's version: a later one may write them otherwise.
    """
    contents = manifest.polled.contents
    if contents is None:
        return None
    text = json.dumps([contents, manifest.fingerprint, context.job.sink], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
