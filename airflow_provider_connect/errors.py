"""Every error this package raises on purpose, named by what to do about it.

::

    ConnectError
    ├── ConfigError      a person must act; no retry                     exit code 78
    │   └── RowsLostError    a followed stream began anew; an alarm stands in the ledger
    ├── RetriableError   try again, after ``retry_after_seconds`` if set exit code 75
    │   ├── DeadlineError    one request took longer than it may; ask for less in each
    │   ├── OvertakenError   another task has published this day since; poll it again
    │   └── QuotaError       the vendor counts requests, and no more may be sent now; wait for room
    ├── DataError        this record or this day is bad; no retry        exit code 65
    └── SupersededError  a later snapshot is published; stop             (a day's outcome, not a task's)

The type says how to recover; the message says what happened, where, and what to do. A message never holds a secret or
a record's values. An exception loses its type between a Spark executor and its driver, and between the driver and
Airflow, so an error makes both steps as a :class:`Failure`.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from airflow_provider_connect.wire import Wire


class ConnectError(Exception):
    """Anything this package raises on purpose. An unexpected error, too, has this type once it left its process."""

    exit_code: ClassVar[int] = 70


class ConfigError(ConnectError):
    """A person must act: an option, a credential, a permission or a table is wrong. Trying again changes nothing."""

    exit_code: ClassVar[int] = 78


class RowsLostError(ConfigError):
    """The table behind a followed stream began anew, so rows to come would be skipped.

    The driver keeps an alarm in the ledger, which stands until a person answers it. Elsewhere it is a ConfigError.
    """


class RetriableError(ConnectError):
    """The same work may succeed later.

    :param retry_after_seconds: how long the other side asked to be left alone; None when it did not say.
    :param request_budget_spent: whether a poll gave up because it had sent as many requests as it may.
    """

    exit_code: ClassVar[int] = 75

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, request_budget_spent: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.request_budget_spent = request_budget_spent


class DeadlineError(RetriableError):
    """A request had not ended by its deadline, and the same one would hardly end by it next time."""


class QuotaError(RetriableError):
    """The hour's requests are used up: the vendor's, or the part of them that this job may send. Wait for room.

    :param said: of a vendor's refusal: how many requests it counted, its limit, and how many seconds to wait it asked
        for; None if it was the job's own part.
    :param needs: how many requests the poll takes at the least, if the quota ended half way; 0 if nobody knows.
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
    """The data itself is bad: a record that cannot be read, a column whose type changed."""

    exit_code: ClassVar[int] = 65


class OvertakenError(RetriableError):
    """Another task has published this day since this attempt began to poll, so the answer in hand may be the older one.

    :param by: the token of that task's intent; "" if the ledger does not have it.
    :param may_poll_again: whether this job may poll the day again. It may not if a later clear of the same run has
        published it.
    :param is_erase: whether it was an erase, which does not ask the source.
    """

    def __init__(self, message: str, *, by: str = "", may_poll_again: bool = True, is_erase: bool = False) -> None:
        super().__init__(message)
        self.by = by
        self.may_poll_again = may_poll_again
        self.is_erase = is_erase


class SupersededError(ConnectError):
    """The target already shows the snapshot of a later day, which an earlier one must not replace."""


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

    :param type: the name of a class of this module.
    :param retry_after_seconds: only of a :class:`RetriableError`, like ``request_budget_spent``.
    :param said: only of a :class:`QuotaError`, like ``needs``.
    :param overtaken_by: only of an :class:`OvertakenError`, like ``may_poll_again``.
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
    def of(cls, error: BaseException) -> Failure:
        """Describe ``error`` by the class of this module that it is, or derives from.

        Of an error that is not ours only the type and the place are told: its text may hold a credential or a
        record's value.
        """
        if not isinstance(error, ConnectError):
            frames = traceback.extract_tb(error.__traceback__)
            place = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames[-4:]))
            return cls(type="ConnectError", message=f"unexpected {type(error).__name__} at {place or 'unknown place'}")
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
        """Whether a job begins no further day after this: it would only ask once more, of a source that counts it."""
        return self.type in ("ConfigError", "QuotaError") or bool(self.retry_after_seconds) or self.request_budget_spent

    def error(self) -> ConnectError:
        """Return the error, with its own type again."""
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


def worst(failures: list[Failure]) -> Failure | None:
    """Return the failure that decides what a task with several failed days does next.

    A :class:`ConfigError` comes first, as no retry helps. Next come the errors that a retry may mend, so that no day is
    given up that may still succeed; unexpected ones are among them, as Airflow itself would retry. Of several of these,
    the one with the longest wait counts, then one whose budget of requests is spent: both say to leave it alone.
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


def refuse_any(problems: Iterable[str], separator: str = "; ") -> None:
    """Raise what was found, if anything was.

    :raises ConfigError: with all of it.
    """
    if text := separator.join(problems):
        raise ConfigError(text)


def refuse_text(name: str, values: object) -> None:
    """Refuse a text as the argument for a sequence, since its characters would count as the values.

    Every public function outside pydantic's models that takes a sequence calls this first.

    :param name: name of the argument, for the message.
    :raises ConfigError: the argument is a text or bytes. The message does not contain it.
    """
    if isinstance(values, (str, bytes, bytearray)):
        raise ConfigError(f"{name}: give a list, also of one value, not a {type(values).__name__}")
