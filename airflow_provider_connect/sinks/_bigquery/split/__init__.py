"""Publishes a day into several tables, one for each value of a column, under one ledger: the head's.

The head is a table without rows, beside the tables. It has the columns of all of them, its own ledger, rejects and
staging tables, and everything that a single target has. So whatever is decided about a day is decided there, as for any
target; only the changes of the data go elsewhere.

**One transaction.** BigQuery's transactions span tables: up to 100 of them
(https://cloud.google.com/bigquery/docs/transactions#limitations, 2026-11). So the publish script is that of a single
table, with a DELETE and an INSERT for each table of the day. The Delta sink has to reserve a day, commit to one table
after the other, and complete it. Here that is one step, and nothing can happen in the middle of it:

* **A kill** leaves all tables as they were, or all of them changed. A retry publishes from the staging table that is
  kept, or from the stage.
* **Two attempts** meet at the fence row. The later one finds another generation than it has seen, and changes no table.
* **Readers** see the day switch in all tables at once.

The price is a bound: ledger and rejects are two of the 100 tables, so ``max_tables`` is 98 at the most. Several
transactions, reserved and completed as in Delta, could go further. They would give up all of the above, for streams
whose tables nobody could find their way in. For these a single table, clustered by the column, serves better.

**Which tables.** Rows carry the name of their table into the staging table, which is clustered by it. A ledger row
lists the tables that have rows of its generation. A publish deletes the day from the tables that the generation which
it follows has listed, so an event that vanished loses its rows; and it inserts into those that it has rows for. The
list is read before the transaction. It is right nevertheless: the transaction passes only while that generation is
the newest, and a generation's list never changes.

Transactions take no DDL on lasting tables, so tables are made, and get new columns, before. They look like the head,
and have its label ``connect_ledger``: a table without it belongs to somebody else and is refused, whatever an event is
called. So is a day whose table is in the ledger, but gone: it held other days, too.

**An erase** (:mod:`.eraser`) is a publish of many days that only takes away. Its ledger rows list the tables that have
rows left, so that the next publish finds them. It reads which tables there are after the erase list has grown: a table
that is new since then was made by a publish under that list, and has no such rows.
"""
