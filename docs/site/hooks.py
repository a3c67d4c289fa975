"""What the site does beyond mkdocs.

The navigation takes the pages that are there. Each connector's own page, the docstring of its face, is shown as a page,
and the guides lead to it. The glossary of ``architecture.md`` is shown as a page. Links into the clone, where the site
has no page, stay words.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

PACKAGE = Path(__file__).parents[2] / "airflow_provider_connect"
DOCS = Path(__file__).parents[1]
ROOMS = ("sources", "sinks")
GUIDES = {
    "sources/kafka": "topics.md",
    "sources/mixpanel": "mixpanel.md",
    "sources/rest": "any-api.md",
    "sources/sql": "sql.md",
    "sources/x_search": "x-search.md",
    "sinks/bigquery": "bigquery.md",
    "sinks/delta": "delta.md",
    "sinks/kafka": "kafka.md",
    "sinks/opensearch": "documents.md",
}
"""What to read about a connector, where that is a page of its own."""

GLOSSARY = "glossary.md"
PLACEHOLDER = ".example/"
"""Part of an address in pyproject.toml that the publisher has not set."""

_WORDS = re.compile(r"(?<=\n## Words\n\n).*?(?=\n## )", re.DOTALL)
_INTO_THE_CLONE = re.compile(r"\[([^\]]+)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")
_A_FACE = re.compile(r"`airflow_provider_connect/(sources|sinks)/(\w+)\.py`")
_A_PAGE = re.compile(r"`docs/(\w[\w-]*\.md)`")
_ROLE = re.compile(r":(?:class|mod|func|meth):`[~.]?(?:[\w.]*\.)?(\w+)`")
_RUN_IN = re.compile(r"\*\*(?P<title>[A-Z][^*]*?)(?P<end>\.\*\*|\*\*:|\*\*)\s*(?P<rest>.*)", re.DOTALL)
_RULE = re.compile(r"^=+ =+$")


def on_config(config: Any) -> Any:
    """Leave out of the navigation what is not there, and take the publisher's addresses."""
    config.nav = _there(config.nav, Path(config.docs_dir))
    urls = publisher_urls(DOCS.parent / "pyproject.toml")
    config.site_url = urls.get("Documentation")
    if "Issues" in urls:
        config.copyright = f'<a href="{urls["Issues"]}">Report a problem</a>'
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the page of each connector, and the glossary."""
    for room, name in faces():
        files.append(File.generated(config, f"{room}/{name}.md", content=page_of(room, name)))
    if glossary := _WORDS.search(_text_of(Path(config.docs_dir, "architecture.md"))):
        files.append(File.generated(config, GLOSSARY, content=f"# Glossary\n\n{glossary[0]}"))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Link the pages of connectors, and show the paths of files that lie outside the site."""
    if "/" in page.file.src_uri:
        return markdown  # made here
    if page.file.src_uri == "changelog.md":
        return (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    if page.file.src_uri == "architecture.md":
        markdown = _WORDS.sub(f"See the [glossary]({GLOSSARY}).\n", markdown)
    markdown = _INTO_THE_CLONE.sub(r"\1 (`\2`)", _A_FACE.sub(r"[`\2`](\1/\2.md)", markdown))
    for connector, guide in GUIDES.items():
        if page.file.src_uri == guide:
            title, _, rest = markdown.partition("\n")
            parts = " · ".join(f"[{part}]({connector}.md#{part})" for part in ("connection", "limits", "errors"))
            links = f"{parts} · [options](options.md#{option_class(*connector.split('/')).lower()})"
            markdown = f"{title}\n\n{links}\n{rest}"
    return markdown


def publisher_urls(settings: Path) -> dict[str, str]:
    """Return the project's addresses by name, without placeholders."""
    urls = tomllib.loads(_text_of(settings)).get("project", {}).get("urls", {})
    return {name: url for name, url in urls.items() if PLACEHOLDER not in url}


def faces() -> Iterator[tuple[str, str]]:
    """Yield room and name of each connector."""
    for room in ROOMS:
        yield from ((room, path.stem) for path in sorted((PACKAGE / room).glob("[!_]*.py")))


def page_of(room: str, name: str) -> str:
    """Return the docstring of a connector's face as a page in Markdown, with a heading for each of its sections."""
    title = option_class(room, name)
    first, *rest = (ast.get_docstring(_face(room, name)) or "").split("\n\n")
    links = [f"[options](../options.md#{title.lower()})"]
    if guide := GUIDES.get(f"{room}/{name}"):
        links.insert(0, f"[guide](../{guide})")
    return "\n\n".join([f"# {title}", " · ".join(links), _text(first), *_blocks(rest)]) + "\n"


def option_class(room: str, name: str) -> str:
    """Return the name of a connector's class."""
    found = [node.name for node in _face(room, name).body if isinstance(node, ast.ClassDef)]
    return next(each for each in found if each.endswith(("Source", "Sink")))


def _face(room: str, name: str) -> ast.Module:
    return ast.parse((PACKAGE / room / f"{name}.py").read_text(encoding="utf-8"))


def _blocks(paragraphs: list[str]) -> Iterator[str]:
    """Yield the blocks of a docstring as Markdown."""
    language = ""
    for paragraph in paragraphs:
        if paragraph.startswith(".. code-block:: "):
            language = paragraph.removeprefix(".. code-block:: ")
        elif language:
            yield f"```{language}\n{textwrap.dedent(paragraph)}\n```"
            language = ""
        elif _RULE.match(paragraph.splitlines()[0]):
            yield _table(paragraph.splitlines())
        elif run_in := _RUN_IN.fullmatch(paragraph):
            yield f"## {run_in['title']}"
            yield _text(_sentence(**run_in.groupdict()))
        else:
            yield _text(paragraph)


def _sentence(title: str, end: str, rest: str) -> str:
    """Return a paragraph without its title, unless the title is the subject of its first sentence."""
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1] + "."
    elif end == "**":
        rest = f"{title} {rest}"
    return rest[:1].upper() + rest[1:]


def _table(lines: list[str]) -> str:
    """Return a simple table of two columns, whose rows may go on in lines that have no first cell."""
    width = lines[0].index(" ") + 1
    rows: list[list[str]] = []
    for line in lines:
        if _RULE.match(line):
            continue
        if line[:width].strip():
            rows.append([line[:width].strip(), line[width:].strip()])
        else:
            rows[-1][1] += " " + line.strip()
    shown = [f"| {_text(key)} | {_text(what)} |".replace("\n", " ") for key, what in rows]
    return "\n".join(["| field | holds |", "|---|---|", *shown])


def _text(text: str) -> str:
    text = _ROLE.sub(r"``\1``", text).replace("``", "`").replace("_*", r"_\*")
    return _A_PAGE.sub(lambda found: f"[{_title(found[1])}](../{found[1]})", text)


def _title(page: str) -> str:
    with (DOCS / page).open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def _has_page(folder: Path, name: str) -> bool:
    """Return True if a page is a file, or is made here."""
    source = "architecture.md" if name == GLOSSARY else name
    return (folder / source).exists() or (PACKAGE / name).with_suffix(".py").exists()


def _text_of(path: Path) -> str:
    """Return a file's text, or an empty text without the file."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _there(entries: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    kept = []
    for entry in entries:
        ((title, what),) = entry.items()
        if isinstance(what, list):
            what = _there(what, folder)
        elif not _has_page(folder, what):
            continue
        if what:
            kept.append({title: what})
    return kept
