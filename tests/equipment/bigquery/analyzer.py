"""Google's own SQL analyzer (``zetasql`` on PyPI), which knows the tables of a test and a script's variables.

It resolves names and types as BigQuery does, and its errors have BigQuery's words. Its features are wider than
BigQuery's, so what passes has right names and types and no more. It analyzes single statements: a script is split, its
variables become constants of the catalog, which a column of the same name hides as it hides a variable, and what is
assigned to a variable is inserted into a column of the variable's type.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from airflow_provider_connect.clients.bigquery.sql import TableRef

Fields = Sequence[Mapping[str, Any]]
ASSIGNED = "connect_assigned"
"""The table of a script's variables, one column each."""
_PLACE = re.compile(r"`((?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{3,})\.([A-Za-z0-9_]+)\.([\w-]+)`")
_TYPES = {
    "STRING": "STRING",
    "INTEGER": "INT64",
    "INT64": "INT64",
    "FLOAT": "DOUBLE",
    "BOOLEAN": "BOOL",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "TIME": "TIME",
    "DATETIME": "DATETIME",
    "TIMESTAMP": "TIMESTAMP",
    "NUMERIC": "NUMERIC",
    "BIGNUMERIC": "BIGNUMERIC",
    "JSON": "JSON",
}


class RefusedError(Exception):
    """The analyzer refuses a statement."""


