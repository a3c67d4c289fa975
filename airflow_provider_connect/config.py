"""Options of connectors: declared once, validated together, and never shown with their values."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError
from pydantic_core import SchemaValidator, core_schema

from airflow_provider_connect.errors import ConfigError

_AT_A_GLANCE = 50
_LEAST_SIMILARITY = 0.66  # a typo. Below it, most pairs are options of different meaning
_SHORT_NAME, _LEAST_SIMILARITY_OF_SHORT_NAMES = 3, 0.5
_NAMES_ELSEWHERE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("timezone", "time_zone", "tz"), ("zone",)),
    **dict.fromkeys(("connection", "connection_id", "conn"), ("conn_id",)),
    **dict.fromkeys(("keys", "primary_key", "unique_key", "id_column"), ("key", "key_fields")),
    **dict.fromkeys(("mode", "write_disposition"), ("write_mode",)),
    **dict.fromkeys(("table", "table_name", "dataset"), ("table", "path")),
    "topic_name": ("topic",),
    **dict.fromkeys(("uri", "url", "location", "table_path", "table_uri"), ("path",)),
    **dict.fromkeys(("query", "sql", "endpoint"), ("queries", "query", "request")),
    **dict.fromkeys(("filter", "condition"), ("where",)),
    **dict.fromkeys(("cursor", "cursor_field", "cursor_column"), ("timestamp_column", "incrementing_column")),
    **dict.fromkeys(("date_column", "time_column", "partition_column"), ("day_column",)),
    **dict.fromkeys(("partition", "partition_field"), ("partition_by",)),
    **dict.fromkeys(("cluster", "clustering", "clustering_fields"), ("cluster_by",)),
    **dict.fromkeys(
        ("timeout", "request_timeout"), ("timeout_seconds", "read_timeout_seconds", "statement_timeout_seconds")
    ),
}
"""Names of options in other tools, with our names for them."""
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_REQUIRED = "required"
_TEXTS = {
    **dict.fromkeys(
        ("datetime_parsing", "datetime_from_date_parsing", "datetime_type"),
        "must be a day or an instant, such as 2026-11-01 or 2026-11-01T06:00:00Z",
    ),
    **dict.fromkeys(("date_parsing", "date_from_datetime_parsing", "date_type"), "must be a day, such as 2026-11-01"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
}
"""Our texts for pydantic's types of errors: https://pydantic.dev/docs/validation/latest/errors/validation_errors/."""
_TIME_SPAN = " (ISO 8601: 'PT1H' for an hour, 'P1D' for a day)"


class Options(BaseModel):
    """Options that a user sets on a connector, and that travel to Spark as JSON.

    A subclass declares its options as fields with ``Field(description=…)``. No option holds a secret.

    Text with ``{{ … }}`` is an Airflow template.

    :raises ConfigError: on construction, with every wrong option.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    renamed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Former names of options, with the present names. Accepted for one version, with a warning."""
    removed: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Options of earlier versions, with their replacements. They are refused."""

    _templates: frozenset[str] = PrivateAttr(default=frozenset())

    def __init__(self, **options: Any) -> None:
        options = self._with_present_names(options)
        templates = frozenset(name for name, value in options.items() if has_template(value))
        try:
            super().__init__(**options)
        except ValidationError as error:
            if not templates or not all(_waits(problem, templates) for problem in _problems(error)):
                raise ConfigError(describe_problems(type(self), error, templates)) from None
            settled = _settled(type(self), {name: options[name] for name in options.keys() - templates})
            self.__setstate__(type(self).model_construct(**(options | settled)).__getstate__())
        if templates:
            self.__dict__.update({name: options[name] for name in templates})
            self._templates = templates

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Self:
        """Make an instance from decoded JSON, without templates."""
        instance = cls.__new__(cls)
        try:
            BaseModel.__init__(instance, **cls._with_present_names(options))
        except ValidationError as error:
            raise ConfigError(describe_problems(cls, error)) from None
        return instance

    @classmethod
    def _with_present_names(cls, options: dict[str, Any]) -> dict[str, Any]:
        former = {name for name in cls.renamed if name in options and cls.renamed[name] not in options}
        for name in former:
            text = f"{cls.__name__}: {name} is called {cls.renamed[name]} now: the next version refuses the former name"
            warnings.warn(text, FutureWarning, stacklevel=3)
        return {cls.renamed[name] if name in former else name: value for name, value in options.items()}

    @property
    def templates(self) -> frozenset[str]:
        """Names of the options that hold a template."""
        return self._templates

    def rendered(self, render: Callable[[str], Any]) -> Self:
        """Return these options with rendered templates, not yet validated."""
        return self.model_copy(update={name: _rendered(getattr(self, name), render) for name in self._templates})

    def checked(self) -> Self:
        """Return these options after validating the rendered templates.

        :raises ConfigError: with every wrong option.
        """
        if not self._templates:
            return self
        return self.from_options({name: getattr(self, name) for name in self.model_fields_set})

    def serialize(self) -> dict[str, Any]:
        """Return the options as plain JSON, for Spark and Airflow's rendered fields."""
        # A template is text, whatever type its option will have.
        return self.model_dump(mode="json", warnings=not self._templates)


