"""The button beside a task in Airflow's UI that leads to what it published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class PublishedLink(BaseOperatorLink):
    """Leads to the last publish of a task in the sink's own console, for sinks that have one.

    Airflow asks in the task's own process, when it has ended, and keeps the answer as an XCom.
    """

    name = "Published"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link the newest published day has; empty when there is none."""
        return str(getattr(operator, "published_link", ""))
