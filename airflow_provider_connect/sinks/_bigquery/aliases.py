"""Names that the sink's SQL gives to tables, variables and columns of its own: no column of a source has one of them.

BigQuery lets one name hide another: an alias, or a table's short name, hides a column of that name, and a column hides
a script's variable. So every table of a statement has an alias from here, and every column stands behind its table's.
Two places take a bare name only, and there it can be nothing but a column of the table that is changed: the list of an
INSERT, and what SET assigns to.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/query-syntax#alias_clause,
…/procedural-language (2026-11).
"""

from __future__ import annotations

# The first three stand several times a column in a script of at most 1 MB, so they are short.
TARGET = "connect_t"
"""A row of the table that is published into; of a template, of one of its tables."""
STAGED = "connect_s"
"""A row of the staging table."""
NEWEST = "connect_n"
"""The newest staged row of a key, in the target's types."""
TOMBSTONE = "connect_tombstone"
"""A row of the table of deleted keys."""
LEDGER = "connect_ledger"
"""A row of the ledger, or of the erase list or the notes beside it."""
REJECT = "connect_reject"
"""A row of a table of rejects, staged or not."""
ELEMENT = "connect_element"
"""An element of a repeated column; a number follows, which counts the lists around it."""
OFFSET = "connect_offset"
"""That element's place in its list; the same number follows."""
FILLED = "connect_filled"
"""The columns in which the earlier state of a day has values, for a reload's counts."""

NEWEST_DAY = "connect_newest_day"
"""The publish script's variable for the day of the newest published snapshot; NULL if there is none."""
PEOPLE = "connect_people"
"""The erase script's variable for whose rows are deleted. As a literal they would stand there once for each table."""

STREAM = "connect_stream"
"""The tombstones' column for the stream whose data deleted the key."""

MAX_LISTS = 15
"""How deep lists may lie in each other: BigQuery nests RECORD columns no deeper
(https://cloud.google.com/bigquery/docs/nested-repeated#limitations, 2026-11)."""

ALIASES = frozenset(
    {
        *(TARGET, STAGED, NEWEST, TOMBSTONE, LEDGER, REJECT, FILLED),
        *(f"{name}{depth}" for name in (ELEMENT, OFFSET) for depth in range(MAX_LISTS + 1)),
    }
)
"""What a nested field must not be called."""
RESERVED = ALIASES | {NEWEST_DAY, PEOPLE, STREAM}
"""What a column must not be called."""
