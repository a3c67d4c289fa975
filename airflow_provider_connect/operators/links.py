"""Button in Airflow's UI to a task's newest publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class PublishedLink(BaseOperatorLink):
    """Link to a task's newest publish in the sink's console, kept as an XCom after the run."""

    name = "Published"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link of the newest day with a link, or ""."""
        return str(getattr(operator, "published_link", ""))
