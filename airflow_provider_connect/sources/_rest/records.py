"""Declares where an answer holds its records, their key and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from airflow_provider_connect.clients.http.asking.rules import Declared
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.polling.columns import RowColumn, arrow_field
from airflow_provider_connect.sources._rest.time_forms import TimeForm, is_date_form, names_zone
from airflow_provider_connect.values.json.paths import FieldPath, path_steps
from airflow_provider_connect.values.json.typed import decimal_digits
from airflow_provider_connect.window import ZoneName

if TYPE_CHECKING:
    import pyarrow as pa

SIMPLE_TYPES = ("string", "bigint", "double", "boolean", "timestamp", "date", "json")
Layout = Literal["list", "object", "map", "values"]
_SORTABLE_TYPES = ("timestamp", "date", "bigint")
DOCUMENT, RECORD_KEY = "document", "record_key"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_NAMES = {DOCUMENT, RECORD_KEY, "day"}


class Column(Declared):
    """A column's type, and the location of its field in the record."""

    type: str = Field(
        description="string (numbers keep their JSON text), bigint, double, boolean, timestamp, date, decimal(p,s) or "
        "json (the field's JSON text)."
    )
    at: FieldPath | None = Field(
        default=None, description="Location of the field in the record. By default the column's name."
    )
    format: TimeForm = Field(
        default="iso", description="Format of a timestamp, as of bounds, or of a date without a time of day."
    )
    zone: ZoneName = Field(default="UTC", description="IANA zone of a timestamp without zone.")
    null_if: tuple[str | int, ...] = Field(
        default=(), examples=[["", "0000-00-00"]], description="Values that stand for no value. They become null."
    )
    comment: str = Field(default="", description="Description, passed on to the sink.")

    @field_validator("type")
    @classmethod
    def _is_known(cls, kind: str) -> str:
        if (digits := decimal_digits(kind)) is not None:
            return "decimal({},{})".format(*digits)
        if kind not in SIMPLE_TYPES:
            raise ValueError(f"unknown type; {suggest_nearest(kind, (*SIMPLE_TYPES, 'decimal(38,9)'))}")
        return kind

    @model_validator(mode="after")
    def _fits_its_time(self) -> Self:
        is_date = self.type == "date" and self.zone == "UTC" and (self.format == "iso" or is_date_form(self.format))
        if self.type != "timestamp" and not is_date and (self.format != "iso" or self.zone != "UTC"):
            raise ValueError("format and zone belong to type='timestamp'. A date has no zone, and only a date's format")
        if self.zone != "UTC" and names_zone(self.format):
            raise ValueError(f"the format {self.format!r} needs no zone")
        return self


class NewestBy(Declared):
    """The record with the largest value of a column counts."""

    newest_by: str = Field(description="Column of type timestamp, date or bigint, such as updated_at.")


