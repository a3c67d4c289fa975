"""Values of a connector's config: a user's own, the manifest's defaults, or a name to replace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

_SECRET_NAMES = re.compile(r"(?i).*(secret|token|password|api[_-]?key|access[_-]?key|credential$|^key$)")


class Setting(NamedTuple):
    """A value of the config.

    :param origin: ``given`` by the user, the manifest's ``default``, ``absent`` if optional, or ``missing``.
    """

    name: str
    value: Any
    origin: Literal["given", "default", "absent", "missing"]
    is_secret: bool

    @property
    def placeholder(self) -> str:
        """A name that a person replaces, such as ``ACCOUNT_ID``."""
        return re.sub(r"[^A-Za-z0-9]+", "_", self.name).strip("_").upper() or "VALUE"


class Settings:
    """The config of one manifest.

    :param specification: JSON Schema of the config.
    :param config: the user's values. Secrets in it are never read.
    """

    def __init__(self, specification: Mapping[str, Any], config: Mapping[str, Any]) -> None:
        self._fields = dict(_fields(specification, (), is_required=True))
        self._config = config

    def setting(self, steps: tuple[str, ...]) -> Setting:
        """Return one value by its path."""
        schema, is_required = self._fields.get(steps, ({}, not self._fields))
        name = ".".join(steps)
        is_secret = bool(schema.get("airbyte_secret")) or (
            not schema and bool(steps) and _SECRET_NAMES.fullmatch(steps[-1]) is not None
        )
        if is_secret:
            return Setting(name, None, "missing", is_secret=True)
        value: Any = self._config
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        if _is_value(value):
            return Setting(name, value, "given", is_secret=False)
        for default in (schema.get("default"), schema.get("const"), *_first(schema.get("enum"))):
            if _is_value(default):
                return Setting(name, default, "default", is_secret=False)
        return Setting(name, None, "missing" if is_required else "absent", is_secret=False)


def _is_value(value: Any) -> bool:
    return value not in (None, "", [], {})


def _first(values: Any) -> list[Any]:
    return values[:1] if isinstance(values, list) else []


def _fields(
    schema: Any, steps: tuple[str, ...], *, is_required: bool, depth: int = 0
) -> Iterator[tuple[tuple[str, ...], tuple[Mapping[str, Any], bool]]]:
    """Yield path, schema and necessity of each field of an object's JSON Schema, its variants included."""
    if not isinstance(schema, Mapping) or depth > 10:
        return
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    properties = schema.get("properties")
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(field, Mapping):
            needed = is_required and name in names
            yield (*steps, str(name)), (field, needed)
            yield from _fields(field, (*steps, str(name)), is_required=needed, depth=depth + 1)
    variants = schema.get("oneOf")
    for variant in variants if isinstance(variants, list) else ():
        yield from _fields(variant, steps, is_required=is_required, depth=depth + 1)
