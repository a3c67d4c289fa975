"""Keeping rows that a snapshot no longer has, marked as deleted in the staged files themselves."""

from abc import ABC, abstractmethod

from airflow_provider_connect.sink import Sink
from airflow_provider_connect.window import SourceKind


class StagesMarks(ABC):
    """A sink whose staged files become the target's own, and so need the columns of :mod:`.stage.deleted`."""

    @abstractmethod
    def stages_marks(self, kind: SourceKind) -> bool:
        """Tell whether staged rows of a kind must have these columns."""


def stages_marks(sink: Sink, kind: SourceKind) -> bool:
    """Tell whether rows staged for a sink must have the columns of :mod:`.stage.deleted`."""
    marking = sink.capability(StagesMarks)
    return marking is not None and marking.stages_marks(kind)
