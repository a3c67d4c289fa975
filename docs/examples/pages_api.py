"""Orders of a shop: a JSON API that answers page by page.

The shop is made up. Many APIs have such pages: https://docs.stripe.com/api/pagination (2026-11).

**Connection** (type ``http``): host, port, and a token as password; ``{"auth": "bearer"}`` as extra. https,
or ``http`` to loopback.

**Days.** In UTC, by the time when an order was made.

**Rows**

.. code-block:: sql

    order_id    STRING NOT NULL,
    made_at     TIMESTAMP NOT NULL,
    record_key  STRING NOT NULL  -- 32 hex digits

**Key.** BLAKE2b-128 of the order's id.

**Limits.** A page is one request, and the pages of a day are asked for one after the other.

**Errors.** A page that is cut or no JSON is retriable, as are 408, 429 and 5xx. A bad order fails the day.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.clients.http.access import connection_problems
from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.polling.days import require_over
from airflow_provider_connect.polling.paging import pages
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa


class PagesApiSource(Source):
    """Options of a shop's orders as a source: those that every source has."""

    name: ClassVar[str] = "pages_api"
    connection_types: ClassVar[tuple[str, ...]] = ("http",)

    @property
    def stream_key(self) -> str:  # another shop has another connection
        return f"{self.conn_id}.orders"

    def check(self, connection: Connection) -> list[str]:
        return connection_problems(connection)

    def open(self, connection: Connection, context: PollContext) -> Poller:
        return _Orders(connection)


class _Orders(Poller):
    def __init__(self, connection: Connection) -> None:
        self._api = JsonApi(connection)

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        text, time = pa.string(), pa.timestamp("us", "UTC")
        columns = [("order_id", text, "the shop's own id"), ("made_at", time, "when it was made")]
        columns.append(("record_key", text, "BLAKE2b-128 of order_id"))
        return pa.schema([pa.field(name, kind, nullable=False, metadata={"comment": of}) for name, kind, of in columns])

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        for day in days:
            require_over(day, "UTC")
        return [InputPartition(days=(day,), index=index) for index, day in enumerate(days)]

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        import pyarrow as pa

        (day,) = part.days

        def fetch(token: str | None) -> dict[str, Any]:
            params = {"from": day.start.isoformat(), "to": day.end.isoformat()} | ({"after": token} if token else {})
            page = self._api.ask(
                Call("/orders", params=params), on_sent=tally.request, on_received=tally.received
            ).document
            if not isinstance(page, dict) or not {"orders", "next"} <= page.keys():
                raise RetriableError(f"day {day}: the answer to request {tally.requests} is no page of orders")
            return page

        for page in pages(fetch, lambda page: page["next"]):  # not get("next"): a page without it is not the last
            try:
                batch = pa.RecordBatch.from_pylist([_row(order) for order in page["orders"]], self.schema())
            except (ValueError, TypeError, KeyError, AttributeError):  # their texts quote values
                raise DataError(f"day {day}: an order of request {tally.requests} has not the fields it must") from None
            tally.for_day(day).rows += batch.num_rows
            yield day, batch

    def close(self) -> None:
        self._api.close()


def _row(order: dict[str, str]) -> dict[str, Any]:
    key = hashlib.blake2b(order["id"].encode(), digest_size=16).hexdigest()
    return {"order_id": order["id"], "made_at": dt.datetime.fromisoformat(order["made_at"]), "record_key": key}
