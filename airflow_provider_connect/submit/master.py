"""Checks a Spark connection's master before Spark starts."""

from __future__ import annotations

import re
import socket

from airflow_provider_connect.errors import ConfigError, RetriableError

_CONNECT_SECONDS = 5.0
_LOCAL = re.compile(r"local(\[(\d+|\*)(, *\d+)?\])?|local-cluster\[\d+, *\d+, *\d+\]")
_STANDALONE_PORT = 7077
_FORMS = "local[*], spark://host:7077, yarn or k8s://https://host:443"


def require_master(conn_id: str, master: str) -> None:
    """Refuse a master of no known form, and a standalone master that cannot be reached.

    Of several standalone masters, one is enough.

    :raises ConfigError: an unknown form or host.
    :raises RetriableError: no master accepts connections.
    """
    if _LOCAL.fullmatch(master) or master == "yarn" or master.startswith("k8s://"):
        return
    if not master.startswith("spark://"):
        raise ConfigError(f"Spark connection {conn_id!r}: {master!r} is not a master of Spark. Use {_FORMS}")
    problems = []
    is_unknown = True
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.strip().rpartition(":") if ":" in address else (address.strip(), "", "")
        try:
            socket.create_connection((host, int(port or _STANDALONE_PORT)), timeout=_CONNECT_SECONDS).close()
        except socket.gaierror:
            problems.append(f"host {host!r} is unknown to this machine's name service")
        except (OSError, ValueError) as error:
            problems.append(f"{address.strip()} does not accept connections ({type(error).__name__})")
            is_unknown = False
        else:
            return
    text = f"Spark connection {conn_id!r}: no master of {master!r} answers: {'; '.join(problems)}"
    if is_unknown:
        raise ConfigError(f"{text}. Correct the connection's host and port")
    raise RetriableError(f"{text}. Start the master, or correct the connection's host and port")
