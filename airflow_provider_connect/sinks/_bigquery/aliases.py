"""Names of the sink's aliases, variables and columns in SQL. No column of a source can have one of these names.

In BigQuery one name can hide another: an alias or a table's short name hides a column of that name, and a column hides
a script's variable. So every table of a statement has an alias from here, and every column is qualified by its table's
alias. Only two places take a bare name, which is always a column of the changed table: the column list of an INSERT,
and the left side of SET.

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

MAX_LIST_DEPTH = 15
"""How deep lists may lie in each other: BigQuery nests RECORD columns no deeper
(https://cloud.google.com/bigquery/docs/nested-repeated#limitations, 2026-11)."""

ALIASES = frozenset(
    {
        *(TARGET, STAGED, NEWEST, TOMBSTONE, LEDGER, REJECT, FILLED),
        *(f"{name}{depth}" for name in (ELEMENT, OFFSET) for depth in range(MAX_LIST_DEPTH + 1)),
    }
)
"""Names that a nested field must not have."""
RESERVED = ALIASES | {NEWEST_DAY, PEOPLE, STREAM}
"""Names that a column must not have."""
