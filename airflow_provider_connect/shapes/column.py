"""Finds the shapes that create one column of the target.

A ``flatten`` without ``columns`` does not show its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.shapes.added import Constant, Route
from airflow_provider_connect.shapes.cast import Cast
from airflow_provider_connect.shapes.choice import Drop, Rename, Select
from airflow_provider_connect.shapes.digests import options_digest, options_of, shape_digests
from airflow_provider_connect.shapes.extract import Extract
from airflow_provider_connect.shapes.flatten import Flatten
from airflow_provider_connect.shapes.mask import Mask, hmac_sha256, key_of
from airflow_provider_connect.shapes.shape import Shape

_EXACT = ("TINYINT", "SMALLINT", "INT", "BIGINT", "STRING")


@dataclass(frozen=True)
class ColumnShapes:
    """The shapes that create a column of the target, in order.

    :param source: source column, if any.
    :param steps: shapes with positions and earlier column names.
    """

    name: str
    source: str | None
    steps: tuple[tuple[int, Shape, str], ...]

    @property
    def masks(self) -> tuple[Mask, ...]:
        """Masks among the shapes."""
        return tuple(shape for _, shape, _ in self.steps if isinstance(shape, Mask))

    def digest(self, connections: Mapping[str, Connection], context: str) -> str:
        """Return a digest of these shapes and their masks' keys, or ""."""
        if not self.steps:
            return ""
        options = [self.source, *(_options_of_column(shape, source_name) for _, shape, source_name in self.steps)]
        keys = shape_digests(self.masks, connections, context)
        return options_digest([options, [value for name, value in sorted(keys.items()) if name != "shapes"]])

    def target_texts(self, values: Sequence[str], connections: Mapping[str, Connection]) -> tuple[str, ...]:
        """Return the target's texts of ids: hashes after a mask, both if it has a condition, else the ids.

        :raises ConfigError: the column no longer identifies a person.
        """
        texts: dict[str, None] = dict.fromkeys(values)
        for position, shape, source_name in self.steps:
            if (problem := _problem(shape, source_name)) is not None:
                raise ConfigError(
                    f"shape[{position}] ({shape.name}): column {self.name!r} {problem}, so it does not identify "
                    "a person. Name another column"
                )
            if isinstance(shape, Mask):
                hash_text = hmac_sha256(key_of(connections[str(shape.conn_id)]))
                hashes = [hash_text(text.encode("utf-8", "surrogatepass")) for text in texts]
                texts = dict.fromkeys(hashes if shape.when is None else [*hashes, *texts])
        return tuple(texts)


def shapes_of_column(shapes: Sequence[Shape], column: str) -> ColumnShapes | None:
    """Return the shapes that create a target column, None if a shape renames or drops it."""
    name = column
    steps: list[tuple[int, Shape, str]] = []
    for position, shape in reversed([*enumerate(shapes)]):
        if _removes_name(shape, name):
            return None
        if isinstance(shape, Rename) and name in shape.columns.values():
            name = next(old for old, new in shape.columns.items() if new == name)
            steps.append((position, shape, name))
        elif _makes(shape, name):
            steps.append((position, shape, name))
            return ColumnShapes(column, None, tuple(reversed(steps)))
        elif isinstance(shape, (Cast, Mask)) and name in shape.columns:
            steps.append((position, shape, name))
    return ColumnShapes(column, name, tuple(reversed(steps)))


def target_name(shapes: Sequence[Shape], column: str) -> str | None:
    """Return the target's name for a source column, or None if a shape drops it."""
    name = column
    for shape in shapes:
        if isinstance(shape, Rename):
            name = shape.columns.get(name, name)
        elif (isinstance(shape, Drop) and name in shape.columns) or (
            isinstance(shape, Select) and name not in shape.columns
        ):
            return None
    return name


def _removes_name(shape: Shape, name: str) -> bool:
    if isinstance(shape, Rename):
        return name in shape.columns and name not in shape.columns.values()
    if isinstance(shape, Select):
        return name not in shape.columns
    return isinstance(shape, Drop) and name in shape.columns


def _makes(shape: Shape, name: str) -> bool:
    if isinstance(shape, (Constant, Route)):
        return name == shape.column
    if isinstance(shape, Flatten):
        return any(name.startswith(f"{column}{shape.separator}") for column in shape.columns)
    return isinstance(shape, Extract) and name in shape.into


def _options_of_column(shape: Shape, column: str) -> dict[str, Any]:
    ((name, options),) = options_of(shape).items()
    if isinstance(shape, Rename):
        return {name: shape.columns[column]}
    if isinstance(shape, Cast):
        return {name: {**options, "columns": shape.columns[column]}}
    if isinstance(shape, Extract):
        return {name: {**options, "into": options["into"][column]}}
    return {name: {option: value for option, value in options.items() if option != "columns"}}


def _problem(shape: Shape, column: str) -> str | None:
    if isinstance(shape, Mask) and shape.mode != "hash":
        return f"is masked with mode={shape.mode!r}"
    if isinstance(shape, Cast) and not _is_exact(shape.columns[column]):
        return f"is cast to {shape.columns[column]}"
    return "is made of a constant" if isinstance(shape, Constant) else None


def _is_exact(kind: str) -> bool:
    return kind in _EXACT or (kind.startswith("DECIMAL(") and kind.replace(" ", "").endswith(",0)"))