def _expand_type_name(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


class Records(Declared):
    """Location, key and columns of a page's records."""

    at: FieldPath = Field(
        default="",
        description="Location of the list of records. By default the whole answer. * stands for each element of a "
        "list, or each entry of an object: /items/*/rows.",
    )
    format: Literal["json", "json_lines", "csv"] = Field(
        default="json",
        description="Format of the answers. json_lines: one object in each line. csv: a header and lines, whose values "
        "are texts and null if empty without quotes.",
    )
    delimiter: str = Field(
        default=",",
        min_length=1,
        max_length=1,
        description="Character between the values of a line, with format='csv'.",
    )
    layout: Layout = Field(
        default="list",
        description="Form of the records there. list: a list of objects. object: one object is one record. map: an "
        "object, each of its entries is a record. values: a list of texts, numbers or lists.",
    )
    name_field: str = Field(
        default="name", min_length=1, description="Field that receives the name of an entry, with layout='map'."
    )
    value_field: str = Field(
        default="value",
        min_length=1,
        description="Field that receives a value that is not an object, with layout='map' or 'values'.",
    )
    outer_fields: dict[str, FieldPath] = Field(
        default_factory=dict,
        examples=[{"order_id": "/orders/*/id"}],
        description="Fields of the elements around a list, which its records receive: name and location, with the same "
        "* as at.",
    )
    position_field: str | None = Field(
        default=None, min_length=1, description="Field that receives a record's position in its list, with * in at."
    )
    count_at: FieldPath | None = Field(
        default=None,
        examples=["/orders/*/line_count"],
        description="Location of a list's number of records, with * in at. A list of another length fails the page.",
    )
    missing: Literal["fail", "empty"] = Field(
        default="fail",
        description="Meaning of an answer without this field, or with null. fail: an error. empty: no records, if all "
        "fields of the answer are ones that the declaration names.",
    )
    empty_has: tuple[str, ...] = Field(
        default=(),
        examples=[["kind", "etag"]],
        description="Other fields of an answer without records, for missing='empty'.",
    )
    key: tuple[str, ...] = Field(
        min_length=1,
        description="Columns that identify a record. Duplicates are dropped, and sinks merge by them.",
    )
    on_duplicate: Literal["fail", "first", "last"] | NewestBy = Field(
        default="fail",
        examples=[{"newest_by": "updated_at"}],
        description="Record to load if records with the same key differ in a column. fail: poll again once, then fail "
        "the day. first, last: by the order of the answers. newest_by: the one with the largest value of a column.",
    )
    columns: dict[str, Annotated[Column, BeforeValidator(_expand_type_name, json_schema_input_type=str | Column)]] = (
        Field(min_length=1, description='Columns and their types, such as {"id": "bigint", "updated_at": "timestamp"}.')
    )
    undeclared: Literal["json", "drop", "fail"] = Field(
        default="json",
        description="Effect of fields without a column. json: the column document holds the whole record as sent. "
        "drop: drop and count them. fail: fail the day.",
    )
    absent: Literal["warn", "fail"] = Field(
        default="warn",
        description="Effect of a column whose field no record of a day has. warn: the report warns, from 100 records "
        "on. fail: fail the day.",
    )
    day: str | None = Field(default=None, description="Column, a timestamp or a date, with the day of a record.")
    outside: Literal["count", "drop", "fail"] = Field(
        default="fail",
        description="Effect of records of other days. count: keep and count. drop: drop and count. fail: fail the day",
    )

    order: Literal["any", "newest_first"] = Field(
        default="any",
        description="Order of the API's listing by the column of day. newest_first: reading stops at the first page "
        "with only records from before the day. A record in another order fails the day.",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        problems = ["empty_has: requires missing='empty'"] if self.empty_has and self.missing != "empty" else []
        problems += self._newest_by_problems()
        problems += self._format_problems()
        problems += self._outer_problems()
        uses = {"name_field": ("map",), "value_field": ("map", "values")}
        problems += [
            f"{name}: has no effect with layout={self.layout!r}"
            for name, layouts in uses.items()
            if getattr(self, name) != type(self).model_fields[name].default and self.layout not in layouts
        ]
        if self.layout == "map" and self.name_field == self.value_field:
            problems.append("name_field and value_field: two names are needed")
        problems += [
            f"columns: {name!r} is not a valid name. Use letters, digits and _, and set at"
            for name in self._illegal_names()
        ]
        problems += [
            f"columns: {name!r} is a reserved name" for name in self.columns if name.lower() in _RESERVED_NAMES
        ]
        lower_names = [name.lower() for name in self.columns]
        problems += [f"columns: {name!r} occurs twice. Sinks ignore case" for name in _repeated(lower_names)]
        if self.order == "newest_first" and (self.day is None or self.outside != "drop"):
            problems.append("order: requires day and outside='drop', because the pages hold records of other days")
        if self.day is None and self.outside != "fail":
            problems.append("outside: requires day, the column with the day")
        if self.day is not None and self.day not in self.columns:
            problems.append(f"day: {self.day!r} is not a column; {suggest_nearest(self.day, self.columns)}")
        elif self.day is not None and self.columns[self.day].type not in ("timestamp", "date"):
            problems.append(f"day: column {self.day!r} is neither timestamp nor date")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def keeps_later_version(self) -> bool:
        """True if a later record may replace an earlier one."""
        return self.on_duplicate not in ("fail", "first")

    def _outer_problems(self) -> Iterator[str]:
        steps = path_steps(self.at)
        paths = self.outer_fields | ({} if self.count_at is None else {"count_at": self.count_at})
        if "*" not in steps:
            if paths or self.position_field is not None:
                yield "outer_fields, position_field, count_at: require a step '*' in at"
            return
        for name, path in paths.items():
            shared = path_steps(path)
            last = max((at for at, step in enumerate(shared) if step == "*"), default=-1)
            if last < 0 or shared[: last + 1] != steps[: last + 1]:
                option = name if name == "count_at" else f"outer_fields.{name}"
                yield f"{option}: must begin like at, up to a step '*'"
        if self.position_field in self.outer_fields:
            yield "position_field: outer_fields has the same name"

    def _format_problems(self) -> list[str]:
        if self.format == "json":
            return ["delimiter: requires format='csv'"] * (self.delimiter != ",")
        conflicts = {
            "delimiter: requires format='csv'": self.delimiter != "," and self.format != "csv",
            "delimiter: a quote or an end of line cannot be one": self.delimiter in '"\r\n',
            f"at: has no effect with format={self.format!r}": self.at != "",
            f"layout: has no effect with format={self.format!r}": self.layout != "list",
            f"missing: has no effect with format={self.format!r}": self.missing != "fail",
        }
        return [problem for problem, applies in conflicts.items() if applies]

    def _newest_by_problems(self) -> list[str]:
        if not isinstance(self.on_duplicate, NewestBy):
            return []
        name = self.on_duplicate.newest_by
        if name not in self.columns:
            return [f"on_duplicate.newest_by: {name!r} is not a column; {suggest_nearest(name, self.columns)}"]
        if self.columns[name].type not in _SORTABLE_TYPES:
            return [f"on_duplicate.newest_by: column {name!r} is none of {', '.join(_SORTABLE_TYPES)}"]
        return []

    def column_at(self, path: str) -> str | None:
        """Return the name of the column of a field, or None."""
        steps = path_steps(path)
        return next((name for name, column in self.columns.items() if path_steps(column.at or name) == steps), None)

    def is_identified_by(self, path: str) -> bool:
        """Return True if a field is the record's whole key, apart from the parent's columns."""
        own_keys = [name for name in self.key if name in self.columns]
        return own_keys == [self.column_at(path)]

    def _illegal_names(self) -> list[str]:
        return [name for name in self.columns if not _NAME.fullmatch(name)]


def _repeated(names: list[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


class ParentColumn(NamedTuple):
    """A value of the parent: column ``name`` in the child, ``parent_name`` in the parent."""

    name: str
    parent_name: str
    column: Column


def row_schema(records: Records, parent_columns: tuple[ParentColumn, ...]) -> pa.Schema:
    """Return the schema of all batches. :meth:`.Poller.schema` defines its metadata."""
    import pyarrow as pa

    parent_comments = {
        parent_column.name: f"The parent's {parent_column.parent_name}." for parent_column in parent_columns
    }
    declared: Mapping[str, Column] = {
        parent_column.name: parent_column.column for parent_column in parent_columns
    } | records.columns
    columns = {
        name: RowColumn(
            column.type,
            column.comment or parent_comments.get(name) or f"Field {column.at or name!r} of the record.",
            required=name in records.key,
        )
        for name, column in declared.items()
    }
    if records.undeclared == "json":
        comment = "The whole record: its JSON text as sent, byte for byte."
        columns[DOCUMENT] = RowColumn("json", comment, required=True)
    comment = f"Identity of the record, 32 hex digits: made of {', '.join(records.key)}."
    columns[RECORD_KEY] = RowColumn("string", comment, required=True)
    return pa.schema([arrow_field(name, column) for name, column in columns.items()])
