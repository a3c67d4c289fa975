"""Publishes a day into several Delta tables, one for each value of a column, under one ledger: the head.

The head is a Delta table without rows, beside the tables. A commit to the head is atomic for the day, a commit to a
table only for that table's rows. So a publish takes three steps:

1. **Reserve.** A commit to the head raises the day's reservation from n - 1 to n, for one attempt. It compares the
   ledger with the state before the attempt's poll, as every sink does (:mod:`....publishing`). It adds the attempt's
   tables to the day's list: all tables that have rows of the day, or may get some from a reserved publish.
2. **Publish.** One commit to each table of that list, in any order, replaces the table's rows of the day by the
   attempt's rows, or by none, and records n. If the table has n already, it is done. If it has a higher number, the
   attempt ends.
3. **Complete.** A commit to the head compares the reservation with n again, writes the ledger row, and reduces the list
   to the tables that now have rows.

A day whose reservation is not completed is not done, and the ledger's list of days leaves it out. Attempts see and
follow the last completed generation. The cases:

* **A crash after 1, between two tables, or before 3.** The same attempt, published again from its kept stage, continues
  under n, skips finished tables, and completes. Another attempt reserves n + 1 and writes every table of the list,
  including the dead attempt's.
* **A newer run reserves meanwhile.** A table that it has reached refuses the older attempt. In another table the older
  rows go in, and the newer run replaces them, since its list has every table that the older attempt may write. The
  older attempt cannot complete. It polls again or ends, since its answer is older.
* **Two attempts that take the reservation from each other** would never end. So an attempt polls again only once for
  each other intent. Of two tries of one intent, the one without the reservation ends retriable.
* **An event that vanished.** Its table is in the list, and its rows are replaced by none.
* **An event that appears.** Its table is made before the reservation, so that its log can refuse commits.
* **A table of another stream**, a foreign table, a changed type: found before the reservation.
* **A zombie of a completed attempt** finds n, or more, in every table.
* **A sweep** records a silent attempt as swept: first in the head, where reservation and completion write the same
  transaction, then in each table with files of the attempt, where its publish does.
* **A head that was lost.** A table has a higher n than the head. The error names the table, and no day is published.

Readers see each table switch at once, and the tables one after the other. The head shows when the day is complete.
"""
