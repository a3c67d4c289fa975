"""Puts the documentation's pages into the wheel, for ``airflow connect docs``. Hatchling calls this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ONLY_INCLUDES = ("changelog.md", "index.md")
"""Pages that only include other files."""


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the pages to a wheel. An editable install reads them from the clone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add each page as a file of the package."""
        if version == "editable":
            return
        for page in sorted(Path(self.root, "docs").glob("*.md")):
            if page.name not in ONLY_INCLUDES:
                build_data["force_include"][str(page)] = f"airflow_provider_connect/pages/{page.name}"
