"""Every error that this package raises on purpose. The type decides the recovery.

::

    ConnectError
    ├── ConfigError      a person must act; no retry                        exit code 78
    │   └── RowsLostError    a followed stream was reset; the ledger keeps an alarm
    ├── RetriableError   a retry may succeed, after ``retry_after_seconds`` if set   exit code 75
    │   ├── DeadlineError    one request exceeded its deadline; make requests smaller
    │   ├── SetupError       the declaration may be wrong; the second one in a row ends a stream's first load
    │   ├── OvertakenError   another task has published the day since the poll began; poll again
    │   └── QuotaError       the vendor's request quota is used up; wait for room
    ├── DataError        the record or the day is bad; no retry             exit code 65
    └── SupersededError  a later snapshot is published; stop                (outcome of a day, not of a task)
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar

from airflow_provider_connect.wire import Wire

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class ConnectError(Exception):
    """Base of all errors raised on purpose."""

    exit_code: ClassVar[int] = 70


class ConfigError(ConnectError):
    """An option, a credential, a permission or a table is wrong."""

    exit_code: ClassVar[int] = 78


class RowsLostError(ConfigError):
    """The table behind a followed stream was reset.

    The ledger keeps an alarm until a person answers it.
    """


class RetriableError(ConnectError):
    """The same work may succeed later.

    :param retry_after_seconds: pause that the other side requested.
    :param request_budget_spent: True if a poll used up its request budget.
    """

    exit_code: ClassVar[int] = 75

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, request_budget_spent: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.request_budget_spent = request_budget_spent


class DeadlineError(RetriableError):
    """A request exceeded its deadline, and would probably exceed it again."""


class SetupError(RetriableError):
    """The declaration or the connection may be wrong.

    Before a stream's first published day, the same error twice in a row becomes a :class:`ConfigError`.
    """

    def repeats(self, previous: Exception | None) -> bool:
        """Return True if the previous try ended with the same error."""
        return isinstance(previous, SetupError) and str(previous) == str(self)

    def as_final(self) -> ConfigError:
        """Return the error for a stream that has never published a day."""
        return ConfigError(
            f"{self}. Two polls ended with this error, and the stream has never published a day, so the task does not "
            "retry"
        )


class QuotaError(RetriableError):
    """The request quota is used up: the vendor's, or this job's share of it.

    :param said: the vendor's count, limit, and seconds to wait.
    :param needs: fewest requests of the poll, or 0.
    """

    def __init__(
        self,
        message: str,
        *,
        said: tuple[int, int, float] | None = None,
        retry_after_seconds: float | None = None,
        needs: int = 0,
    ) -> None:
        super().__init__(message, retry_after_seconds=retry_after_seconds)
        self.said = said
        self.needs = needs


class DataError(ConnectError):
    """The data is bad: an unreadable record, a column whose type changed."""

    exit_code: ClassVar[int] = 65


class OvertakenError(RetriableError):
    """Another task has published the day since this attempt began to poll.

    :param by: token of that task's intent, or "" if unknown.
    :param may_poll_again: False if a later clear of the same run has published the day.
    :param is_erase: True if an erase came between, which does not poll.
    """

    def __init__(self, message: str, *, by: str = "", may_poll_again: bool = True, is_erase: bool = False) -> None:
        super().__init__(message)
        self.by = by
        self.may_poll_again = may_poll_again
        self.is_erase = is_erase


class SupersededError(ConnectError):
    """The target shows a later day's snapshot, which an earlier one must not replace."""


_BY_NAME: dict[str, type[ConnectError]] = {
    cls.__name__: cls
    for cls in (
        ConnectError,
        ConfigError,
        RetriableError,
        DeadlineError,
        OvertakenError,
        QuotaError,
        DataError,
        SupersededError,
    )
}


class Failure(Wire):
    """An error as it crosses a process boundary.

    :param type: name of a class of this module. Other fields are attributes of that class, ``overtaken_by`` its ``by``.
    """

    type: str
    message: str
    retry_after_seconds: float | None = None
    request_budget_spent: bool = False
    overtaken_by: str | None = None
    may_poll_again: bool | None = None
    said: tuple[int, int, float] | None = None
    needs: int = 0

    @classmethod
    def from_error(cls, error: BaseException) -> Failure:
        """Describe an error by the nearest class of this module.

        Other packages' errors give only type and place.
        """
        if not isinstance(error, ConnectError):
            frames = traceback.extract_tb(error.__traceback__)
            location = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames[-4:]))
            return cls(
                type="ConnectError", message=f"unexpected {type(error).__name__} at {location or 'unknown place'}"
            )
        return cls(
            type=next(parent.__name__ for parent in type(error).__mro__ if parent.__name__ in _BY_NAME),
            message=str(error),
            retry_after_seconds=getattr(error, "retry_after_seconds", None),
            request_budget_spent=getattr(error, "request_budget_spent", False),
            overtaken_by=getattr(error, "by", None),
            may_poll_again=getattr(error, "may_poll_again", None),
            said=getattr(error, "said", None),
            needs=getattr(error, "needs", 0),
        )

    @property
    def forbids_more(self) -> bool:
        """True if the job must not begin further days."""
        return self.type in ("ConfigError", "QuotaError") or bool(self.retry_after_seconds) or self.request_budget_spent

    def error(self) -> ConnectError:
        """Return the error with its own type."""
        cls = _BY_NAME.get(self.type, ConnectError)
        kwargs: dict[str, Any] = {}
        if cls in (RetriableError, DeadlineError):
            kwargs["retry_after_seconds"] = self.retry_after_seconds
            kwargs["request_budget_spent"] = self.request_budget_spent
        if cls is QuotaError:
            kwargs = {"retry_after_seconds": self.retry_after_seconds, "said": self.said, "needs": self.needs}
        if cls is OvertakenError:
            kwargs = {"by": self.overtaken_by or "", "may_poll_again": bool(self.may_poll_again)}
        return cls(self.message, **kwargs)


def worst_failure(failures: list[Failure]) -> Failure | None:
    """Return the failure that decides how a task with several failed days ends.

    Order: :class:`ConfigError`, retriable and unexpected errors, others. Among equals the longest wait, then a spent
    request budget.
    """
    order = (
        "ConfigError", "RetriableError", "DeadlineError", "OvertakenError", "ConnectError", "QuotaError", "DataError",
        "SupersededError",
    )  # fmt: skip
    ranked = sorted(
        failures,
        key=lambda failure: (
            order.index(failure.type),
            -(failure.retry_after_seconds or 0),
            not failure.request_budget_spent,
        ),
    )
    return ranked[0] if ranked else None


def describe_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Describe why a local file cannot be read, without its path: ``No such file or directory``."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8"
    return error.strerror or type(error).__name__


def refuse_any(problems: Iterable[str], separator: str = "; ") -> None:
    """Raise one ConfigError with all problems, if there are any."""
    if text := separator.join(problems):
        raise ConfigError(text)


def refuse_text(name: str, values: object) -> None:
    """Refuse a text where a sequence is expected.

    :raises ConfigError: the argument is text or bytes.
    """
    if isinstance(values, (str, bytes, bytearray)):
        raise ConfigError(f"{name}: give a list, also of one value, not a {type(values).__name__}")


def raise_from_one_frame(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function so that its ConfigError has one frame of this package.

    Airflow shows the last two frames of an import error (``[core] dagbag_import_error_traceback_depth``).
    """

    @wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except ConfigError as error:
            raise error.with_traceback(None) from None

    return call
