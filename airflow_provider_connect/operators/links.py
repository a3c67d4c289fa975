"""Button of a task in Airflow's UI that opens its last publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class PublishedLink(BaseOperatorLink):
    """Link to the task's last publish in the sink's own console, if it has one.

    Airflow calls it in the task's process after the run and keeps the link as an XCom.
    """

    name = "Published"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link of the newest day that has one, else an empty text."""
        return str(getattr(operator, "published_link", ""))
