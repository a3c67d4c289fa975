"""Reads a file into a tree, and resolves ``$ref`` and ``$parameters`` of a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.manifests.expressions import Text, read_parts
from airflow_provider_connect.errors import ConfigError, describe_unreadable

MAX_BYTES = 16 << 20
_MAX_DEPTH = 100
_MAX_NODES = 2_000_000
_USED = ("version", "type", "streams", "dynamic_streams", "spec", "api_budget")
_PLAIN = ("schema", "schemas", "connection_specification", "metadata", "advanced_auth")
"""Fields whose objects are no components, so that parameters do not reach them."""


def read_tree(path: Path) -> dict[str, Any]:
    """Return the object in a YAML or JSON file.

    :raises ConfigError: the file is unreadable, too large, or holds no object.
    """
    import yaml  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{str(path)!r} has more than {MAX_BYTES >> 20} MiB, so it is no manifest")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {describe_unreadable(error)}") from None
    try:
        tree = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_loader())  # noqa: S506  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise ConfigError(f"{str(path)!r} is not valid {kind}{line}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{str(path)!r} holds no object, so it is neither a manifest nor a rest_api config")
    return tree


def _loader() -> Any:
    """Return YAML's safe loader, without dates: a manifest's ``2024-01-01`` is text."""
    import yaml  # noqa: PLC0415

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc,unused-ignore]
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Loader.yaml_implicit_resolvers.items()
    }
    return Loader


def resolve_references(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with each ``$ref`` replaced by its target, and fields beside it laid over the target.

    :raises ConfigError: a reference has no target, or the references form a circle.
    """
    resolver = _Resolver(tree)
    return {name: resolver.resolve(tree[name], (), 0) for name in _USED if name in tree}


class _Resolver:
    def __init__(self, tree: dict[str, Any]) -> None:
        self._tree = tree
        self._targets: dict[str, Any] = {}
        self._nodes = 0

    def resolve(self, value: Any, open_references: tuple[str, ...], depth: int) -> Any:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            raise ConfigError("the manifest is nested too deeply, or its references repeat too much, to be translated")
        if isinstance(value, str) and value.startswith("#/"):
            return self._target(value, open_references, depth)
        if isinstance(value, list):
            return [self.resolve(item, open_references, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        fields = {
            str(name): self.resolve(item, open_references, depth + 1) for name, item in value.items() if name != "$ref"
        }
        if not isinstance(value.get("$ref"), str):
            return fields
        target = self._target(value["$ref"], open_references, depth)
        return target | fields if isinstance(target, dict) else target

    def _target(self, reference: str, open_references: tuple[str, ...], depth: int) -> Any:
        if reference in open_references:
            raise ConfigError(f"the manifest's references form a circle at {reference[:100]!r}")
        if reference not in self._targets:
            if not reference.startswith("#/"):
                raise ConfigError(f"the manifest refers to another file, {reference[:100]!r}. Bundle both into one")
            target: Any = self._tree
            for step in _reference_steps(reference, target):
                target = target[step] if isinstance(target, dict) else target[int(step)]
            self._targets[reference] = self.resolve(target, (*open_references, reference), depth + 1)
        return self._targets[reference]


def _reference_steps(reference: str, tree: Any) -> list[str]:
    """Return the names along a reference. A name may itself contain a slash.

    :raises ConfigError: it has no target.
    """
    steps: list[str] = []
    names = reference[2:].split("/")
    while names:
        for length in range(len(names), 0, -1):
            name = "/".join(names[:length])
            is_index = isinstance(tree, list) and name.isdecimal() and int(name) < len(tree)
            if is_index or (isinstance(tree, dict) and name in tree):
                tree = tree[int(name)] if isinstance(tree, list) else tree[name]
                steps.append(name)
                names = names[length:]
                break
        else:
            raise ConfigError(f"the manifest's reference {reference[:100]!r} has no target")
    return steps


def apply_parameters(tree: Any) -> Any:
    """Return a resolved manifest with ``$parameters`` handed down to the components below.

    A component receives each parameter as a field that it lacks. Expressions of parameters alone become their value.

    :raises ConfigError: the components repeat too much.
    """
    return _Parameters().hand_down(tree, {})


class _Parameters:
    def __init__(self) -> None:
        self._nodes = 0

    def hand_down(self, value: Any, known: Mapping[str, Any]) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ConfigError("the manifest's references repeat too much to be translated")
        if isinstance(value, str):
            return _fill_parameters(value, known)
        if isinstance(value, list):
            return [self.hand_down(item, known) for item in value]
        if not isinstance(value, dict):
            return value
        own = value.get("$parameters")
        known = {**known, **own} if isinstance(own, dict) else known
        fields = {name: item for name, item in value.items() if name != "$parameters"}
        if isinstance(fields.get("type"), str) and fields["type"][:1].isupper():
            fields |= {name: item for name, item in known.items() if not fields.get(name)}
        return {name: item if name in _PLAIN else self.hand_down(item, known) for name, item in fields.items()}


def _fill_parameters(text: str, parameters: Mapping[str, Any]) -> Any:
    if not parameters or "parameters" not in text:
        return text
    parts = read_parts(text, parameters)
    if not all(isinstance(part, Text) for part in parts):
        return text
    values = [part.value for part in parts if isinstance(part, Text)]
    return values[0] if len(values) == 1 else "".join(map(str, values))
