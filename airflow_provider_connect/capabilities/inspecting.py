"""Looking for problems without making anything."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa


class InspectsTarget(ABC):
    """A publisher that can tell before the first day is loaded what would fail."""

    @abstractmethod
    def inspect(self, schema: "pa.Schema", days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what ``preflight`` finds, as far as that is known without making anything. For a person."""
