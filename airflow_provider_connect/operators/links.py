"""Button in Airflow's UI that opens a task's newest publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class PublishedLink(BaseOperatorLink):
    """Link to a task's newest publish in the sink's console.

    Airflow calls it after the run and keeps the link as an XCom.
    """

    name = "Published"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link of the newest day with a link. Empty without one."""
        return str(getattr(operator, "published_link", ""))
