"""Queries on PostgreSQL's catalog. The relation's quoted name is a parameter."""

from __future__ import annotations

COLUMNS_QUERY = """
SELECT a.attname, a.atttypid, a.atttypmod, NOT a.attnotnull
FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""

# Tables and views that the user may read, to suggest one.
TABLES_QUERY = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE n.nspname END, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2 LIMIT 10000
"""

# Tables and views of all schemas but the server's own. A partition's rows are those of its table.
LIST_QUERY = r"""
SELECT c.relname, n.nspname, pg_table_is_visible(c.oid), c.relkind IN ('r', 'p', 'f')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND n.nspname <> 'information_schema'
  AND n.nspname !~ '^pg_'
ORDER BY 2, 1
"""

# A domain is read as its base type, at any depth.
TYPES_QUERY = """
WITH RECURSIVE asked AS (
  SELECT * FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS u (type, modifier, place)
), chain AS (
  SELECT place, type, modifier FROM asked
  UNION ALL
  SELECT c.place, t.typbasetype, t.typtypmod
  FROM chain c JOIN pg_type t ON t.oid = c.type WHERE t.typtype = 'd'
)
SELECT format_type(asked.type, asked.modifier),
  CASE
    WHEN t.typtype = 'e' THEN 'enum'
    WHEN t.typtype = 'c' THEN 'composite'
    WHEN t.typtype IN ('r', 'm') THEN 'range'
    WHEN t.typcategory = 'A' THEN 'array'
    ELSE format_type(chain.type, chain.modifier)
  END
FROM asked JOIN chain USING (place) JOIN pg_type t ON t.oid = chain.type AND t.typtype <> 'd'
ORDER BY place
"""

# The sequence of an identity column or of a default.
SEQUENCE_QUERY = """
SELECT c.oid::regclass::text, s.seqincrement, s.seqcache, s.seqcycle,
  has_sequence_privilege(c.oid, 'SELECT') AND NOT pg_is_in_recovery()
FROM pg_attribute a
JOIN pg_depend d ON (d.classid, d.refclassid, d.refobjid, d.refobjsubid, d.deptype)
    = ('pg_class'::regclass, 'pg_class'::regclass, a.attrelid, a.attnum, 'i')
  OR (d.classid, d.refclassid) = ('pg_attrdef'::regclass, 'pg_class'::regclass) AND d.objid IN (
    SELECT f.oid FROM pg_attrdef f WHERE (f.adrelid, f.adnum) = (a.attrelid, a.attnum)
  )
JOIN pg_sequence s ON s.seqrelid = CASE d.deptype WHEN 'i' THEN d.objid ELSE d.refobjid END
JOIN pg_class c ON c.oid = s.seqrelid
WHERE a.attrelid = to_regclass(%s) AND a.attname = %s
"""

# Indexes over all rows that begin with a plain column, without columns after an expression. An index identifies rows if
# it is unique, complete and valid, is checked at each statement (indimmediate), and no child inherits from the table: a
# read returns the children's rows, which the index does not hold. A partitioned table's index holds all rows. The
# access method is not compared by name, since YugabyteDB's are not B-trees.
INDEXES_QUERY = """
SELECT c.relname, k.columns,
  i.indisunique AND i.indisvalid AND i.indimmediate AND k.plain = i.indnkeyatts AND (
    t.relkind = 'p' OR NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhparent = t.oid)
  ),
  i.indisvalid AND pg_indexam_has_property(c.relam, 'can_order'),
  i.indisprimary
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_class t ON t.oid = i.indrelid
CROSS JOIN LATERAL (
  SELECT array_agg(a.attname::text ORDER BY n.place) AS columns, count(*) AS plain
  FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS n (number, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = n.number
  WHERE n.place <= i.indnkeyatts AND NOT EXISTS (
    SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS e (number, place) WHERE e.number = 0 AND e.place < n.place
  )
) k
WHERE i.indrelid = to_regclass(%s) AND i.indpred IS NULL AND k.plain > 0
ORDER BY NOT i.indisprimary, c.relname
"""

ROW_ESTIMATE_QUERY = "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%s)"

# Tables opened by this transaction that its snapshot shows differently. They were rewritten or emptied, so that all
# rows look newer than the snapshot, or another table took the name, or the table became a partition. A read would
# return too few or too many rows without an error. The catalog's rows are as of the snapshot, the functions' results
# as of now. A new partition does no harm, since the snapshot sees none of its rows.
REWRITTEN_TABLES_QUERY = """
SELECT now.identity
FROM pg_locks l
CROSS JOIN LATERAL pg_identify_object('pg_class'::regclass, l.relation, 0) AS now
LEFT JOIN pg_class c ON c.oid = l.relation
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation >= 16384
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND now.type NOT IN ('index', 'toast table')
  AND CASE WHEN c.oid IS NULL THEN coalesce(pg_partition_root(l.relation), l.relation) = l.relation
    ELSE format('%I.%I', n.nspname, c.relname) <> now.identity
      OR NOT c.relispartition AND pg_partition_root(l.relation) <> l.relation
      OR c.relkind IN ('r', 'm') AND c.relfilenode IS DISTINCT FROM pg_relation_filenode(c.oid) END
ORDER BY 1
"""

# A standby that has replayed all it received lags since its primary's last message. An idle primary sends one at least
# every half of wal_sender_timeout. Users without pg_read_all_stats do not see that time, so they see no lag.
LAG_QUERY = """
SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN
  CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver)
    THEN (SELECT greatest(coalesce(extract(epoch FROM clock_timestamp() - last_msg_send_time), 0), 0)
          FROM pg_stat_wal_receiver)
    ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END
END
"""
