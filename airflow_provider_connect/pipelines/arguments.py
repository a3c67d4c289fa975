"""Operator arguments that a pipeline file may set."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args

from airflow.sdk import Asset
from pydantic import BaseModel, PlainValidator, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from airflow_provider_connect import completeness, sink, source
from airflow_provider_connect.config import problems_of
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.arguments import RESERVED_ARGUMENTS, require_valid_values
from airflow_provider_connect.operators.connect import ConnectOperator

PIPELINE_KEYS = ("source", "sink", "shape", "name")
"""Arguments that have another syntax in a pipeline file."""
_DAG_KEYS = ("dag", "task_group", "start_date", "end_date", "params", "doc_md", "default_args")
_NAMED_PARAMETERS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _validate_asset(value: Any) -> Any:
    if isinstance(value, str) and value:
        return Asset(uri=value)
    raise ValueError("must be the asset's URI")


_Asset = Annotated[
    Asset, PlainValidator(_validate_asset), WithJsonSchema({"type": "string", "description": "The asset's URI."})
]


@cache
def file_arguments() -> Mapping[str, inspect.Parameter]:
    """Return the operator arguments that a pipeline file may set under the same name, by name."""
    parameters: dict[str, inspect.Parameter] = {}
    for cls in _classes():
        for name, parameter in inspect.signature(vars(cls)["__init__"]).parameters.items():
            if (
                name != "self"
                and parameter.kind in _NAMED_PARAMETERS
                and name not in (*RESERVED_ARGUMENTS, *PIPELINE_KEYS, *_DAG_KEYS)
            ):
                parameters.setdefault(name, parameter)
    return parameters


@cache
def argument_adapter(name: str) -> TypeAdapter[Any] | None:
    """Return an argument's validator. None if only Python can write its value, such as a callback."""
    hint = _type_of(name)
    if hint is Any:
        return None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        shape = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
    is_nothing = shape == {"type": "null"} or {} in shape.get("anyOf", [])
    return None if is_nothing else adapter


def read_argument(name: str, value: Any) -> tuple[Any, list[tuple[tuple[str | int, ...], str]]]:
    """Validate an argument's value in a file. Returns the value and its problems."""
    adapter = argument_adapter(name)
    if adapter is None:
        return None, [((name,), "cannot be given in a file. Write the DAG in Python")]
    try:
        argument = adapter.validate_python(value)
        require_valid_values("", {name: argument})
    except ValidationError as error:
        members = (_type_of(name), *get_args(_type_of(name)))
        model = next((member for member in members if isinstance(member, type) and issubclass(member, BaseModel)), None)
        if model is not None:
            return None, [((name, *key_path), text) for key_path, text in problems_of(model, error)]
        # Of a union every member reports its own problems, under the member's name.
        return None, [((name,), "; ".join(dict.fromkeys(text for _, text in problems_of(BaseModel, error))))]
    except ConfigError as error:
        return None, [((name,), str(error).removeprefix(": ").removeprefix(f"{name}: "))]
    return argument, []


@cache
def argument_descriptions() -> Mapping[str, str]:
    """Return the descriptions of arguments in the operator's docstring, by name."""
    text = inspect.getdoc(ConnectOperator) or ""
    paragraphs = re.findall(r"^:param (\w+): (.*?)(?=^:|^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    return {
        name: re.sub(r":\w+:`~?\.*([^`]*)`", r"``\1``", " ".join(paragraph.split())) for name, paragraph in paragraphs
    }


def _classes() -> list[type]:
    return [cls for cls in ConnectOperator.mro() if cls is not object and "__init__" in vars(cls)]


def _type_of(name: str) -> Any:
    for cls in _classes():
        init = inspect.unwrap(vars(cls)["__init__"])
        parameter = inspect.signature(init).parameters.get(name)
        if parameter is None:
            continue
        if not isinstance(parameter.annotation, str):
            return parameter.annotation
        # Names imported for type checking only are missing in the module.
        type_names = vars(completeness) | vars(sink) | vars(source) | dict.fromkeys(("Asset", "AssetAlias"), _Asset)
        try:
            return eval(parameter.annotation, {**type_names, **init.__globals__})  # noqa: S307  # our own and Airflow's code
        except NameError:
            return Any
    return Any
