"""Merges a day into a Delta table by key, as ``write_mode="merge"`` does: one row for each key, in one commit.

The table keeps its partitions: a row lies in the day that wrote its newest version. A merge reads the key columns of
the files that may hold a staged key (:mod:`.matching`), writes these files again without the replaced rows
(:mod:`.files`), and adds the day's winning rows. :mod:`.commit` commits on exactly the table version that it has read.
Of two merges at once, the second decides again on the first one's result.
"""
