"""Fills the parts of pages that are made from the code; `make docs` runs it, a test keeps the pages true.

Such a part stands between `<!-- made from the code: <name> -->` and `<!-- end -->`. What is between them is lost.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from airflow_provider_connect.job import TOLD, DayReport, Totals
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.stream_definition import MixpanelStream
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources._x_search import columns as x
from airflow_provider_connect.sources._x_search.options import StreamName

DOCS = Path(__file__).parent
PAGES = ("architecture.md", "mixpanel.md", "recipes.md", "report.md", "x-search.md")
DAGS = DOCS.parent / "dags"
PACKAGE = DOCS.parent / "airflow_provider_connect"
SETTINGS = DOCS.parent / "pyproject.toml"
_REGION = re.compile(r"(<!-- made from the code: ([\w -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DDL = {
    "string": "STRING",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
    "timestamp[us]": "TIMESTAMP_NTZ",
    "date32[day]": "DATE",
    "double": "DOUBLE",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
}


def page(name: str) -> str:
    """Return a page as it should be."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return _REGION.sub(lambda found: f"{found[1]}\n{region(found[2])}\n{found[3]}", text)


def region(name: str) -> str:
    """Return the text of a region, such as `streams` or `rows engage`.

    :raises KeyError: there is no such region.
    """
    if name.startswith("x rows "):
        return x_rows(next(each for each in x.STREAMS if name == f"x rows {each}"))
    if name == "x streams":
        return x_streams()
    if name.startswith("recipe "):
        return recipe(name.removeprefix("recipe "))
    kind, _, stream = name.partition(" ")
    if stream:
        made: dict[str, Callable[[MixpanelStream], str]] = {"rows": rows, "counts": counts}
        return made[kind](next(each for each in STREAMS.values() if each.name == stream))
    whole: dict[str, Callable[[], str]] = {
        "streams": streams,
        "rooms": rooms,
        "totals": lambda: fields(Totals),
        "days": lambda: fields(DayReport, TOLD),
    }
    return whole[kind]()


def recipe(name: str) -> str:
    """Return the file of a recipe as a block of code."""
    (file,) = (*DAGS.glob(f"recipes/{name}.py"), *DAGS.glob(f"pipelines/{name}.yaml"))
    language = "yaml" if file.suffix == ".yaml" else "python"
    return f"```{language}\n{file.read_text(encoding='utf-8')}```\n"


def rooms() -> str:
    """Return the table of the package's rooms, lowest first, with what the lint contracts let each import."""
    contracts = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["type"] == "layers")["layers"]
    lines = ["| room | holds | does not import, of the rows above | libraries |", "|---|---|---|---|"]
    lower: set[str] = set()
    for layer in reversed(layers):
        peers = re.findall(r"\w+", layer)
        for place, room in enumerate(peers):
            closed = lower & _closed(room, contracts) | {*peers[:place]}
            opened = lower - closed
            lines.append(f"| `{room}` | {_holds(room)} | {_left_out(closed, opened)} | {_libraries(room, contracts)} |")
        lower |= {*peers}
    return "\n".join(lines) + "\n"


def _closed(room: str, contracts: list[dict[str, Any]]) -> set[str]:
    """Return the rooms that contracts close to a room as a whole."""
    closed: set[str] = set()
    for contract in contracts:
        ignored = [line.split(" -> ") for line in contract.get("ignore_imports", [])]
        opened = {_room(to) for by, to in ignored if _room(by) == room}
        if contract["type"] == "forbidden" and any(_room(name) in (room, "*") for name in contract["source_modules"]):
            names = {_room(name) for name in contract["forbidden_modules"]}
            closed |= ({path.stem for path in PACKAGE.iterdir()} if "*" in names else names) - opened
        if contract["type"] == "protected" and room not in {_room(name) for name in contract["allowed_importers"]}:
            closed |= {_room(name) for name in contract["protected_modules"]} - opened - {room}
    return closed


def _libraries(room: str, contracts: list[dict[str, Any]]) -> str:
    """Return which of Airflow and PySpark a room may import."""
    protected = [contract for contract in contracts if contract["type"] == "protected"]
    allowed = [
        name
        for contract in protected
        for name in contract["protected_modules"]
        if name in ("airflow", "pyspark") and room in {_room(importer) for importer in contract["allowed_importers"]}
    ]
    return ", ".join(f"`{name}`" for name in allowed)