@dataclass(frozen=True)
class Statement:
    """One statement of a script.

    :param text: as it stands in the script; a condition or an assigned value as the statement that checks it.
    :param kind: its AST's class, such as ``MergeStatement``.
    :param set_columns: offsets in ``text``, in bytes, of columns that SET assigns to.
    :param in_transaction: whether it stands between BEGIN TRANSACTION and COMMIT.
    :param bare: names that stand first, or alone, where a column, an alias or a variable may stand.
    """

    text: str
    kind: str
    set_columns: tuple[int, ...] = ()
    in_transaction: bool = False
    bare: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Script:
    """A script in pieces.

    :param variables: SQL types by name.
    """

    statements: tuple[Statement, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def paths(sql: str) -> str:
    """Return SQL whose table names are paths: BigQuery splits a name in backticks, the analyzer does not."""
    return _PLACE.sub(r"`\1`.`\2`.`\3`", sql)


@cache
def split(sql: str) -> Script:
    """Return the single statements of a script, or of a query, whose table names are paths."""
    from zetasql.api import Parser

    reader = _Reader(sql.encode())
    _service()
    try:
        tree = Parser.parse_script_static(sql, _language(strict=False))
    except Exception as error:
        raise RefusedError(f"{error}\n{sql[:2000]}") from None
    return Script(tuple(reader.statements(tree.statement_list_node)), reader.variables)


@dataclass
class _Reader:
    script: bytes
    variables: dict[str, str] = field(default_factory=dict)
    in_transaction: bool = False

    def statements(self, statement_list: Any) -> Iterator[Statement]:
        for node in statement_list.statement_list:
            kind = type(node).__name__.removeprefix("AST")
            if kind == "VariableDeclaration":
                yield from self._declared(node)
            elif kind == "SingleAssignment":
                value = self._text(node.expression)
                yield self._statement(_assigning(node.variable.id_string, value), kind, node.expression)
            elif kind == "IfStatement":
                text = f"SELECT IF({self._text(node.condition)}, 1, 0) AS condition"
                yield self._statement(text, kind, node.condition)
                assert not node.elseif_clauses, "no script has them"
                assert node.else_list is None, "no script has it"
                yield from self.statements(node.then_list)
            elif kind == "BeginStatement":
                self.in_transaction = True
            elif kind == "CommitStatement":
                self.in_transaction = False
            else:
                yield self._statement(self._text(node), kind, node, tuple(self._assigned(node)))

    def _statement(self, text: str, kind: str, node: Any, set_columns: tuple[int, ...] = ()) -> Statement:
        return Statement(text, kind, set_columns, self.in_transaction, frozenset(_bare_names(node)))

    def _declared(self, node: Any) -> Iterator[Statement]:
        names = [variable.id_string for variable in node.variable_list.identifier_list]
        self.variables |= dict.fromkeys(names, self._text(node.type))
        if node.default_value is not None:
            for name in names:
                text = _assigning(name, self._text(node.default_value))
                yield self._statement(text, "VariableDeclaration", node.default_value)

    def _assigned(self, statement: Any) -> Iterator[int]:
        start = statement.parse_location_range.start
        for node in nodes(statement):
            if type(node).__name__ == "ASTUpdateSetValue":
                yield node.path.parse_location_range.start - start

    def _text(self, node: Any) -> str:
        span = node.parse_location_range
        return self.script[span.start : span.end].decode()


def _assigning(variable: str, value: str) -> str:
    return f"INSERT INTO `{ASSIGNED}` (`{variable}`) VALUES (({value}))"


def nodes(node: Any) -> Iterator[Any]:
    """Yield a node of the syntax tree and all below it."""
    yield node
    for value in vars(node).values():
        for part in value if isinstance(value, list) else [value]:
            if type(part).__name__.startswith("AST"):
                yield from nodes(part)


# Where a path is no column: the name of a table, a type or a function, and what SET assigns to.
_NO_COLUMN = {
    "ASTTablePathExpression": {"path_expr"},
    "ASTFunctionCall": {"function"},
    "ASTSimpleType": {"type_name"},
    "ASTUpdateSetValue": {"path"},
    "ASTCreateTableStatement": {"name", "table_element_list", "partition_by"},
    **{f"AST{kind}Statement": {"target_path"} for kind in ("Insert", "Update", "Delete", "Merge")},
}


_DATE_PARTS = {"HOUR", "DAY", "MONTH", "YEAR"}


def _bare_names(node: Any) -> Iterator[str]:
    kind = type(node).__name__
    if kind == "ASTPathExpression":
        yield node.names[0].id_string
    for name, value in vars(node).items():
        if name not in _NO_COLUMN.get(kind, ()):
            for part in value if isinstance(value, list) else [value]:
                if type(part).__name__.startswith("AST"):
                    yield from _bare_names(part)


class Analyzer:
    """Analyzes statements over tables. One that has passed over the same tables and variables is not analyzed again.

    :param tables: the fields of each, as the REST API has them.
    """

    _passed: ClassVar[set[tuple[Any, ...]]] = set()

    def __init__(self, tables: Mapping[TableRef, Fields]) -> None:
        self.tables = dict(tables)
        self._known = {
            paths(table_ref.sql): json.dumps(list(fields), sort_keys=True) for table_ref, fields in tables.items()
        }
        self._catalogs: dict[tuple[tuple[str, str], ...], int] = {}

    def check(self, sql: str, *, strict: bool = False) -> None:
        """Analyze every statement of a script.

        :param strict: whether a column must stand after an alias that the statement gives; that of a SET stands alone.
        :raises RefusedError: with the first statement that is refused.
        """
        script = split(paths(sql))
        for statement in script.statements:
            self.check_statement(statement, script.variables, strict=strict)

    def check_statement(self, statement: Statement, variables: Mapping[str, str], *, strict: bool = False) -> None:
        """Analyze one statement of a script with these variables.

        :raises RefusedError: the analyzer refuses it.
        """
        named = tuple(fields for table_ref, fields in self._known.items() if table_ref in statement.text)
        key = (statement, strict, named, tuple(variables.items()))
        if key not in self._passed:
            _analyze(_with_qualified_sets(statement) if strict else statement.text, self._catalog(variables), strict)
            self._passed.add(key)

    def columns_without_alias(self, statement: Statement) -> set[str]:
        """Return the names in a statement that stand alone and that a column of one of its tables has, too."""
        named = self.columns_of(statement.text)
        return {name for name in statement.bare - _DATE_PARTS if name.lower() in named}

    def columns_of(self, text: str) -> set[str]:
        """Return the columns, in lower case, of the tables that a statement names."""
        places = [table_ref for table_ref in self.tables if paths(table_ref.sql) in text]
        return {field["name"].lower() for table_ref in places for field in self.tables[table_ref]}

    def _catalog(self, variables: Mapping[str, str]) -> int:
        key = tuple(variables.items())
        if key not in self._catalogs:
            self._catalogs[key] = _register(self.tables, {name: _type_of(kind) for name, kind in key})
        return self._catalogs[key]


def _with_qualified_sets(statement: Statement) -> str:
    """Return a statement whose SET qualifies its columns, which strict mode wants and no page of BigQuery shows."""
    if not statement.set_columns:
        return statement.text
    alias = re.search(r"(?:UPDATE|MERGE INTO) \S+ AS (\w+)", statement.text)
    text = statement.text.encode()
    for at in sorted(statement.set_columns, reverse=True):
        text = text[:at] + (f"{alias[1]}.".encode() if alias else b"") + text[at:]
    return text.decode()


@cache
def _service() -> Any:
    """Return the analyzer. Its WebAssembly is compiled once a machine, in half a minute, and cached by wasmtime."""
    from wasmtime import Config
    from zetasql.core import local_service, wasm_client

    class Cached(Config):
        def __init__(self) -> None:
            super().__init__()
            self.cache = True

    class Client(wasm_client.WasmClient):
        """Copies whole blocks; the package's own copies byte by byte, in Python."""

        def write_bytes(self, ptr: int, data: bytes) -> None:
            ctypes.memmove(self._address + ptr, data, len(data))

        def read_bytes(self, ptr: int, size: int) -> bytes:
            return ctypes.string_at(self._address + ptr, size)

        @property
        def _address(self) -> int:
            return ctypes.addressof(self.memory.data_ptr().contents)

    wasm_client.Config = Cached
    local_service.WasmClient = Client
    return local_service.ZetaSqlLocalService.get_instance()


def _analyze(sql: str, catalog: int, strict: bool = False) -> bytes:
    """Return the answer as it comes: to make objects of it takes longer than the analysis.

    :raises RefusedError: the analyzer refuses the statement.
    """
    request, client = _request(strict=strict), _service().wasm_client
    request.sql_statement, request.registered_catalog_id = sql, catalog
    try:
        return bytes(client._call_grpc_method("ZetaSqlLocalService_Analyze", request.SerializeToString()))
    except Exception as error:
        raise RefusedError(f"{error}\n{sql[:2000]}") from None


@cache
def _request(*, strict: bool) -> Any:
    from zetasql.types import AnalyzeRequest, AnalyzerOptions

    return AnalyzeRequest(options=AnalyzerOptions(language_options=_language(strict=strict))).to_proto()


@cache
def _language(*, strict: bool) -> Any:
    from zetasql.types import LanguageFeature, LanguageOptions, NameResolutionMode, ProductMode

    options = LanguageOptions.maximum_features()
    # BigQuery: https://cloud.google.com/bigquery/docs/managing-table-schemas#change_a_columns_data_type (2026-11)
    options.enabled_language_features.append(LanguageFeature.FEATURE_ALTER_COLUMN_SET_DATA_TYPE)
    options.product_mode = ProductMode.PRODUCT_EXTERNAL
    if strict:
        options.name_resolution_mode = NameResolutionMode.NAME_RESOLUTION_STRICT
    return options


def _register(tables: Mapping[TableRef, Fields], variables: Mapping[str, Any]) -> int:
    from zetasql.types import SimpleCatalog, SimpleConstant, Value, ZetaSQLBuiltinFunctionOptions

    root = SimpleCatalog(name="root")
    root.builtin_function_options = ZetaSQLBuiltinFunctionOptions(language_options=_language(strict=False))
    projects: dict[str, Any] = {}
    datasets: dict[tuple[str, str], Any] = {}
    for table_ref, fields in tables.items():
        project = projects.setdefault(table_ref.project, SimpleCatalog(name=table_ref.project))
        dataset = datasets.setdefault((table_ref.project, table_ref.dataset), SimpleCatalog(name=table_ref.dataset))
        if dataset not in project.catalog:
            project.catalog.append(dataset)
        dataset.table.append(_table(table_ref.table, ((field["name"], _type(field)) for field in fields)))
    root.catalog.extend(projects.values())
    root.constant.extend(SimpleConstant(name_path=[name], type=kind, value=Value()) for name, kind in variables.items())
    root.table.append(_table(ASSIGNED, variables.items()))
    return int(_service().register_catalog(simple_catalog=root).registered_id)


def _table(name: str, columns: Iterable[tuple[str, Any]]) -> Any:
    from zetasql.api import TableBuilder

    table = TableBuilder(name)
    for column, kind in columns:
        table.add_column(column, kind)
    return table.build()


def _type(one: Mapping[str, Any]) -> Any:
    from zetasql.api import TypeFactory
    from zetasql.types import TypeKind

    if one["type"] == "RECORD":
        made = TypeFactory.create_struct_type([(inner["name"], _type(inner)) for inner in one["fields"]])
    else:
        made = TypeFactory.create_simple_type(TypeKind[f"TYPE_{_TYPES[one['type']]}"])
    return TypeFactory.create_array_type(made) if one.get("mode") == "REPEATED" else made


@cache
def _type_of(kind: str) -> Any:
    """Return a type by its name in SQL."""
    from zetasql.types import AnalyzerOptions

    options = AnalyzerOptions(language_options=_language(strict=False))
    answer = _service().analyze(
        sql_statement=f"SELECT CAST(NULL AS {kind}) AS value",
        options=options,
        registered_catalog_id=_register({}, {}),
    )
    return answer.resolved_statement.output_column_list[0].column.type
