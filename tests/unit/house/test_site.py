"""Tests of the site: code blocks work, quoted messages exist in the code, and the navigation lists each page."""

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
NEXT_LINE = re.compile(r'"\s*\n\s*f?"')  # a string literal that continues
ERROR = re.compile(r"^\w+Error: ")
SINK_SECTIONS = {"Connection", "Ledger", "Delivery", "Schema", "Limits", "Errors"}
PUT_IN = {"401", "402", "403", "429", "connect: day"}  # status codes, and the prefix of the driver's log lines
SHOWN = {
    "",
    "text",
    "dockerfile",
    "promql",
    "sql",
}  # not checked here; SQL runs in the tests of its sinks


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
    all_blocks = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            all_blocks.append(Block(page.name, line, match[2], textwrap.dedent(match[3])))
    return [block for block in all_blocks if not languages or block.language in languages]


def navigation() -> list[str]:
    class Loader(yaml.SafeLoader):
        """Takes mkdocs' own tags for text."""

    Loader.add_constructor("!relative", lambda loader, node: loader.construct_scalar(node))
    config = yaml.load((DOCS / "site" / "mkdocs.yml").read_text(encoding="utf-8"), Loader)
    return list(leaves(config["nav"]))


def leaves(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for page in entry.values():
            yield from [page] if isinstance(page, str) else leaves(page)


def test_each_page_stands_in_the_navigation_once() -> None:
    pages = navigation()
    assert len(pages) == len(set(pages))
    assert {path.name for path in DOCS.glob("*.md")} - set(pages) == set()
    assert "glossary.md" in pages


def test_the_changelog_has_a_section_for_this_version() -> None:
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_each_block_has_a_language_that_is_checked() -> None:
    assert {block.language for block in blocks()} - SHOWN <= {
        *("python", "json", "yaml", "toml", "ini", "sh", "bash", "console")
    }


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles_and_its_imports_exist(block: Block) -> None:
    for node in ast.walk(ast.parse(block.code)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or importlib.import_module(f"{node.module}.{alias.name}")


@functools.cache
def connector_classes() -> dict[str, type[BaseModel]]:
    rooms = (("sources", registry.source_class), ("sinks", registry.sink_class))
    return {connector.__name__: connector for room, find in rooms for connector in map(find, registry.names(room))}


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_gives_options_that_exist(block: Block) -> None:
    connectors = connector_classes()
    for node in ast.walk(ast.parse(block.code)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        arguments = {keyword.arg: None for keyword in node.keywords if keyword.arg}
        if node.func.id in connectors:
            assert arguments.keys() <= connectors[node.func.id].model_fields.keys()
        elif node.func.id == "ConnectOperator":
            require_known_arguments(ConnectOperator, arguments)


@pytest.mark.parametrize("block", [each for each in blocks("python") if "with DAG(" in each.code], ids=str)
def test_every_dag_on_a_page_can_be_loaded(block: Block) -> None:
    tree = ast.parse(block.code)
    dags = [node for node in tree.body if isinstance(node, ast.With)]
    for number, node in enumerate(dags):
        node.items[0].optional_vars = ast.Name(f"shown_{number}", ast.Store())
    space: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), str(block), "exec"), space)
    for number, node in enumerate(dags):
        dag = space[f"shown_{number}"]
        assert isinstance(dag, DAG)
        assert dag.tasks or (isinstance(node.body[0], ast.Expr) and ast.unparse(node.body[0]) == "...")


@pytest.mark.parametrize("block", blocks("json", "yaml", "toml", "ini"), ids=str)
def test_blocks_of_data_can_be_parsed(block: Block) -> None:
    read = {"json": documents, "yaml": yaml.safe_load, "toml": tomllib.loads, "ini": sections}[block.language]
    read(block.code)  # raises if the block is invalid


def sections(text: str) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser.sections()


def documents(text: str) -> list[Any]:
    """Parse consecutive JSON documents."""
    parsed, remaining = [], text.strip()
    while remaining:
        document, end = json.JSONDecoder().raw_decode(remaining)
        parsed.append(document)
        remaining = remaining[end:].lstrip()
    return parsed


