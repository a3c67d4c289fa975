"""The site: what its pages show as code works, what they quote is said, and each page is found."""

from __future__ import annotations

import argparse
import ast
import configparser
import functools
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk import DAG
from markdown.extensions.toc import slugify
from packaging.requirements import Requirement
from pydantic import BaseModel

from airflow_provider_connect import __version__, registry
from airflow_provider_connect.operators.arguments import require_known_arguments
from airflow_provider_connect.operators.connect import ConnectOperator
from tests.unit.house.test_docs import maker

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^( *)```([a-z]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
CODE = re.compile("`([^`]+)`")
NEXT_LINE = re.compile(r'"\s*\n\s*f?"')  # of a text that goes on
ERROR = re.compile(r"^\w+Error: ")
SINK_SECTIONS = {"Connection", "Ledger", "Delivery", "Schema", "Limits", "Errors"}
PUT_IN = {"401", "402", "403", "429", "connect: day"}  # figures of an answer, and the prefix of the driver's lines
SHOWN = {
    "",
    "text",
    "dockerfile",
    "promql",
    "sql",
}  # no program here reads these; those of SQL run in their sinks' own tests


@dataclass(frozen=True)
class Block:
    """One block of code on a page."""

    page: str
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page.name, line, match[2], textwrap.dedent(match[3])))
    return [block for block in found if not languages or block.language in languages]


