"""Airflow assets that a task writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.definitions._internal.contextmanager import DagContext
from airflow.sdk.definitions._internal.mixins import ResolveMixin
from airflow.sdk.definitions.mappedoperator import OperatorPartial

from airflow_provider_connect.capabilities.source import ListsStreams
from airflow_provider_connect.config import has_template
from airflow_provider_connect.errors import ConfigError, raise_from_one_frame, refuse_text
from airflow_provider_connect.operators.arguments import require_known_arguments, require_valid_values
from airflow_provider_connect.operators.schedule import require_day_schedule
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source

if TYPE_CHECKING:
    from airflow.sdk.definitions._internal.expandinput import ExpandInput
    from airflow.sdk.definitions.mappedoperator import MappedOperator

_TARGET_ARGUMENTS = ("sink", "asset")
_REMEDY = "Pass asset=Asset(…) for the target"


def asset_of(sink: Sink, asset: Asset | AssetAlias | None) -> Asset:
    """Return the asset of a task's target: the user's, else the sink's.

    :raises ConfigError: the user gave none and the sink's target is a template, or gave an alias.
    """
    if isinstance(asset, AssetAlias):
        raise ConfigError("asset: an alias is for a source of many tables. Pass asset=Asset(…)")
    if asset is None and has_template(sink.target):
        raise ConfigError(f"sink: {sink.target!r} is a template, so its asset is unknown. {_REMEDY}")
    return asset or Asset(uri=sink.asset_uri)


class MappedOutlets(list[Any]):
    """Outlets of a mapped task: the user's, and the assets that its instances write.

    :param user_outlets: replace assets of the same URI.
    """

    def __init__(self, user_outlets: list[Any], instance_assets: Iterable[Asset]) -> None:
        assets = {asset.uri: _same_uri_asset(asset, user_outlets) for asset in instance_assets}
        self.instance_assets = list(assets.values())
        self.user_outlets = [outlet for outlet in user_outlets if outlet not in self.instance_assets]
        super().__init__([*self.user_outlets, *self.instance_assets])

    def outlets_of_instance(self, asset: Asset) -> list[Any]:
        """Return the outlets of one instance.

        :raises ConfigError: ``asset`` was unknown in the DAG file.
        """
        instance_asset = _same_uri_asset(asset, self.instance_assets)
        if instance_asset not in self.instance_assets:
            raise ConfigError(
                f"asset {asset.uri!r} of this mapped task was unknown when Airflow read its DAG. {_REMEDY}"
            )
        return [*self.user_outlets, instance_asset]


def add_outlet(outlets: Any, asset: Asset) -> tuple[list[Any], Asset]:
    """Add a target's asset to a task's outlets. Returns the outlets and the asset.

    A user's outlet with the same URI wins.
    """
    user_outlets = outlets.outlets_of_instance(asset) if isinstance(outlets, MappedOutlets) else as_list(outlets)
    task_asset = _same_uri_asset(asset, user_outlets)
    return (user_outlets if task_asset in user_outlets else [*user_outlets, task_asset]), task_asset


class ConnectPartial(OperatorPartial):
    """Result of :meth:`ConnectOperator.partial`. Expanding it makes the mapped task."""

    @raise_from_one_frame
    def expand(self, **mapped_kwargs: Any) -> MappedOperator:
        """Map over lists of arguments, as for any operator."""
        self._expand_called = True  # even if it is refused: a warning about a missing expand() would hide the reason
        require_known_arguments(self.operator_class, mapped_kwargs)
        return super().expand(**mapped_kwargs)

    def _expand(self, expand_input: ExpandInput, *, strict: bool) -> MappedOperator:
        self._expand_called = True
        self._require_schedule(expand_input.value)
        _refuse_many_streams(self.kwargs)
        instance_assets = [self._asset(sink, asset) for sink, asset in self._instances(expand_input.value)]
        self.kwargs["outlets"] = MappedOutlets(as_list(self.kwargs["outlets"]), instance_assets)
        return super()._expand(expand_input, strict=strict)

    def _require_schedule(self, mapped: Any) -> None:
        arguments = [mapped] if isinstance(mapped, Mapping) else mapped if isinstance(mapped, Sequence) else []
        maps_days = any(isinstance(values, Mapping) and "days" in values for values in arguments)
        dag, source = self.kwargs.get("dag") or DagContext.get_current(), self.kwargs.get("source")
        if isinstance(dag, DAG) and isinstance(source, Source) and not maps_days:
            require_day_schedule(dag, self.kwargs.get("days"), source)

    def _instances(self, mapped: Any) -> Iterator[tuple[Any, Any]]:
        fixed = self.kwargs.get("sink"), self.kwargs.get("asset")
        if isinstance(mapped, Mapping):  # expand() combines each value of one argument with each value of the others
            lists = {name: _values(values) for name, values in mapped.items()}
            for name, values in lists.items():
                for value in values:
                    self._require({name: value}, ())
            yield from itertools.product(
                *(lists.get(name, [value]) for name, value in zip(_TARGET_ARGUMENTS, fixed, strict=True))
            )
        elif isinstance(mapped, Sequence):  # of expand_kwargs()
            for arguments in mapped:
                if isinstance(arguments, Mapping):
                    self._require(arguments, arguments)
                    yield tuple(
                        arguments.get(name, value) for name, value in zip(_TARGET_ARGUMENTS, fixed, strict=True)
                    )
                else:
                    yield fixed
        else:
            yield fixed

    def _require(self, arguments: Mapping[str, Any], names: Iterable[str]) -> None:
        require_known_arguments(self.operator_class, names)
        _refuse_many_streams(arguments)
        require_valid_values(
            self.operator_class.__name__, {k: v for k, v in arguments.items() if not _is_placeholder(v)}
        )

    def _asset(self, sink: Any, asset: Any) -> Asset:
        if isinstance(asset, Asset):
            return asset
        if asset is None and isinstance(sink, Sink):
            return asset_of(sink, None)
        unknown = "asset" if asset is not None else "sink"
        raise ConfigError(
            f"{self.operator_class.__name__}: {unknown} of mapped task {self.kwargs['task_id']!r} is not in the DAG "
            f"file, so Airflow cannot know its assets. Name its sinks there, or pass asset=Asset(…)"
        )


def _refuse_many_streams(arguments: Mapping[str, Any]) -> None:
    source = arguments.get("source")
    if isinstance(source, Source) and source.capability(ListsStreams) is not None:
        raise ConfigError("a mapped task cannot have a source of many tables. Declare a task for each source")


def _values(values: Any) -> list[Any]:
    return [values] if _is_placeholder(values) else list(values.items() if isinstance(values, Mapping) else values)


def _is_placeholder(value: object) -> bool:
    return isinstance(value, ResolveMixin)


def _same_uri_asset(asset: Asset, outlets: Iterable[Any]) -> Asset:
    return next((outlet for outlet in outlets if isinstance(outlet, Asset) and outlet.uri == asset.uri), asset)


def as_list(outlets: Any) -> list[Any]:
    """Return a task's outlets as a list. Raises ConfigError for text."""
    refuse_text("outlets", outlets)
    if outlets is None:
        return []
    return list(outlets) if isinstance(outlets, Sequence) else [outlets]
