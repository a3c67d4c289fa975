"""A project whose days get one more event at each edit: a day's rows show when they were polled."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

from tests.standins.mixpanel.events import Project, TimeUnit, Truth
from tests.standins.mixpanel.server import StandIn

EVENTS = 40
_editing = threading.Lock()


@dataclass(frozen=True)
class Hold:
    """Delays answers with one edition of a date."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


_holds: dict[tuple[dt.date, int], Hold] = {}


@dataclass(frozen=True)
class Editions(Project):
    """A project with an edition for each date: the number of its late events."""

    editions: frozenset[tuple[dt.date, int]] = field(default=frozenset(), kw_only=True)

    def edition(self, date: dt.date) -> int:
        return dict(self.editions).get(date, 0)

    def next(self, *dates: dt.date) -> Editions:
        """Return the project with a further edition of some dates."""
        later = {date: self.edition(date) + 1 for date in dates}
        return replace(self, editions=frozenset((dict(self.editions) | later).items()))

    def at(self, edition: int) -> Project:
        """Return the project with one edition of all dates."""
        plain = Project(**{project_field.name: getattr(self, project_field.name) for project_field in fields(Project)})
        return replace(plain, late_per_day=edition)

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        if (hold := _holds.get((date, self.edition(date)))) is not None:
            hold.reached.set()
            hold.released.wait()
        yield from self.at(self.edition(date)).lines(date, unit)

    def truth(self, date: dt.date) -> Truth:
        return self.at(self.edition(date)).truth(date)


def edit(standin: StandIn, *dates: dt.date) -> None:
    """Change the answers for some dates from now on."""
    with _editing:
        project = standin.project
        assert isinstance(project, Editions)
        standin.project = project.next(*dates)


@contextlib.contextmanager
def held(date: dt.date, edition: int) -> Iterator[Hold]:
    """Delay every answer with one edition of a date, at most until the block ends."""
    hold = _holds[date, edition] = Hold()
    try:
        yield hold
    finally:
        hold.released.set()