def navigation() -> list[str]:
    class Loader(yaml.SafeLoader):
        """Takes mkdocs' own tags for text."""

    Loader.add_constructor("!relative", lambda loader, node: loader.construct_scalar(node))
    config = yaml.load((DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    return list(leaves(config["nav"]))


def leaves(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for what in entry.values():
            yield from [what] if isinstance(what, str) else leaves(what)


def test_each_page_stands_in_the_navigation_once() -> None:
    named = navigation()
    assert len(named) == len(set(named))
    assert {path.name for path in DOCS.glob("*.md")} - set(named) == set()


def test_the_changelog_has_a_section_for_this_version() -> None:
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_block_has_a_language_that_is_checked() -> None:
    assert {block.language for block in blocks()} - SHOWN <= {
        *("python", "json", "yaml", "toml", "ini", "sh", "bash", "console")
    }


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_what_it_imports_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_gives_options_that_exist(block: Block) -> None:
    connectors: dict[str, type[BaseModel]] = {}
    for room, find in (("sources", registry.source_class), ("sinks", registry.sink_class)):
        connectors |= {found.__name__: found for found in map(find, registry.names(room))}
    for node in ast.walk(ast.parse(block.code)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        given = {keyword.arg: None for keyword in node.keywords if keyword.arg}
        if node.func.id in connectors:
            assert given.keys() <= connectors[node.func.id].model_fields.keys()
        elif node.func.id == "ConnectOperator":
            require_known_arguments(ConnectOperator, given)


@pytest.mark.parametrize("block", [each for each in blocks("python") if "with DAG(" in each.code], ids=str)
def test_a_dag_that_is_shown_can_be_read(block: Block) -> None:
    tree = ast.parse(block.code)
    shown = [node for node in tree.body if isinstance(node, ast.With)]
    for number, node in enumerate(shown):
        node.items[0].optional_vars = ast.Name(f"shown_{number}", ast.Store())
    space: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), str(block), "exec"), space)
    for number, node in enumerate(shown):
        dag = space[f"shown_{number}"]
        assert isinstance(dag, DAG)
        assert dag.tasks or (isinstance(node.body[0], ast.Expr) and ast.unparse(node.body[0]) == "...")


@pytest.mark.parametrize("block", blocks("json", "yaml", "toml", "ini"), ids=str)
def test_data_can_be_read(block: Block) -> None:
    read = {"json": documents, "yaml": yaml.safe_load, "toml": tomllib.loads, "ini": sections}[block.language]
    read(block.code)  # raises what is wrong with it


def sections(text: str) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser.sections()


def documents(text: str) -> list[Any]:
    """Read one JSON document after another."""
    found, rest = [], text.strip()
    while rest:
        document, end = json.JSONDecoder().raw_decode(rest)
        found.append(document)
        rest = rest[end:].lstrip()
    return found


@pytest.mark.parametrize("block", blocks("sh", "bash", "console"), ids=str)
def test_commands_exist(block: Block) -> None:
    for words in commands(typed(block)):
        match words:
            case ["airflow", *arguments]:
                airflow_cli().parse_args(arguments)
            case ["python", "-m", module, *_]:
                assert importlib.util.find_spec(module), module
            case ["pip", "install", *packages]:
                for package in map(Requirement, packages):
                    if package.name != "airflow-provider-connect":
                        assert package.extras <= set(metadata(package.name).get_all("Provides-Extra"))
                    else:
                        assert package.extras <= optional_dependencies()
            case _:
                assert words[0] in {".", "cd", "export", "make", "mkdir", "python", "python3"}, words


def test_commands_of_airflow_in_sentences_exist() -> None:
    for page in PAGES:
        for span in re.findall(r"`airflow ([a-z-]+(?: [a-z-]+)*)", page.read_text(encoding="utf-8")):
            parser: argparse.ArgumentParser | None = airflow_cli()
            for word in span.split():
                parser = subparsers(parser).get(word) if parser else None
                assert parser, f"{page.name}: airflow {span}"
                if not subparsers(parser):
                    break


def test_no_command_hides_in_a_block_without_a_language() -> None:
    hidden = [
        block for block in blocks("", "text") if re.search(r"^(make|pip|python|airflow) ", block.code, re.MULTILINE)
    ]
    assert hidden == []


def typed(block: Block) -> str:
    """Return what a person types: of what a console shows, the lines that begin with its prompt."""
    if block.language != "console":
        return block.code
    return "\n".join(line.removeprefix("$ ") for line in block.code.splitlines() if line.startswith("$ "))


def commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        words: list[str] = []
        for word in [*shlex.split(line, comments=True), "&&"]:
            if word in {"&&", "|", ">"}:
                if words:
                    yield words
                words = []
                if word == ">":
                    break
            else:
                words.append(word)


@functools.cache
def airflow_cli() -> argparse.ArgumentParser:
    from airflow.cli.cli_parser import get_parser

    return get_parser()


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def optional_dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_what_is_quoted_for_three_in_the_morning_is_said() -> None:
    """With … where something is put in."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "airflow_provider_connect").rglob("*.py"))
    said = "\n".join(NEXT_LINE.sub("", text) for text in sources)
    rows = [line for line in (DOCS / "operations.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    quoted = [span for row in rows for span in CODE.findall(row.split(" | ")[0])]
    assert len(quoted) > 60
    wanted = {part.strip(" ,:;.'") for span in quoted for part in re.split("…| / ", ERROR.sub("", span))}
    assert {part for part in wanted - PUT_IN if part not in said} == set()


def test_each_connector_has_a_page_with_the_same_sections_and_a_guide() -> None:
    hooks = maker("site/hooks")
    named = navigation()
    connectors = [(room, name) for room in hooks.ROOMS for name in registry.names(room)]
    assert {f"{room}/{name}" for room, name in connectors} == set(hooks.GUIDES)
    for room, name in connectors:
        sections = set(re.findall(r"^## (.*)$", hooks.page_of(room, name), re.MULTILINE))
        wanted = {"Connection", "Rows", "Key", "Counts", "Limits", "Errors"} if room == "sources" else SINK_SECTIONS
        assert wanted <= sections, name
        assert f"{room}/{name}.md" in named
        assert (DOCS / hooks.GUIDES[f"{room}/{name}"]).exists()


def test_links_of_the_readme_lead_to_a_heading() -> None:
    """Those inside docs/ are checked when the site is built."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page, anchor in re.findall(r"\]\(([^)#:]+)#([^)]+)\)", text):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {slugify(heading, "-") for heading in headings}, f"{page}#{anchor}"


def test_the_build_takes_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "site", tmp_path / "docs" / "site", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n[1](index.md#here) [2](index.md#nowhere) [3](no.md)\n")
    (line,) = re.findall(r"^MKDOCS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    command = line.replace("$(BIN)", str(Path(sys.executable).parent))
    ended = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    warnings = [text for text in ended.stderr.splitlines() if text.startswith("WARNING")]
    assert [[part in text for part in ("#nowhere", "no.md")] for text in sorted(warnings)] == [
        [True, False],
        [False, True],
    ]


def test_the_spark_connections_of_the_page_on_clusters_lead_to_their_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)  # an extra of the provider
    seen = []
    for block in blocks("json"):
        if block.page == "cluster.md":
            monkeypatch.setenv("AIRFLOW_CONN_SPARK_PAGE", block.code)
            found = spark_submit.SparkSubmitHook(conn_id="spark_page")._connection
            seen.append((found["master"], found["deploy_mode"] or "client"))
    kubernetes = "k8s://https://kubernetes.default.svc:443"
    assert seen == [("spark://spark-master:7077", "client"), ("yarn", "cluster"), (kubernetes, "cluster")]
