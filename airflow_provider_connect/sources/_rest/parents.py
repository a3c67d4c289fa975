"""Selects the parents that have a request for their children."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.placeholders import requested_parent_columns


class ParentFilter:
    """Applies ``parent_where`` and ``parent_without_value``."""

    def __init__(self, options: RestOptions) -> None:
        self._values = {
            name: values if isinstance(values, tuple) else (values,) for name, values in options.parent_where.items()
        }
        self._requested = requested_parent_columns(options.request)
        self._skips_without_value = options.parent_without_value == "skip"
        self.columns = sorted(
            self._requested | self._values.keys() | {column.parent_name for column in options.resolved_parent_columns}
        )
        """Columns of the parent that the filter, the requests and the rows of the children need."""

    def skip_reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the name of the count for a skipped parent, or None if it is requested.

        A parent without a value that its request needs fails in :func:`.fill_request`, unless it is skipped here.
        """
        if any(row[name] not in values for name, values in self._values.items()):
            return "filtered_parents"
        if self._skips_without_value and any(row[name] in (None, "") for name in self._requested):
            return "parents_without_value"
        return None
