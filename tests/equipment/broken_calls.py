"""What the proxies of BigQuery and Kafka share: they record every call, and break those that a rule selects."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar


@dataclass(frozen=True)
class Lose:
    """The call has its effect, the answer never arrives: the connection is cut in its place."""


@dataclass(frozen=True)
class Cut:
    """The connection is cut before the call has an effect."""


@dataclass(frozen=True)
class Slow:
    """The call takes longer."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """The call waits until it is released, and is made then."""

    let_go: threading.Event


@dataclass(frozen=True)
class Change:
    """The call is made, and its answer passes through a function."""

    change: Callable[[Any], Any]


@dataclass
class Call:
    """One call, recorded on arrival: once a client has the answer, the call is counted.

    :param seconds: how long it took, 0 until it has ended.
    """

    started: float = field(default_factory=time.monotonic, kw_only=True)
    seconds: float = field(default=0.0, kw_only=True)

    def end(self) -> None:
        self.seconds = time.monotonic() - self.started


C = TypeVar("C", bound=Call)


@dataclass
class Rule(Generic[C]):
    """Breaks calls: the n-th of those that it concerns, counted from 1, or all.

    :param seen: how many it has concerned.
    """

    concerns: Callable[[C], bool]
    action: Any
    nth: tuple[int, ...] | None = None
    seen: int = 0


@dataclass
class Breaker(Generic[C]):
    """The calls of a proxy, and the rules that break them."""

    rules: list[Rule[C]] = field(default_factory=list, init=False)
    calls: list[C] = field(default_factory=list, init=False)
    lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def add_rule(self, concerns: Callable[[C], bool], action: Any, nth: tuple[int, ...]) -> Rule[C]:
        """Break the n-th of the calls that come from now on, or all if no number is given."""
        rule = Rule(concerns, action, nth or None)
        with self.lock:
            self.rules.append(rule)
        return rule

    def heal(self) -> None:
        """Break no further calls; those that wait continue to wait."""
        with self.lock:
            self.rules.clear()

    def found(self, concerned: Callable[[C], bool]) -> list[C]:
        with self.lock:
            return [call for call in self.calls if concerned(call)]

    def note(self, call: C) -> Any:
        """Record a call; return how to break it, None if it passes. The first rule decides, and all of them count."""
        with self.lock:
            self.calls.append(call)
            action = None
            for rule in self.rules:
                if rule.concerns(call):
                    rule.seen += 1
                    if action is None and (rule.nth is None or rule.seen in rule.nth):
                        action = rule.action
            return action
