"""Names of the sink's SQL aliases, variables and columns. No source column can have one of these names.

In BigQuery one name can hide another: an alias or a table's short name hides a column of that name, and a column hides
a script's variable. So every table of a statement has an alias from here, and every column is qualified by its table's
alias. Bare names stand only in the column list of an INSERT and on the left side of SET, where they always mean columns
of the changed table.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/query-syntax#alias_clause,
…/procedural-language (2026-11).
"""

from __future__ import annotations

# The first three occur several times for each column in a script of at most 1 MB, so they are short.
TARGET = "connect_t"
"""A row of the target, or of one table of a template."""
STAGED = "connect_s"
"""A row of the staging table."""
NEWEST = "connect_n"
"""The newest staged row of a key, in the target's types."""
TOMBSTONE = "connect_tombstone"
"""A row of the table of deleted keys."""
LEDGER = "connect_ledger"
"""A row of the ledger, the erase list or the notes."""
REJECT = "connect_reject"
"""A row of a table of rejects, staged or not."""
ELEMENT = "connect_element"
"""An element of a repeated column. A number follows: the count of enclosing lists."""
OFFSET = "connect_offset"
"""The element's position in its list. The same number follows."""
FILLED = "connect_filled"
"""The columns with values in the earlier state of a day, for a reload's counts."""

NEWEST_DAY = "connect_newest_day"
"""The publish script's variable for the day of the newest published snapshot. NULL if there is none."""
PEOPLE = "connect_people"
"""The erase script's variable for the digests of erased values. As a literal they would be repeated for each table."""

STREAM = "connect_stream"
"""The tombstones' column for the stream whose data deleted the key."""

MAX_LIST_DEPTH = 15
"""Depth of nested lists: BigQuery nests RECORD columns no deeper
(https://cloud.google.com/bigquery/docs/nested-repeated#limitations, 2026-11).
"""

ALIASES = frozenset(
    {
        *(TARGET, STAGED, NEWEST, TOMBSTONE, LEDGER, REJECT, FILLED),
        *(f"{name}{depth}" for name in (ELEMENT, OFFSET) for depth in range(MAX_LIST_DEPTH + 1)),
    }
)
"""Names that a nested field must not have."""
RESERVED = ALIASES | {NEWEST_DAY, PEOPLE, STREAM}
"""Names that a column must not have."""