@pytest.mark.parametrize("block", blocks("sh", "bash", "console"), ids=str)
def test_commands_in_blocks_exist(block: Block) -> None:
    for words in commands(typed(block)):
        match words:
            case ["airflow", *arguments]:
                airflow_cli().parse_args(arguments)
            case ["python", "-m", module, *_]:
                assert importlib.util.find_spec(module), module
            case ["pip", "install", "-c", _, clone]:
                assert Requirement(f"clone[{clone.partition('[')[2]}").extras <= optional_dependencies()
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
    """Return the lines that a user types. In a console block they begin with the prompt."""
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


def test_messages_quoted_on_the_operations_page_exist_in_the_code() -> None:
    """On the page, … stands for a value."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "airflow_provider_connect").rglob("*.py"))
    code = "\n".join(NEXT_LINE.sub("", text) for text in sources)
    rows = [line for line in (DOCS / "operations.md").read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    quoted = [span for row in rows for span in CODE.findall(row.split(" | ")[0])]
    assert len(quoted) > 40
    fragments = {part.strip(" ,:;.'") for span in quoted for part in re.split("…| / ", ERROR.sub("", span))}
    assert {part for part in fragments - PUT_IN if part not in code} == set()


def test_each_connector_has_a_page_with_the_same_sections_and_a_guide() -> None:
    hooks = maker("site/hooks")
    pages = navigation()
    connectors = [(room, name) for room in hooks.ROOMS for name in registry.names(room)]
    assert {f"{room}/{name}" for room, name in connectors} == set(hooks.GUIDES)
    for room, name in connectors:
        sections = set(re.findall(r"^## (.*)$", hooks.page_of(room, name), re.MULTILINE))
        expected_sections = (
            {"Connection", "Rows", "Key", "Counts", "Limits", "Errors"} if room == "sources" else SINK_SECTIONS
        )
        assert expected_sections <= sections, name
        assert f"{room}/{name}.md" in pages
        assert (DOCS / hooks.GUIDES[f"{room}/{name}"]).exists()


def test_links_of_the_readme_lead_to_a_heading() -> None:
    """The site's build checks the links inside docs/."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for page, anchor in re.findall(r"\]\(([^)#:]+)#([^)]+)\)", text):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {slugify(heading, "-") for heading in headings}, f"{page}#{anchor}"


def test_the_build_fails_on_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    shutil.copytree(DOCS / "site", tmp_path / "docs" / "site", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n[1](index.md#here) [2](index.md#nowhere) [3](no.md)\n")
    (line,) = re.findall(r"^MKDOCS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    command = line.replace("$(BIN)", str(Path(sys.executable).parent))
    process = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    warnings = [text for text in process.stderr.splitlines() if text.startswith("WARNING")]
    assert [[part in text for part in ("#nowhere", "no.md")] for text in sorted(warnings)] == [
        [True, False],
        [False, True],
    ]


def test_a_publisher_sets_the_addresses_in_one_place(tmp_path: Path) -> None:
    hooks = maker("site/hooks")
    settings = tmp_path / "pyproject.toml"
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    placeholders = {
        "https://docs.example/airflow-provider-connect/",
        "https://issues.example/airflow-provider-connect/",
    }
    assert not placeholders & set(hooks.publisher_urls(ROOT / "pyproject.toml").values())
    for address in placeholders:
        text = text.replace(address, address.replace(".example", ".acme.test"))
        files = (path for folder in ("airflow_provider_connect", "docs") for path in (ROOT / folder).rglob("*.*"))
        texts = [path for path in files if path.suffix in (".py", ".md", ".js", ".yml", ".html", ".txt")]
        assert [path for path in texts if address in path.read_text(encoding="utf-8")] == []
    settings.write_text(text)
    assert {"Documentation", "Issues", "Source"} <= set(hooks.publisher_urls(settings))


def test_the_spark_connections_of_the_page_on_clusters_lead_to_their_masters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)  # an extra of the provider
    masters = []
    for block in blocks("json"):
        if block.page == "cluster.md":
            monkeypatch.setenv("AIRFLOW_CONN_SPARK_PAGE", block.code)
            connection = spark_submit.SparkSubmitHook(conn_id="spark_page")._connection
            masters.append((connection["master"], connection["deploy_mode"] or "client"))
    kubernetes = "k8s://https://kubernetes.default.svc:443"
    assert masters == [("spark://spark-master:7077", "client"), ("yarn", "cluster"), (kubernetes, "cluster")]
