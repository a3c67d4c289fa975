"""Sending staged files from executors, for sinks that do not publish the files where they lie."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.manifest import StagedFile


class StagesByExecutors(ABC):
    """A publisher whose rows executors send between ``begin`` and ``commit``."""

    @abstractmethod
    def begin(self, publish: Publish) -> Any:
        """Prepare one publish. The token is pickled for every :meth:`put`. Driver, once an attempt."""

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Deal a day's files out, one :meth:`put` for each share: each file alone by default. Driver."""
        return [(file,) for file in files]

    @abstractmethod
    def put(self, token: Any, stage: str, share: tuple[StagedFile, ...]) -> Any:
        """Send one share of the stage; the receipt goes to ``commit``. Executor; may run twice, also at once."""

    @abstractmethod
    def abort(self, publish: Publish, token: Any) -> None:
        """Release what :meth:`begin` took. Driver; never touches what a commit may have published."""
