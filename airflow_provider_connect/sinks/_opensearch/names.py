"""Names of a stream's indices and aliases."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from dataclasses import dataclass

from airflow_provider_connect.sink import StreamKey


@dataclass(frozen=True)
class Names:
    """Names of one stream under one alias.

    :param alias: what readers search.
    """

    alias: str
    key: StreamKey

    @property
    def stream(self) -> str:
        """16 hex digits of the stream's key."""
        return hashlib.blake2b(f"{self.key.connector}/{self.key.stream}".encode(), digest_size=8).hexdigest()

    @property
    def prefix(self) -> str:
        """What the stream's indices begin with."""
        return f"connect-{self.alias}-{self.stream}-"

    @property
    def head(self) -> str:
        """Alias of the index that was published last."""
        return f"{self.prefix}head"

    @property
    def first(self) -> str:
        """Empty index that the head names before the first publish. It is created once and stays."""
        return f"{self.prefix}first"

    @property
    def ledger(self) -> str:
        """Index of the notes."""
        return f"connect-{self.alias}-ledger"

    def new_index(self, day: dt.date) -> str:
        """Return the name of an attempt's index."""
        return f"{self.prefix}{day:%Y%m%d}-{uuid.uuid4().hex}"

    def day_of(self, index: str) -> dt.date | None:
        """Return the day of an attempt's index. None for other indices."""
        day, _, attempt = index.removeprefix(self.prefix).partition("-")
        return dt.date.fromisoformat(day) if attempt else None


def write_alias(index: str) -> str:
    """Return the alias that bulk requests write to. It ends with the index, so that a late one creates no index."""
    return f"{index}-write"
