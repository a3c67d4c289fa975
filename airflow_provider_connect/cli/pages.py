"""Pages of the documentation, which the wheel carries: ``airflow connect docs`` prints them."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (_PACKAGE / "pages", _PACKAGE.parent / "docs")


def page_names() -> list[str]:
    """Return the names of all pages, without those that only include other files."""
    return sorted({path.stem for path in _folder().glob("*.md")} - {"changelog", "index"})


def title_of(name: str) -> str:
    """Return a page's title."""
    lines = read_page(name).splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), name)


def read_page(name: str) -> str:
    """Return a page as Markdown.

    :raises ConfigError: there is none.
    """
    path = _folder() / f"{name}.md"
    if name not in page_names():
        raise ConfigError(f"no page is named {name!r}; {suggest_nearest(name, page_names())}")
    return path.read_text(encoding="utf-8")


def _folder() -> Path:
    return next((folder for folder in _FOLDERS if folder.is_dir()), _FOLDERS[0])
