"""Zone of a database's clock, which may write timestamps without a zone.

Rows of the current second must wait for the next run, since more rows may get the same second. If the writing clock is
west of the assumed zone, every second seems to be over. Rows written later in a second already read are then lost.
"""

from __future__ import annotations

from typing import NamedTuple

from airflow_provider_connect.clients.sql.database import Database, SqlColumn, ValueChoices
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._sql.day_bounds import clock_of_type
from airflow_provider_connect.sources._sql.options import MYSQL, POSTGRES, SqlOptions
from airflow_provider_connect.window import zone as known_zone

_WEEKS_AROUND_TODAY = range(-52, 53)
"""Weeks around today. A zone with summer time is not UTC, even if it equals UTC today."""
# The user may have its own zone, which hides the zone set for the database.
_POSTGRESQL_ZONE_QUERY = """
SELECT z.zone, NOT EXISTS (
  SELECT FROM generate_series(-52, 52) AS week
  CROSS JOIN LATERAL (SELECT now() + week * interval '7 days' AS instant) AS moment
  WHERE (instant AT TIME ZONE z.zone) <> (instant AT TIME ZONE 'UTC')
) FROM (
  SELECT coalesce((
    SELECT substr(setting, 10) FROM pg_db_role_setting AS d, unnest(d.setconfig) AS setting
    WHERE d.setrole = 0 AND setting ILIKE 'timezone=%'
      AND d.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
  ), s.reset_val) AS zone
  FROM pg_settings s WHERE s.name = 'TimeZone'
) AS z
"""
_MYSQL_MOMENT = "(utc_timestamp() + interval {week} week)"
_MYSQL_IS_UTC = " AND ".join(
    f"convert_tz({moment}, '+00:00', @@global.time_zone) = {moment}"
    for moment in (_MYSQL_MOMENT.format(week=week) for week in _WEEKS_AROUND_TODAY)
)
_MYSQL_ZONE_QUERY = f"SELECT if(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone), {_MYSQL_IS_UTC}"
# The session itself is set to UTC.
_ZONE_QUERIES = {POSTGRES: _POSTGRESQL_ZONE_QUERY, MYSQL: _MYSQL_ZONE_QUERY}


class DatabaseZone(NamedTuple):
    """Zone of a database's clock.

    :param name: the database's own name: ``US/Pacific``, ``-08:00``, ``PST``.
    :param is_utc: True if that clock shows UTC all year.
    """

    name: str
    is_utc: bool

    @property
    def remedy(self) -> str:
        """Advice to set ``db_timezone``."""
        try:
            known_zone(self.name)
            setting = f"db_timezone={self.name!r}"
        except ConfigError:
            setting = "db_timezone to its IANA zone, such as 'US/Pacific' or 'Etc/GMT+8'"
        return f"If the database's clock writes them, set {setting}. If they are in UTC, set db_timezone='UTC'"

    def doubt(self, mode: str | None) -> str:
        """Return the reason why ``db_timezone`` is needed."""
        consequence = "they are read as UTC" if mode is None else "rows are lost if they are read in the wrong zone"
        return f"times without a zone, and the database's own zone is {self.name}: {consequence}"


def database_zone(database: Database, conn_type: str) -> DatabaseZone | None:
    """Return the zone that a database is set to. None for types without this setting."""
    if (query := _ZONE_QUERIES.get(conn_type)) is None:
        return None
    name, is_utc = database.one_row(query)
    return DatabaseZone(str(name), bool(is_utc))


def undeclared_zone(
    database: Database, conn_type: str, options: SqlOptions, column: SqlColumn | None
) -> DatabaseZone | None:
    """Return the database's zone if a column's times may be in it and ``db_timezone`` is not set.

    None for a database in UTC, or a column without local times.
    """
    if column is None or options.db_timezone is not None:
        return None
    (read_column,) = database.read_columns([column], ValueChoices())
    zone = database_zone(database, conn_type) if clock_of_type(read_column.type) == "wall" else None
    return None if zone is None or zone.is_utc else zone


def require_zone(database: Database, conn_type: str, options: SqlOptions, column: SqlColumn | None) -> None:
    """Refuse to follow timestamps of an unknown zone.

    :raises ConfigError: the database is not in UTC, and ``db_timezone`` is not set.
    """
    zone = undeclared_zone(database, conn_type, options, column)
    if zone is not None and column is not None:
        raise ConfigError(f"timestamp_column: {column.name!r} has {zone.doubt(options.mode)}. {zone.remedy}")
