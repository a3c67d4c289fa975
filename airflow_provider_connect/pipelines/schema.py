"""JSON Schema of a pipeline file, built from the connectors' options and the operator's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from airflow_provider_connect import registry
from airflow_provider_connect.pipelines import arguments
from airflow_provider_connect.pipelines.pipeline import DAILY, Cron, DagOptions, Daily, Every
from airflow_provider_connect.shapes.chain import SHAPES

_REF = "#/$defs/{model}"
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%|\{#", "description": "An Airflow template."}


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a pipeline file, for editors.

    Covers each option of the installed connectors.
    """
    sources, sinks = _connectors("sources", registry.source_class), _connectors("sinks", registry.sink_class)
    models: list[type[BaseModel]] = [
        DagOptions,
        Daily,
        Every,
        Cron,
        *sources.values(),
        *sinks.values(),
        *SHAPES.values(),
    ]
    refs, defined = models_json_schema([(model, "validation") for model in models], ref_template=_REF)
    definitions: dict[str, Any] = defined["$defs"]

    def ref(model: type[BaseModel]) -> dict[str, Any]:
        return dict(refs[model, "validation"])

    def one_of(models_by_name: Mapping[str, type[Any]]) -> dict[str, Any]:
        properties = {name: ref(model) for name, model in models_by_name.items()}
        single_entry = {"minProperties": 1, "maxProperties": 1}
        return {"type": "object", "properties": properties, "additionalProperties": False, **single_entry}

    def definition(model: type[BaseModel]) -> dict[str, Any]:
        model_schema: dict[str, Any] = definitions[ref(model)["$ref"].removeprefix("#/$defs/")]
        return model_schema

    for model in (*sources.values(), *sinks.values()):
        fields = definition(model)["properties"]
        fields.update({name: _or_template(option) for name, option in fields.items()})
    # Missing options get Airflow's defaults, which depend on its configuration.
    properties: dict[str, Any] = {
        name: {key: value for key, value in fields.items() if key != "default"}
        for name, fields in definition(DagOptions)["properties"].items()
    }
    properties["start_date"]["anyOf"] = properties["end_date"]["anyOf"] = _DATES
    properties["source"] = one_of(sources) | {"description": "Source of the days: a source's name with its options."}
    properties["sink"] = one_of(sinks) | {"description": "Sink of the days: a sink's name with its options."}
    shape_text = "Changes of the rows, in this order."
    properties["shape"] = {"type": "array", "items": one_of(SHAPES), "description": shape_text}
    properties["schedule"] = {
        "anyOf": [{"const": DAILY}, ref(Daily), ref(Every), ref(Cron), {"type": "null"}],
        "default": DAILY,
        "description": f"When runs start: {DAILY} for each day in the source's own zone, null for no schedule.",
    }
    properties.update(_argument_properties(definitions))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pipeline",
        "type": "object",
        "properties": properties,
        "required": ["name", "source", "sink"],
        "additionalProperties": False,
        "$defs": definitions,
    }


_DATES = [{"type": "string", "format": "date"}, {"type": "string", "format": "date-time"}, {"type": "null"}]


def _connectors(room: str, class_of: Callable[[str], type[Any]]) -> dict[str, type[Any]]:
    return {name: class_of(name) for name in registry.names(room)}


def _argument_properties(definitions: dict[str, Any]) -> dict[str, Any]:
    properties, descriptions = {}, arguments.argument_descriptions()
    for name, parameter in arguments.file_arguments().items():
        if (adapter := arguments.argument_adapter(name)) is None:
            continue
        argument_schema = adapter.json_schema(ref_template=_REF)
        definitions.update(argument_schema.pop("$defs", {}))
        if name in descriptions:
            argument_schema["description"] = descriptions[name]
        if isinstance(parameter.default, (str, int, float)):
            argument_schema["default"] = parameter.default
        properties[name] = argument_schema
    return properties


def _or_template(option: dict[str, Any]) -> dict[str, Any]:
    outside: dict[str, Any] = {
        key: option[key] for key in ("title", "description", "default", "examples") if key in option
    }
    inside = {key: value for key, value in option.items() if key not in outside}
    return {**outside, "anyOf": [inside, _TEMPLATE]} if inside and inside != {"type": "string"} else option
