"""How a command ends: its exit code, and its one message on stderr. It never shows the text of a foreign error.

====  =============================================================
code  meaning
====  =============================================================
0     fine
1     the command looked, and found problems
2     wrong arguments (argparse)
65    the data is bad (:class:`.DataError`)
70    an error that nobody foresaw
75    it may work later (:class:`.RetriableError`)
78    a person must act: options, connections, rights (:class:`.ConfigError`)
130   interrupted
====  =============================================================
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_connect.errors import ConnectError, Failure

PROBLEMS = 1
_INTERRUPTED = 130

Command = Callable[[Any], int | None]


def command(function: Command, *, changes: bool = False) -> Callable[[Any], None]:
    """Make a function of parsed arguments a command: it returns its exit code, None for 0.

    :param changes: whether Airflow's audit log has a line about each call, as about its own commands that change.
    """

    @functools.wraps(function)
    def run(args: Any) -> None:
        sys.exit(_code(function, args))

    quiet = providers_configuration_loaded(suppress_logs_and_warning(run))
    audited: Any = action_cli
    return audited(check_db=False)(quiet) if changes else quiet


def _code(function: Command, args: Any) -> int:
    try:
        code = function(args) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # "… | head" has read enough; the interpreter must not flush once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConnectError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # the text of a foreign error may hold a secret
        sys.stderr.write(f"{Failure.of(error).message}\n")
        return ConnectError.exit_code
    return code
