"""Converts PostgreSQL's errors by SQLSTATE.

Codes: https://www.postgresql.org/docs/18/errcodes-appendix.html (2026-11).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    DeadlineError,
    RetriableError,
    SetupError,
)
from airflow_provider_connect.secrets import Secrets, redact_tokens

if TYPE_CHECKING:
    import psycopg

_CANCELED = "57014"
_REFUSED_BY_POLICY = "check_enable_rls"
"""The server's function that refuses a read if a policy hides rows.

https://github.com/postgres/postgres/blob/REL_18_STABLE/src/backend/utils/misc/rls.c (2026-11)
"""
# The longest matching prefix of a code decides.
_ERROR_TYPES: dict[str, type[ConnectError]] = {
    "0A": ConfigError,  # not supported, by this version or on a standby
    "21": DataError,
    "22": DataError,
    "25006": ConfigError,  # a statement that writes
    "28": ConfigError,
    "3D": ConfigError,
    "3F": ConfigError,
    "42": ConfigError,
    "54": ConfigError,
    "57P04": ConfigError,  # the database was dropped
    "XX001": DataError,  # the table's own files are damaged
    "XX002": DataError,
    "F0": ConfigError,
}
_ADVICE = {
    "22021": "a text holds bytes that are not UTF-8: read it as bytes, with convert_to(column, 'SQL_ASCII') in a query",
    "22P05": "a text holds a character that Unicode does not have: read it as bytes, with "
    "convert_to(column, getdatabaseencoding()) in a query",
    "25006": "the SQL writes, but this session is read-only",
    "40001": "the rows were changed or vacuumed under a query on a standby: try again, or raise "
    "max_standby_streaming_delay there",
    "40P01": "two sessions waited for each other, and the server ended this one: try again",
    "42501": "grant the user SELECT, or name the columns that the user may read with columns=",
    "53300": "the server has no free connection: read fewer days or chunks concurrently, or try later",
    "55P03": "another session holds a lock on the table, such as ALTER TABLE: try again when it has ended",
    "57P03": "the server is starting or recovering",
}
_SHOWN_CODES = ("28", "3D", "3F", "42", "57P03")

# libpq reports no SQLSTATE for a refused connection, and its text is in the server's language. Unknown texts are
# retriable, since a retry does no harm.
_PERMANENT_REFUSAL = re.compile(
    r"password authentication failed|no password supplied|authentication failed|no pg_hba\.conf entry"
    r"|(?:database|role) \".*\" does not exist|permission denied for database|is not permitted to log in"
    r"|certificate verify failed|server certificate for|root certificate file"
    r"|could not (?:load|read) .*(?:certificate|key)"
    r"|server does not support SSL|certificate authentication|invalid (?:sslmode|connection option|port|value)"
    r"|channel binding|private key file|GSSAPI|SSL negotiation|unsupported startup parameter",
    re.DOTALL,
)

_UNKNOWN_HOST = re.compile(r"\[Errno -[25]\]|could not translate host name .* not known", re.DOTALL)


def connecting_error(error: psycopg.Error, label: str, secrets: Secrets) -> ConnectError:
    """Return the error for a failed connection, with the server's text but no password."""
    server_text = " ".join(secrets.redact(str(error)).split())
    is_permanent = _PERMANENT_REFUSAL.search(server_text)
    message = f"{label}: PostgreSQL refuses the connection: {server_text}"
    if is_permanent:
        return ConfigError(f"{message}: correct the connection")
    return SetupError(message) if _UNKNOWN_HOST.search(server_text) else RetriableError(message)


def sql_error(error: psycopg.Error, action: str, *, is_cancelled: bool = False) -> ConnectError:
    """Return the error for a failed statement."""
    code = error.sqlstate or ""
    if not code and type(error).__name__ == "DataError":  # raised by psycopg, not by the server
        return DataError(f"{action}: a value is infinity, or a date before year 1 or after 9999")
    if not code:
        return RetriableError(f"{action}: the connection to PostgreSQL is lost ({type(error).__name__})")
    if code == _CANCELED:
        if is_cancelled:
            return RetriableError(f"{action}: cancelled")
        return DeadlineError(
            f"{action}: PostgreSQL ended the statement (SQLSTATE {code}), at its time limit or for an administrator. "
            "Find the session that locks the table, read fewer rows per statement, or raise statement_timeout_seconds"
        )
    if error.diag.source_function == _REFUSED_BY_POLICY:
        return ConfigError(
            f"{action}: row level security hides rows of a table from this user, so PostgreSQL refuses the read "
            f"(SQLSTATE {code}: {redact_tokens(error.diag.message_primary or '')}). Read as a role with BYPASSRLS. To "
            "load only the rows that the user may see, set row_security='accept'"
        )
    kind = next((_ERROR_TYPES[code[:length]] for length in (5, 2) if code[:length] in _ERROR_TYPES), RetriableError)
    server_text = f": {redact_tokens(error.diag.message_primary or '')}" if code.startswith(_SHOWN_CODES) else ""
    advice = f": {_ADVICE[code]}" if code in _ADVICE else ""
    return kind(f"{action}: PostgreSQL reports SQLSTATE {code} ({type(error).__name__}){server_text}{advice}")
