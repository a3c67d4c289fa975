"""Publishes a day into several Delta tables, one for each value of a column, under one ledger: the head.

The head is a Delta table without rows, beside the tables. A commit to it is the only step that is atomic for a day; a
commit to a table is atomic for that table's rows of the day. So a publish takes three steps:

1. **Reserve.** A commit to the head raises the day's reservation from n - 1 to n, for one attempt. It compares what the
   attempt saw before it polled, as every sink does (:mod:`....publishing`), and adds the attempt's tables to the day's
   list: the tables that may hold rows of the day, or may still be given some by a publish that was reserved.
2. **Publish.** One commit to each table of that list, in any order. It replaces the table's rows of the day by the
   attempt's, or by none, and records n. It compares the n that the table has: a lower one is replaced; its own is done
   already; at a higher one the attempt ends.
3. **Complete.** A commit to the head compares the reservation with n once more, writes the ledger's row, and cuts the
   list down to the tables that have rows now.

A day whose reservation is not completed is not done: the ledger's list of days leaves it out. The generation that was
completed last is still what an attempt sees and must follow. What each may meet:

* **A crash after 1, between two tables, or before 3.** Of the same attempt, published again from its kept stage, the
  reservation still stands: it goes on under the same n, passes over the tables that have n, and completes. Another
  attempt reserves n + 1, and writes every table of the list, which holds the dead attempt's tables, too.
* **A newer run reserves meanwhile.** The older attempt's next table, if the newer one was there, refuses it. If it was
  not there yet, the older rows go in, and the newer run replaces them: its list was read in the commit that raised the
  reservation, so it has every table that the older attempt may write. After that those tables have the higher n for
  good. And the older attempt cannot complete. It polls again, or ends: its answer was asked for before.
* **Two that take the reservation from each other** would never end, so an attempt polls again only once for each other
  intent. Two tries of one intent do not poll for each other: the one that lost the reservation ends retriable.
* **An event that vanished.** Its table is in the list, as it has rows of the day; they are replaced by none.
* **An event that appears.** Its table is made before the reservation, so that every table in a list exists and its log
  can refuse somebody.
* **A table of another stream**, one that is no table of ours, a changed type: found before the reservation.
* **A zombie of a completed attempt** finds n, or more, in every table.
* **A sweep** records a silent attempt as swept, first in the head, where the reservation and the completion write the
  same transaction, then in each table where the attempt has files, where its publish does.
* **A head that was lost.** A table with a higher n than the head's names it; nothing is published.

Readers see each table switch at once, and the tables one after the other. The head says when the day is whole.
"""
