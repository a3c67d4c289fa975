"""Alias store: the documents of a day in an index of their own, and an alias that is switched to it.

The store is made up, and stands for search engines: documents are written one by one, and one call switches an alias,
if it still names what the caller says. Elasticsearch's calls for that:
https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-indices-update-aliases (2026-11).

**Connection** (type ``http``): host, port, login and password. https, or ``http`` to loopback.

**Delivery.** Each day once, and whole: readers ask the alias ``<alias>:<connector>:<stream>:<day>``. An attempt writes
an index of its own, which nobody sees before the alias names it. What is replaced is deleted a day later.

**Ledger.** One document for each index, in the index ``<alias>:ledger``. It is written before the switch, and counts
once the alias names its index.

**Schema.** None. Columns that JSON has no form for are refused.

**Limits.** One document for each row: an alias is for days of millions, not of billions.

**Errors.** A store that is away or in trouble is retriable; the old day stands. Credentials are for a person to mend.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from airflow_provider_connect.capabilities.publisher import StagesByExecutors, Sweeps
from airflow_provider_connect.clients.http.access import connection_problems
from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.client import Body, json_body
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.publishing import ledger_row, next_generation
from airflow_provider_connect.sink import Connections, Ledger, LedgerRow, Publish, Publisher, Sink, StreamKey
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import json_column_problems, read_json_documents
from airflow_provider_connect.window import Day, DaySet, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_BYTES = 1 << 20
_KEPT_SECONDS = 86_400.0
_SWEPT = "the attempt's index was swept before it was published; the next try writes another"


class AliasStoreSink(Sink):
    """Options of an alias store as a sink."""

    name: ClassVar[str] = "alias_store"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("http",)}

    conn_id: str = Field(description="Airflow connection that holds where the store is and who may write to it.")
    alias: str = Field(description="What the alias of every day begins with.", pattern="^[a-z0-9-]+$")

    @property
    def target(self) -> str:
        return f"{self.conn_id}/{self.alias}"

    @property
    def asset_uri(self) -> str:
        return f"alias-store://{self.target}"

    def check(self, connections: Connections) -> list[str]:
        return connection_problems(connections[self.conn_id])

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        return _Publisher(self, key, connections)


class _Ledger(Ledger):
    """A note for each index: the rows of its day, oldest generation first, and the index that it takes the place of."""

    def __init__(self, api: JsonApi, alias: str, key: StreamKey) -> None:
        self._api, self._notes = api, f"/indexes/{alias}:ledger/documents/"
        self.prefix = f"{alias}:{key.connector}:{key.stream}:"

    def row(self, day: dt.date) -> LedgerRow | None:
        return next(reversed(self.look(day)[1]), None)

    def days(self) -> DaySet:
        aliases = self._api.ask(Call("/aliases", params={"prefix": self.prefix})).document
        return DaySet.from_dates(dt.date.fromisoformat(alias.removeprefix(self.prefix)) for alias in aliases)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        return next((row for row in self.look(day)[1] if row.token == token), None)

    def look(self, day: dt.date) -> tuple[str | None, list[LedgerRow]]:
        """Return the index that readers see, and its rows."""
        alias = f"{self.prefix}{day}"
        index = self._api.ask(Call("/aliases", params={"prefix": alias})).document.get(alias)
        return index, [LedgerRow.model_validate(row) for row in self.note(index)[1]["rows"]] if index else []

    def note(self, index: str) -> tuple[int, dict[str, Any]]:
        reply = self._api.ask(Call(self._notes + index, allowed=(404,)))
        return (-1, {}) if reply.status == 404 else (reply.document["seq_no"], reply.document["source"])

    def write(self, index: str, note: dict[str, Any], if_seq_no: int) -> bool:
        body = json_body({"source": note, "if_seq_no": if_seq_no})
        return self._api.ask(Call(self._notes + index, body=body, allowed=(409,))).status != 409


class _Publisher(Publisher, StagesByExecutors, Sweeps):
    def __init__(self, sink: AliasStoreSink, key: StreamKey, connections: Connections) -> None:
        self._alias, self._api = sink.alias, JsonApi(connections[sink.conn_id])
        self._ledger = _Ledger(self._api, sink.alias, key)

    @property
    def ledger(self) -> Ledger:
        return self._ledger

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        for name in ("ledger", "rejects"):
            self._api.ask(Call("/indexes", body=json_body({"name": f"{self._alias}:{name}"}), allowed=(409,)))
        return json_column_problems(schema)

    def begin(self, publish: Publish) -> str:
        index = f"{self._ledger.prefix}{publish.day}:{uuid.uuid4().hex}"
        self._api.ask(Call("/indexes", body=json_body({"name": index})))
        self.put(f"{self._alias}:rejects", publish.stage, publish.manifest.polled.rejects)
        return index

    def put(self, token: str, stage: str, share: tuple[StagedFile, ...]) -> None:
        for file in share:
            for first, rows in read_json_documents(
                stage, file.path, _BATCH_BYTES
            ):  # a row has the same name when it comes again
                named = [b'"%s:%d":%s' % (file.path.encode(), first + at, row) for at, row in enumerate(rows)]
                body = b'{"documents":{%s}}' % b",".join(named)
                self._ask(f"/indexes/{token}/bulk", Body("application/json", body))

    def commit(self, publish: Publish, token: str, receipts: list[Any]) -> LedgerRow:
        here, rows = self._ledger.look(publish.day.date)
        for row in rows:
            if row.token == publish.intent.token:
                return row
        row = ledger_row(publish, next_generation(publish, rows[-1] if rows else None))
        seq_no, note = self._ledger.note(token)
        if "swept" in note:
            raise RetriableError(_SWEPT)
        note = {"replaces": here, "rows": [each.model_dump(mode="json") for each in (*rows, row)]}
        alias, switch = f"{self._ledger.prefix}{publish.day}", json_body({"from": here, "to": token})
        if self._ledger.write(token, note, seq_no) and self._ask(f"/aliases/{alias}", switch) != 409:
            return row
        return self.commit(publish, token, receipts)  # somebody was faster, and the ledger says who

    def abort(self, publish: Publish, token: str) -> None:
        self._bury(token, publish.day.date)

    def leftovers(self) -> list[str]:
        notes = {index: self._ledger.note(index)[1] for index in self._old()}
        return [index for index, note in notes.items() if not self._may_show(note, index, _day_of(index))]

    def sweep(self) -> int:
        return sum(self._bury(index, _day_of(index)) for index in self._old())

    def _old(self) -> list[str]:
        ages = self._api.ask(Call("/indexes", params={"prefix": self._ledger.prefix})).document.items()
        return [index for index, seconds in ages if seconds > _KEPT_SECONDS]

    def _may_show(self, note: dict[str, Any], index: str, day: dt.date) -> bool:
        """Tell whether readers see an index, or still may come to."""
        return "replaces" in note and self._ledger.look(day)[0] in (index, note["replaces"])

    def _bury(self, index: str, day: dt.date) -> bool:
        """Delete an index, unless readers see it or still may come to."""
        seq_no, note = self._ledger.note(index)
        if not note and not self._ledger.write(index, {"swept": True}, seq_no):  # this keeps a late commit out
            return False
        if self._may_show(note, index, day):
            return False
        self._api.ask(Call(f"/indexes/{index}/delete", "POST", allowed=(404,)))
        return True

    def close(self) -> None:
        self._api.close()

    def _ask(self, path: str, body: Body) -> int:
        status = self._api.ask(Call(path, body=body, allowed=(404, 409))).status
        if status == 404:
            raise RetriableError(_SWEPT)
        return status


def _day_of(index: str) -> dt.date:
    return dt.date.fromisoformat(index.split(":")[-2])
