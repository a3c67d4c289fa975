"""Digests of shapes and of their masks' keys.

Keys are digested by scrypt (RFC 7914), which takes 16 MB and about 50 ms a guess.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.mask import Mask, key_of
from airflow_provider_connect.shapes.shape import Shape

_SALT = "airflow_provider_connect/mask key/"
_DIGEST_BYTES = 16
_COST = 1 << 14
_BLOCK_SIZE = 8


def shape_digests(shapes: Sequence[Shape], connections: Mapping[str, Connection], context: str) -> dict[str, str]:
    """Return digests by part: ``shapes`` for all options, and ``key[<position>]`` for each mask's key.

    :param context: only digests of one context can be compared.
    """
    keys = {
        f"key[{at}]": key_digest(key_of(connections[shape.conn_id]), context)
        for at, shape in enumerate(shapes)
        if isinstance(shape, Mask) and shape.conn_id is not None
    }
    return {"shapes": options_digest([options_of(shape) for shape in shapes]), **keys}


def options_of(shape: Shape) -> dict[str, Any]:
    """Return a shape as JSON, without its ``conn_id``."""
    ((name, options),) = shape.serialize().items()
    return {name: {option: value for option, value in options.items() if option != "conn_id"}}


def options_digest(options: object) -> str:
    """Return a digest of plain JSON, as 32 hex digits."""
    text = json.dumps(options, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: 2 * _DIGEST_BYTES]


def key_digest(key: bytes, context: str) -> str:
    """Return a digest of a secret key, as 32 hex digits, in about 50 ms."""
    salt = f"{_SALT}{context}".encode("utf-8", "surrogatepass")
    return hashlib.scrypt(key, salt=salt, n=_COST, r=_BLOCK_SIZE, p=1, dklen=_DIGEST_BYTES).hex()
