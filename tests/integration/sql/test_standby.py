"""A hot standby of PostgreSQL: how far it is behind, and that its sessions share snapshots, too."""

from __future__ import annotations

import pytest

from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.servers import DatabaseServer, StandbyServer
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_standby_is_read_as_its_primary_is(postgresql: OwnDatabase, postgresql_server: DatabaseServer) -> None:
    postgresql.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    standby = StandbyServer()
    standby.primary = postgresql_server
    with standby:
        own = OwnDatabase(standby, postgresql.name)
        database, other = own.open(), own.open()
        assert database.lag_seconds() == 0
        database.begin()
        other.begin(database.export_snapshot())
        postgresql.run("INSERT INTO t VALUES (2)")
        third = own.open()
        wait_until(lambda: third.one("SELECT count(*) FROM t") == (2,))
        assert database.one("SELECT count(*) FROM t") == other.one("SELECT count(*) FROM t") == (1,)
        database.end()
        postgresql.run("CREATE ROLE somebody", "DROP ROLE somebody")  # so that there is something to replay
        standby.run("SELECT pg_wal_replay_pause()")
        postgresql.run("INSERT INTO t VALUES (3)")
        wait_until(lambda: (third.lag_seconds() or 0) > 0.2)
        for opened in own.opened:
            opened.close()
