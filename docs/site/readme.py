"""What PyPI shows is the README without pictures and links into the clone, which lead nowhere; hatchling calls this."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\[([^\]]+)\]\((?!https://)([^)#]+)(?:#[^)]*)?\)")
_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https://)[^)]*\)\n+", re.MULTILINE)
_MARK = re.compile(r"<!-- --8<-- .*? -->\n")  # which part of the README the site shows where


class CustomMetadataHook(MetadataHookInterface):
    """Give the project's metadata its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put the text in; a link becomes its words, and the path of the file unless they are it."""
        readme = _MARK.sub("", Path(self.root, "README.md").read_text(encoding="utf-8"))
        readme = _PICTURE.sub("", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": _LINK.sub(_words, readme)}


def _words(link: re.Match[str]) -> str:
    words, path = link.groups()
    return words if words == path else f"{words} (`{path}`)"
