"""Sinks that delete rows or files which they must keep. See ``wrong_sinks.py``."""

from __future__ import annotations

import shutil

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.sink import Publish
from tests.conformance.folder import FolderPublisher
from tests.conformance.wrong_sinks import Wrong, fails


@fails("a_sweep_spares_what_is_under_way")
class TestSweepsTheLiving(Wrong):
    """Treats every file that no day shows as one of a dead attempt."""

    class publisher(FolderPublisher, Sweeps):  # noqa: N801
        def leftovers(self) -> list[str]:
            return []

        def sweep(self) -> int:
            shown = {name.partition("/")[0] for names in self.read().shown.values() for name in names}
            for folder in self.path.iterdir():
                if folder.is_dir() and folder.name not in shown:
                    shutil.rmtree(folder)
            return 0


@fails("a_sweep_deletes_what_it_lists")
class TestListsWhatItKeeps(Wrong):
    """Lists files that its sweep does not delete."""

    class publisher(FolderPublisher, Sweeps):  # noqa: N801
        def leftovers(self) -> list[str]:
            return [path.name for path in self.path.iterdir() if path.is_dir()]

        def sweep(self) -> int:
            return 0


@fails("a_commit_whose_answer_was_lost_may_be_aborted")
class TestAbortsWhatIsPublished(Wrong):
    """Deletes all sent files on abort, without checking which are published."""

    class publisher(FolderPublisher):  # noqa: N801
        def abort(self, publish: Publish, token: str) -> None:
            shutil.rmtree(self.path / token, ignore_errors=True)
