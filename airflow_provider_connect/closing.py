"""Base of objects that must be closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar, final

from airflow_provider_connect.errors import Failure


class Closable:
    """Holder of clients or connections, such as a poller or publisher, until its opener closes it."""

    def close(self) -> None:
        """Release clients and connections. May be called more than once."""

    @final  # what must happen at the end belongs into close(), which is all that a job calls
    def __enter__(self) -> Self:
        return self

    @final
    def __exit__(self, *_: object) -> None:
        self.close()


_Closable = TypeVar("_Closable", bound=Closable)


@contextmanager
def closing_quietly(resource: _Closable, log_line: Callable[[str], None]) -> Iterator[_Closable]:
    """Close a resource when the block ends. Errors of ``close`` are only logged."""
    try:
        yield resource
    finally:
        try:
            resource.close()
        except Exception as error:  # noqa: BLE001
            log_line(f"{type(resource).__name__} could not be closed: {Failure.from_error(error).message}")
