"""Ends a stream's first load early if its declaration looks wrong.

A :class:`.SetupError` may pass: a proxy answers instead of the service, a name service restarts. If a stream has never
published a day and fails twice in the same way, ten minutes of retries would only hide a wrong declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.patience import CLOCK, Clock

_PAUSE_SECONDS = 1.0
_Answer = TypeVar("_Answer")


def ask_again(
    question: Callable[[], _Answer], *, is_first_load: Callable[[], bool], clock: Clock | None = None
) -> _Answer:
    """Call the source, and once more after a :class:`.SetupError`.

    :param question: a call of the driver to the source.
    :param is_first_load: returns whether the stream has never published a day. Called after the second error only.
    :raises ConfigError: both calls raised the same SetupError in a first load.
    """
    try:
        return question()
    except SetupError as error:
        first_error = error
    (clock or CLOCK).sleep(_PAUSE_SECONDS)
    try:
        return question()
    except SetupError as error:
        if error.repeats(first_error) and is_first_load():
            raise error.as_final() from None
        raise
