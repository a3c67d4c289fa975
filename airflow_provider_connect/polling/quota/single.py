"""Requests that a person asks for, outside of any task: reserved and recorded where all tasks count theirs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.polling.quota.limits import Want
from airflow_provider_connect.polling.quota.turns import Grant, Turns

_T = TypeVar("_T")


class NoRoomError(QuotaError):
    """The hour's requests are used up, by our own count."""


@contextmanager
def reserved(
    turns: Turns | None, asker: str, trouble: Callable[[str], None], requests: int = 1
) -> Iterator[list[float]]:
    """Reserve requests. The block notes when they were sent. A vendor's refusal that the block raises is told, too.

    A person does not queue: tasks come first.

    :param turns: None if nothing counts it.
    :param asker: what asks, for the key.
    :param trouble: called with what to tell if the count cannot be reached: the request is sent without it.
    :raises NoRoomError: there is no room for them.
    """
    grant = counting(lambda: _reserved(turns, asker, requests), trouble) if turns is not None else None
    times: list[float] = []
    try:
        yield times
    except QuotaError as error:
        tell(turns, error, trouble)
        raise
    finally:
        if turns is not None and grant is not None:
            counting(lambda: turns.settle(grant, times), trouble)


def tell(turns: Turns | None, error: QuotaError, trouble: Callable[[str], None]) -> None:
    """Note for the tasks what the vendor said of the hour."""
    said = error.said
    if turns is not None and said is not None:
        counting(lambda: turns.tell(*said), trouble)


def counting(step: Callable[[], _T], trouble: Callable[[str], None]) -> _T | None:
    """Do something with the count of requests; None if it cannot be reached: the rest can be done without."""
    try:
        return step()
    except NoRoomError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever trouble Airflow's store is in
        trouble(f"the count of requests cannot be reached ({type(error).__name__})")
        return None


def _reserved(turns: Turns, asker: str, requests: int) -> Grant:
    want = Want(asker=f"{asker}-{secrets.token_hex(4)}", requests=requests, least=requests)
    got = turns.reserve(want) if turns.has_room(want) else None
    if isinstance(got, Grant):
        return got
    raise NoRoomError(
        f"{turns.quota.describe()} of {turns.quota.name} are used up or reserved, by the count that this Airflow's "
        "tasks keep, so nothing was asked"
    )
