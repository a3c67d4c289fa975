"""Names of the sink's SQL aliases, variables and columns, which no source column may have.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/query-syntax#alias_clause,
…/procedural-language (2026-11).
"""

from __future__ import annotations

# The first three occur several times for each column in a script of at most 1 MB, so they are short.
TARGET = "connect_t"
STAGED = "connect_s"
NEWEST = "connect_n"
"""Alias of the newest staged row of each key, in the target's types."""
TOMBSTONE = "connect_tombstone"
LEDGER = "connect_ledger"
"""Alias of the ledger, the erase list or the notes."""
REJECT = "connect_reject"
"""Alias of a table of rejects, staged or final."""
ELEMENT = "connect_element"
"""Alias of an element of a repeated column, followed by the number of lists around the element's list."""
OFFSET = "connect_offset"
"""Alias of an element's position in its list, followed by the number of ``ELEMENT``."""
FILLED = "connect_filled"
"""Alias of the query for columns with values in a day's earlier state (:mod:`.differences`)."""

NEWEST_DAY = "connect_newest_day"
"""Variable of the publish script: the day of the newest published snapshot, or NULL."""
NEWEST_SPAN = "connect_newest_span"
"""Variable of the publish script: number of the span that an increment follows, or NULL."""
PEOPLE = "connect_people"
"""Variable of the erase script: digests of the erased values."""

SPAN = "connect_span"
"""Column of a target of increments with ``replace``: number of the span that a row came with."""
STREAM = "connect_stream"
"""Column of the tombstones: the stream whose data deleted the key."""

MAX_LIST_DEPTH = 15
"""Most lists inside each other (https://cloud.google.com/bigquery/docs/nested-repeated#limitations, 2026-11)."""

ALIASES = frozenset(
    {
        *(TARGET, STAGED, NEWEST, TOMBSTONE, LEDGER, REJECT, FILLED),
        *(f"{name}{depth}" for name in (ELEMENT, OFFSET) for depth in range(MAX_LIST_DEPTH + 1)),
    }
)
"""Names that a nested field must not have."""
RESERVED = ALIASES | {NEWEST_DAY, PEOPLE, STREAM}
"""Names that a column must not have."""
