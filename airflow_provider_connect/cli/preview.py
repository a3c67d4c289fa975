"""``airflow connect preview``: the first rows of a day as the sink would get them."""

from __future__ import annotations

import secrets
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.poller import CountsRows, ReadBySpark
from airflow_provider_connect.capabilities.source import Counts
from airflow_provider_connect.cli.tasks import connect_task, open_source, parse_day, source_of_arguments
from airflow_provider_connect.cli.terminal import command, print_note, print_rows, shorten
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import QuotaWait, Turns
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import quota_of, requests_for, require_capability
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_Shape = Callable[["pa.RecordBatch", Counter[str]], "pa.RecordBatch"]


@command
def show_rows(args: Namespace) -> None:
    """Print the cost, then the first rows of a day."""
    if args.rows < 1:
        raise ConfigError("--rows must be at least 1")
    source = source_of_arguments(args)
    if source is not None:
        day = parse_day(args.day, source.timezone)
        connections = {source.conn_id: credentials.resolve_source(source)}
        rows = first_rows(source, Chain.of(()), connections, day, args.rows)
    else:
        task = connect_task(args.dag_id, args.task_id, args.bundle_name)
        day = task.day_of(args.day)
        pipeline = task.render(day)
        if pipeline.transform is not None:
            print_note("These rows are shown as polled. Only a run applies transform=, which needs Spark SQL")
        rows = first_rows(pipeline.source, pipeline.chain, pipeline.resolve_connections(), day, args.rows)
    is_full = args.output in ("json", "yaml")
    shown_rows = rows if is_full else [{name: shorten(value) for name, value in row.items()} for row in rows]
    print_rows(shown_rows, args.output, empty=f"{day}: the source has no row")


def first_rows(source: Source, chain: Chain, connections: Connections, day: Day, max_rows: int) -> list[dict[str, Any]]:
    """Return up to ``max_rows`` rows of a day.

    :raises QuotaError: the source's quota has no room now.
    :raises ConnectError: the poll failed.
    """
    tally = Tally([day])
    quota = quota_of(source, connections[source.conn_id])
    request_count = requests_for(source, [day])
    quota_text = f" of {quota.describe()}" if quota else ""
    print_note(f"Polling {day} takes at least {request_count:,} request{'' if request_count == 1 else 's'}{quota_text}")
    with ExitStack() as stack:
        if quota is not None:
            stack.enter_context(_reserve_requests(quota, request_count, tally))
        context = PollContext(polls_at_once=1, looks_ahead=False)
        poller = stack.enter_context(open_source(source, connections[source.conn_id], context))
        if isinstance(poller, ReadBySpark):
            raise ConfigError(f"stream {source.stream_key}: Spark itself reads this source, so only a run can")
        counting = source.capability(Counts) or Counts()
        if counting.counts_first:
            count_tally = Tally([day])
            if (count_quota := counting.count_quota(connections[source.conn_id])) is not None:
                stack.enter_context(_reserve_requests(count_quota, counting.requests_to_count([day]), count_tally))
            require_capability(poller, CountsRows, "its source counts days first").count(day, count_tally)
        shape = Shaping.of(chain, connections).bind(poller.schema())
        return _poll_rows(poller, day, max_rows, tally, shape)


def _poll_rows(poller: Poller, day: Day, max_rows: int, tally: Tally, shape: _Shape) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for part in poller.plan([day]):
        with closing(poller.poll(part, tally)) as batches:  # type: ignore[type-var]  # a generator
            for _, batch in batches:
                shaped_batch = shape(batch, tally.for_day(day).counts)
                rows += shaped_batch.slice(0, max_rows - len(rows)).to_pylist()
                if len(rows) >= max_rows:
                    return rows
    return rows


@contextmanager
def _reserve_requests(quota: Quota, requests: int, tally: Tally) -> Iterator[None]:
    """Reserve requests of a quota, and return the unsent ones. Raises QuotaError without room.

    Never queues.
    """
    turns = Turns(VariableStore(), quota)
    want = QuotaClaim(asker=secrets.token_hex(8), requests=requests, least=requests, rank=1)
    grant = turns.reserve(want) if turns.has_room(want) else None
    if grant is None or isinstance(grant, QuotaWait):
        raise QuotaError(f"{quota.name} has no room for {requests:,} of {quota.describe()} now. Try again later")
    try:
        yield
    finally:
        turns.settle(grant, tally.sent)