def has_template(value: Any) -> bool:
    """Return True if a value contains, at any depth, text that Jinja would change."""
    if isinstance(value, str):
        return _TEMPLATE.search(value) is not None
    if isinstance(value, BaseModel):
        value = vars(value)
    if isinstance(value, Mapping):
        return any(has_template(item) for pair in value.items() for item in pair)
    return isinstance(value, (list, tuple, set, frozenset)) and any(has_template(item) for item in value)


def suggest_nearest(name: str, known_names: Iterable[str]) -> str:
    """Return a hint with the known name for the same thing in other tools, else with the most similar one."""
    known_names = sorted(known_names)
    close = [known for known in _NAMES_ELSEWHERE.get(name.lower(), ()) if known in known_names]
    close = close or difflib.get_close_matches(name, known_names, n=1, cutoff=_least_similarity(name))
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return (
        f"known: {', '.join(known_names)}"
        if len(known_names) <= _AT_A_GLANCE
        else f"none of the {len(known_names)} known names resembles it"
    )


def _least_similarity(name: str) -> float:
    return _LEAST_SIMILARITY_OF_SHORT_NAMES if len(name) <= _SHORT_NAME else _LEAST_SIMILARITY


def describe_problems(model: type[BaseModel], error: ValidationError, templates: frozenset[str] = frozenset()) -> str:
    """Describe all problems of a model's options in one text, without values."""
    problems = problems_of(model, error, templates)
    return f"{model.__name__}: " + "; ".join(
        f"{'.'.join(map(str, location))}: {text}" if location else text for location, text in problems
    )


def problems_of(
    model: type[BaseModel], error: ValidationError, templates: frozenset[str] = frozenset()
) -> list[tuple[tuple[str | int, ...], str]]:
    """Return location and text of each problem with a model's options, without values.

    :param templates: options that are not rendered yet.
    """
    problems = [problem for problem in _problems(error) if not _waits(problem, templates)]
    texts = [(tuple(problem["loc"]), _problem_text(model, problem)) for problem in problems]
    mistyped = {text for _, text in texts}
    # A required option under a mistyped name is one mistake.
    return [
        (location, text)
        for location, text in texts
        if not (text == _REQUIRED and f"unknown option; did you mean {location[-1]!r}?" in mistyped)
    ]


def _problem_text(model: type[BaseModel], problem: Any) -> str:
    if problem["type"] == "missing":
        return _REQUIRED
    if problem["type"] in _TEXTS:
        return _TEXTS[problem["type"]]
    if problem["type"] != "extra_forbidden":
        hint = _TIME_SPAN if problem["type"] == "time_delta_parsing" else ""
        return f"{problem['msg'].removeprefix('Value error, ')}{hint}"
    name = ".".join(map(str, problem["loc"]))
    if issubclass(model, Options) and name in model.removed:
        return f"no longer an option: {model.removed[name]}"
    if issubclass(model, Options) and name in model.renamed:
        return f"the former name of {model.renamed[name]}, which is set as well: leave {name} out"
    return f"unknown option; {suggest_nearest(str(problem['loc'][-1]), _names_beside(model, problem['loc']))}"


def _names_beside(model: type[BaseModel], location: Sequence[str | int]) -> set[str]:
    parts = [model]
    for step in location[:-1]:
        fields = [part.model_fields[step] for part in parts if step in part.model_fields]
        tagged = [part for part in parts if step in _tags(part)]
        # Other steps are keys of a mapping, or positions in a list.
        parts = [inner for field in fields for inner in _models_in(field.annotation)] or tagged or parts
    return {name for part in parts for name in part.model_fields}


def _tags(model: type[BaseModel]) -> set[Any]:
    return {
        model.__name__,
        *(model.model_fields[name].default for name in ("kind", "rule") if name in model.model_fields),
    }


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _problems(error: ValidationError) -> list[Any]:
    return list(error.errors(include_input=False, include_url=False, include_context=False))


def _settled(model: type[BaseModel], options: dict[str, Any]) -> dict[str, Any]:
    schema: Any = model.__pydantic_core_schema__
    definitions: dict[str, Any] = {}  # of a model that contains itself
    while schema["type"] != "model-fields":
        if schema["type"] == "definitions":
            definitions = {definition["ref"]: definition for definition in schema["definitions"]}
        schema = definitions[schema["schema_ref"]] if schema["type"] == "definition-ref" else schema["schema"]
    fields = core_schema.model_fields_schema({name: schema["fields"][name] for name in options})
    validator = SchemaValidator(core_schema.definitions_schema(fields, list(definitions.values())))
    values: dict[str, Any] = validator.validate_python(options)[0]
    return values


def _waits(problem: Any, templates: frozenset[str]) -> bool:
    if problem["type"] == "extra_forbidden":
        return False
    return problem["loc"][0] in templates if problem["loc"] else bool(templates)


def _rendered(value: Any, render: Callable[[str], Any]) -> Any:
    if isinstance(value, str):
        return render(value) if has_template(value) else value
    if isinstance(value, BaseModel):
        # A union is told by a field with only one value, which nobody sets.
        tags = {name for name, field in type(value).model_fields.items() if get_origin(field.annotation) is Literal}
        value = {name: getattr(value, name) for name in value.model_fields_set | tags}
    if isinstance(value, Mapping):
        return {_rendered(key, render): _rendered(item, render) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(_rendered(item, render) for item in value)
    return value
