"""Every SQL text that the sink can make, judged by Google's own analyzer: over odd names, in every mode."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.sinks import _bigquery
from airflow_provider_connect.sinks._bigquery.erase_list import ADDED_LIST_FIELDS
from airflow_provider_connect.sinks._bigquery.ledger_rows import ADDED_FIELDS
from tests.equipment.bigquery.analyzer import Analyzer, RefusedError, Statement, paths, split
from tests.equipment.bigquery.earlier_statements import of_earlier_version
from tests.equipment.bigquery.statements import World, worlds

pytestmark = pytest.mark.slow
SINK = Path(_bigquery.__file__).parent
WORD_OF_SQL = re.compile(
    r"\b(SELECT|FROM|WHERE|AND|OR|NOT|NULL|INTO|DELETE|UPDATE|SET|DECLARE|AS|ON|IN|BY|DESC|LIMIT|THEN|WHEN|END|CASE|UNNEST"
    r"|VALUES|COUNT|COUNTIF|MAX|SUM|IF|COALESCE|CAST|STRUCT|ARRAY|DATE|TIMESTAMP|BETWEEN|TRUE|FALSE|CONCAT|DIV|CREATE"
    r"|BEGIN|COMMIT|MERGE|USING|PARSE_JSON|ROW_NUMBER|OVER|GROUP|ORDER|JOIN|UNION|EXISTS|IS_NAN|_PARTITIONTIME)\b"
)
PROSE = re.compile(r"\b[a-z]+,? [a-z_]+\b")


@pytest.mark.parametrize("world", [pytest.param(one, id=name) for name, one in worlds("day").items()])
def test_names_and_types_are_right_over_odd_names(world: World) -> None:
    analyzer = Analyzer(world.known())
    for sql in world.statements:
        analyzer.check(sql)


def plain() -> Iterator[tuple[Analyzer, Statement, Mapping[str, str]]]:
    """Yield each statement over a table whose columns have no odd names, with its script's variables."""
    known: set[Statement] = set()
    for world in worlds("events", ()).values():
        analyzer = Analyzer(world.known())
        for sql in world.statements:
            script = split(paths(sql))
            for statement in script.statements:
                if statement not in known:
                    known.add(statement)
                    yield analyzer, statement, script.variables


def test_every_column_stands_after_an_alias_that_its_statement_gives() -> None:
    """So no name of a table, and no other column, can hide it. The analyzer's strict mode wants the same."""
    for analyzer, statement, variables in plain():
        assert analyzer.columns_without_alias(statement) == set(), statement.text
        analyzer.check_statement(statement, variables, strict=True)


def test_removing_any_alias_is_detected() -> None:
    """Each column that stands after an alias is put there without it, once for each kind of statement."""
    tried: set[tuple[str, str]] = set()
    for analyzer, statement, _ in plain():
        columns = analyzer.columns_of(statement.text)
        for place in re.finditer(r"\b(?:connect_(?:t|s|n|tombstone|ledger|reject)|r)\.(?=`?(\w+)`?)", statement.text):
            kind = (shape_of(statement.text[: place.start()])[-25:], place[0] + place[1])
            if kind in tried or place[1].lower() not in columns:  # else a column that the statement itself makes
                continue
            tried.add(kind)
            (mutant,) = split(statement.text[: place.start()] + statement.text[place.end() :]).statements
            assert analyzer.columns_without_alias(mutant), mutant.text
    assert len(tried) > 300


def test_transactions_hold_what_bigquery_takes_there_and_nothing_needs_a_parameter() -> None:
    """No DDL on lasting tables: https://cloud.google.com/bigquery/docs/transactions#limitations (2026-11)."""
    dml = {"InsertStatement", "UpdateStatement", "DeleteStatement", "MergeStatement"}
    lasting = {"CreateTableStatement", "AlterTableStatement"}
    inside = {statement.kind for _, statement, _ in plain() if statement.in_transaction}
    assert inside <= dml | {"QueryStatement", "SingleAssignment", "IfStatement"}
    outside = {statement.kind for _, statement, _ in plain() if not statement.in_transaction}
    assert outside <= dml | {"QueryStatement", "SingleAssignment", "VariableDeclaration", *lasting}
    for _, statement, _ in plain():
        assert not re.search(r"@|[?]|\$\d{8}", re.sub(r"'(?:[^'\\]|\\.)*'", "", statement.text)), statement.text


def shape_of(text: str) -> str:
    return re.sub(r"'[^']*'|`[^`]*`|\d+", "", text)


@pytest.mark.parametrize("table", ["Größe", "select", "connect_t", "record_key"])
def test_names_and_types_are_right_in_a_table_of_any_name(table: str) -> None:
    """A table's short name hides a column of that name."""
    every = worlds(table, (table,))
    for mode in ("merge, filter", "snapshot, softly", "template, filter"):
        analyzer = Analyzer(every[mode].known())
        for sql in every[mode].statements:
            analyzer.check(sql)


def test_the_analyzer_detects_hidden_names() -> None:
    """The faults for which it is asked: both emulators pass them."""
    world = World("day", ("t", "connect_newest_day"))
    analyzer = Analyzer(world.known())
    place = world.tables.target.sql
    merge = f"MERGE INTO {place} AS t USING (SELECT 'x' AS t) AS n ON t.t = n.t WHEN MATCHED THEN UPDATE SET t = n.t"
    for sql, words in (
        (f"DELETE FROM {place} WHERE `day` = DATE '2026-09-01'", "No matching signature for operator ="),
        (merge, "does not support updating the entire row"),
        (f"SELECT x.nope AS nope FROM {place} AS x", "Name nope not found inside x"),
        (
            f"DECLARE `gone` DATE; SELECT 1 AS a FROM {place} AS x WHERE gone > DATE '2026-09-01'",
            "No matching signature",
        ),
        (f"DECLARE a INT64; SET a = (SELECT x.day FROM {place} AS x)", "DATE which cannot be inserted into column a"),
    ):
        with pytest.raises(RefusedError, match=re.escape(words)):
            analyzer.check(sql)


FIRST = frozenset(field["name"] for field in ADDED_FIELDS) | frozenset(ADDED_LIST_FIELDS)


@pytest.mark.parametrize("lacked", [FIRST, {"definition", "shaping"}], ids=["first", "later"])
def test_ledger_and_erase_list_of_an_earlier_version_are_read(lacked: frozenset[str]) -> None:
    """What the analyzer says of a column that is not there is what makes the next query leave it out."""
    assert len(of_earlier_version(lacked)) > 10


def test_every_text_of_sql_in_the_package_stands_in_a_statement_that_was_analyzed() -> None:
    made = {sql for world in worlds("day").values() for sql in world.statements} | {*of_earlier_version(FIRST)}
    missing = [
        f"{path.name}:{line}: {text!r}"
        for path in sorted(SINK.rglob("*.py"))
        for line, text in texts_of_sql(path)
        if not any(text in sql for sql in made)
    ]
    assert missing == [], "no world has it"


def texts_of_sql(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each text of a module, or piece of one between values, that has a word of SQL and is no prose."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = getattr(node, "value", None)
        if isinstance(text, str) and id(node) not in docs and WORD_OF_SQL.search(text) and not PROSE.search(text):
            yield node.lineno, text
