"""Writes a manifest's texts as texts of a declaration, with placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.cli.manifests.expressions import Edge, Part, Reference, Text, Unreadable, read_parts
from airflow_provider_connect.cli.manifests.remarks import Remarks, UntranslatableError
from airflow_provider_connect.cli.manifests.settings import Setting, Settings
from airflow_provider_connect.cli.manifests.times import time_form


class LeftOutError(Exception):
    """A text that the declaration leaves out. The message says why, or is empty if nothing is lost."""


class SecretError(Exception):
    """A text that holds a secret of the config, so that it belongs to the connection."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting.name)
        self.setting = setting


@dataclass
class Scope:
    """What the expressions of one stream stand for.

    :param partitions: column of the parent, by path in the manifest's slice.
    :param time_form: default format of the range's bounds. None without a range.
    """

    settings: Settings
    remarks: Remarks
    partitions: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    time_form: str | None = None

    def write(self, value: Any, section: str) -> Any:
        """Return a text, or a value with texts, as the declaration's.

        :raises LeftOutError: it depends on a value that is not there.
        :raises SecretError: it holds a secret.
        """
        if not isinstance(value, str):
            return value
        parts = read_parts(value, look_up=self.settings.setting)
        if "{%" in value or (" if " in value and "{{" in value):
            self.remarks.check(section, f"your config decides: {value}")
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].value
        texts = [self._write_part(part, section, is_alone=len(parts) == 1) for part in parts]
        return texts[0] if len(texts) == 1 else "".join(str(text) for text in texts)

    def write_text(self, value: Any, section: str) -> str:
        """Return the same as text.

        :raises UntranslatableError: it depends on a value that is not there.
        """
        try:
            return str(self.write(value, section))
        except LeftOutError as error:
            raise UntranslatableError(f"{section}: {error}") from None

    def _write_part(self, part: Part, section: str, *, is_alone: bool) -> Any:
        if isinstance(part, Text):
            return part.value
        if isinstance(part, Edge):
            return self._write_edge(part)
        if isinstance(part, Reference) and part.root == "config":
            return self._write_setting(part, section, is_alone=is_alone)
        if isinstance(part, Reference) and part.root == "partition":
            return self._write_partition(part)
        if isinstance(part, Reference) and part.root == "next_page_token":
            raise LeftOutError("")
        source = part.source if isinstance(part, Unreadable) else str(part[0])
        raise LeftOutError(f"the expression {source!r} has no counterpart")

    def _write_edge(self, edge: Edge) -> str:
        if self.time_form is None:
            raise LeftOutError("")
        form = self.time_form if edge.format is None else time_form(edge.format)
        if form is None:
            raise LeftOutError(f"the time format {edge.format!r} has no counterpart")
        return f"{{day.{edge.name}}}" if form == self.time_form else f"{{day.{edge.name}:{form}}}"

    def _write_partition(self, reference: Reference) -> str:
        column = self.partitions.get(reference.steps)
        if column is None:
            raise UntranslatableError(
                f"its request needs {'.'.join(reference.steps)!r} of a slice, which no parent has"
            )
        return f"{{parent.{column}}}"

    def _write_setting(self, reference: Reference, section: str, *, is_alone: bool) -> Any:
        setting = self.settings.setting(reference.steps)
        if setting.is_secret:
            raise SecretError(setting)
        if setting.value is None and reference.default not in (None, {}):
            self.remarks.check(section, f"{reference.default!r} is the default of config {setting.name!r}")
            return reference.default
        if setting.origin == "absent" and is_alone:
            self.remarks.check(section, f"config {setting.name!r} is optional, so its place in the request is left out")
            raise LeftOutError("")
        if setting.origin in ("missing", "absent"):
            self.remarks.check(section, f"replace {setting.placeholder} by your config's {setting.name!r}")
            return setting.placeholder
        if setting.origin == "default":
            self.remarks.check(section, f"{setting.value!r} is the default of config {setting.name!r}")
        return setting.value
