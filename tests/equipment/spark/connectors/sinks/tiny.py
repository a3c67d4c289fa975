"""A sink that takes files one by one, keeps its ledger in a file, and fails on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.capabilities.publisher import Confirms, StagesByExecutors
from airflow_provider_connect.errors import DataError, RetriableError, SupersededError
from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, Sink
from tests.equipment.line_ledger import LineLedger

ERRORS: dict[str, Any] = {cls.__name__: cls for cls in (DataError, RetriableError, SupersededError, KeyError)}


class TinySink(Sink):
    """See the module; ``fails`` names the step and the error, as in ``put:DataError``."""

    name: ClassVar[str] = "tiny"
    folder: str
    fails: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        return self.folder

    @property
    def asset_uri(self) -> str:
        return f"file://{self.folder}"

    def open(self, key: Any, connections: Any) -> TinyPublisher:
        return TinyPublisher(self)


class TinyPublisher(Publisher, StagesByExecutors, Confirms):
    """Records each of its steps."""

    def __init__(self, options: TinySink) -> None:
        self.options = options

    @property
    def ledger(self) -> LineLedger:
        return LineLedger(Path(self.options.folder) / "ledger")

    def begin(self, publish: Publish) -> Any:
        self._step("begin")
        return {"attempt": publish.manifest.attempt}

    def put(self, token: Any, stage: str, share: Any) -> Any:
        assert all((Path(stage) / file.path).exists() for file in share)
        self._step("put")
        return (token["attempt"], *(file.path for file in share))

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        self._step("commit", repr(receipts))
        ledger = self.ledger
        generation = next_generation(publish, ledger.row(publish.day.date), erased=ledger.erased().version)
        row = ledger_row(publish, generation)
        ledger.add(row)
        self._fail("committed")
        return row

    def confirm(self, publish: Publish) -> LedgerRow:
        self._step("confirm")
        row = confirmed_row(publish, self.ledger.row(publish.day.date), self.ledger.erased().version)
        self.ledger.add(row)
        self._fail("confirmed")
        return row

    def abort(self, publish: Publish, token: Any) -> None:
        self._step("abort")

    def close(self) -> None:
        self._fail("close")

    def _step(self, name: str, text: str = "") -> None:
        with (Path(self.options.folder) / "steps").open("a") as file:
            file.write(f"{name}{text}\n")
        self._fail(name)

    def _fail(self, name: str) -> None:
        for fault in self.options.fails:
            step, _, error = fault.partition(":")
            if step == name:
                raise ERRORS[error](f"tiny's {step}")