def _room(module: str) -> str:
    """Return the room of a module or pattern of the package; the name itself of a library."""
    return module.removeprefix(f"{PACKAGE.name}.").partition(".")[0]


def _holds(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    file = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return re.sub(r":\w+:`[~.]?(?:[\w.]*\.)?(\w+)`", r"`\1`", first.replace("\n", " ").replace("``", "`")).rstrip(".:")


def _left_out(closed: set[str], opened: set[str]) -> str:
    """Name closed rooms, or the opened ones where they are fewer."""
    return _names(closed) if len(closed) <= len(opened) else f"all but {_names(opened)}"


def _names(rooms: set[str]) -> str:
    return ", ".join(f"`{room}`" for room in sorted(rooms))


def streams() -> str:
    """Return the table of all streams."""
    lines = ["| stream | kind | API | key | requests | options of its own |", "|---|---|---|---|---|---|"]
    for stream in STREAMS.values():
        options = ", ".join(f"`{name}`" for name in _in_order(stream))
        key = ", ".join(stream.key)
        lines.append(f"| `{stream.name}` | {stream.kind} | {stream.api} | {key} | {stream.cost_text} | {options} |")
    return "\n".join(lines) + "\n"


def rows(stream: MixpanelStream) -> str:
    """Return the rows of a stream as Spark's DDL."""
    found = schema(columns=stream.columns)
    names = [f"{each.name} {_DDL[str(each.type)]}{'' if each.nullable else ' NOT NULL'}" for each in found]
    promotes = "promote" in stream.options
    last = len(found) - 1
    names = [f"{name}{',' if promotes or place < last else ''}" for place, name in enumerate(names)]
    comments = [each.metadata[b"comment"].decode() for each in found]
    if promotes:
        names.append("...")
        comments.append("one column for each promoted property")
    return _ddl(names, comments)


def x_streams() -> str:
    """Return the table of all streams of X search."""
    lines = ["| stream | a row is | key | schema of the row | and of its key |", "|---|---|---|---|---|"]
    for name, each in x.STREAMS.items():
        lines.append(f"| `{name}` | {each.summary} | {each.key} | `{each.record_name}` | `{each.record_name}Key` |")
    return "\n".join(lines) + "\n"


def x_rows(name: StreamName) -> str:
    """Return the rows of a stream of X search as Spark's DDL."""
    ddl = _DDL | {"list<item: string>": "ARRAY<STRING>", "list<element: string>": "ARRAY<STRING>"}
    found = x.schema(name)
    last = len(found) - 1
    names = [
        f"{each.name} {ddl[str(each.type)]}{'' if each.nullable else ' NOT NULL'}{',' if place < last else ''}"
        for place, each in enumerate(found)
    ]
    return _ddl(names, [each.metadata[b"comment"].decode() for each in found])


def _ddl(names: list[str], comments: list[str]) -> str:
    width = max(map(len, names))
    lines = [f"{name:{width}}  -- {comment}" for name, comment in zip(names, comments, strict=True)]
    return "\n".join(["```sql", *lines, "```"]) + "\n"


def counts(stream: MixpanelStream) -> str:
    """Return the table of what a stream counts in the report."""
    lines = ["| count in the report | what is counted |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {meaning} |" for name, meaning in stream.counts.items())]) + "\n"


def fields(model: type[BaseModel], chosen: frozenset[str] | None = None) -> str:
    """Return the table of a model's fields: name, unit, example, meaning."""
    lines = ["| field | unit | example | |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        if chosen is None or name in chosen:
            (example,), extra = field.examples or [None], field.json_schema_extra
            unit = extra["unit"] if isinstance(extra, dict) else ""
            shown = json.dumps(example, ensure_ascii=False)
            lines.append(f"| `{name}` | {unit} | `{shown}` | {field.description} |")
    return "\n".join(lines) + "\n"


def _in_order(stream: MixpanelStream) -> list[str]:
    """Return the options that belong to a stream alone, in the order in which they are declared."""
    from airflow_provider_connect.sources.mixpanel import MixpanelSource  # noqa: PLC0415

    return [name for name in MixpanelSource.model_fields if name in stream.options]


if __name__ == "__main__":
    for each in PAGES:
        made = page(each)
        (DOCS / each).write_text(made, encoding="utf-8")
