"""What is closed when it is no longer needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar, final

from airflow_provider_connect.errors import Failure


class Closable:
    """Lets go of clients and connections when it is closed; whoever opens it closes it. Pollers and publishers do."""

    def close(self) -> None:
        """Let go of clients and connections; may be called more than once. Many have nothing to close."""

    @final  # what must happen at the end belongs into close(), which is all that a job calls
    def __enter__(self) -> Self:
        return self

    @final
    def __exit__(self, *_: object) -> None:
        self.close()


_Closable = TypeVar("_Closable", bound=Closable)


@contextmanager
def closing_quietly(thing: _Closable, say: Callable[[str], None]) -> Iterator[_Closable]:
    """Close a thing when the block ends.

    That it cannot be closed is said. It neither undoes what the block has done, nor hides why the block failed.
    """
    try:
        yield thing
    finally:
        try:
            thing.close()
        except Exception as error:  # noqa: BLE001
            say(f"{type(thing).__name__} could not be closed: {Failure.of(error).message}")
