"""Publishes a day into several Delta tables, one for each value of a column, under one ledger: the head.

The head is a Delta table without rows, beside the tables. A commit is atomic in one table only, so a publish takes
three steps:

1. **Reserve.** A commit to the head raises the day's reservation number from n - 1 to n, for one attempt. It compares
   the ledger with its state before the attempt's poll (:mod:`....publishing`), and adds the attempt's tables to the
   day's list: all tables that have rows of the day, or may get some from a reserved publish.
2. **Publish.** One commit to each table of the list, in any order, replaces the table's rows of the day by the
   attempt's or by none, and records n. A table that has n is skipped. A higher number ends the attempt.
3. **Complete.** A commit to the head checks that the reservation is still n, writes the ledger row, and reduces the
   list to the tables that now have rows.

The ledger's days leave out a day whose reservation is not completed. Later attempts follow the last completed
generation. The cases:

* **A crash after 1, between two tables, or before 3.** The same attempt, published again from its stage, continues
  under n, skips finished tables, and completes. Another attempt reserves n + 1 and writes every table of the list.
* **A newer run reserves meanwhile.** Tables that it has reached refuse the older attempt. It replaces the older
  attempt's rows in all others, since its list has them. The older attempt polls again, or ends if its answer is older.
* **Two attempts that take the reservation from each other** would never end. So an attempt polls again only once for
  each other intent. Of two tries of one intent, the one without the reservation ends retriable.
* **An event that vanished.** Its table is in the list, and loses its rows of the day.
* **An event that appears.** Its table is made before the reservation, so that its log can refuse commits.
* **A table of another stream**, a foreign table, a changed type: found before the reservation.
* **A zombie of a completed attempt** finds n, or more, in every table.
* **A sweep** records a silent attempt as swept: first in the head, where reservation and completion write the same
  transaction, then in each table with files of the attempt.
* **A lost head.** A table has a higher n than the head. The error names the table, and no day is published.
"""
