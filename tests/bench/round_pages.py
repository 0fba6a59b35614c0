"""The time of each request of a worker's page in a round of any size, over real HTTP."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import select

from round_manager.database.store import open_store
from round_manager.models import HitKind, Round, Task, spec_of
from round_manager.tasks.rounds import pinned_versions
from tests.fakes.clock import SettableClock
from tests.integration.plugin.web.work.office import Office
from tests.integration.round_manager.work.floor import Floor

PAGES = 15


def page_times(file: Path) -> dict[str, float]:
    """Return the median seconds by kind of request; the model answers at once, so that the database is measured."""
    took: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        took[name].append(time.perf_counter() - begun)

    with open_store(f"sqlite:///{file}") as store:
        with store.read() as session:
            task, round = session.scalars(select(Task)).one(), session.scalars(select(Round)).one()
            (version,) = pinned_versions(session, round)
        floor = Floor(store, SettableClock(), spec_of(round), task, round, version)
        with closing(Office(floor, file.parent)) as office:
            for number in range(PAGES + 1):
                writing, checking = floor.hit(), floor.hit(HitKind.VALIDATE)
                with timed("opens a page to write"):
                    page = office.open(f"W{number}", writing)
                body = page.fooling()
                with timed("asks the model"):
                    page.post("/items/0/tries", body)
                with timed("hands in"):
                    page.post("/items/0/hand-in", body)
                with timed("opens a page to check"):
                    page = office.open(f"V{number}", checking)
                assert page.state()["items"]
    # The first request of each kind runs with empty caches.
    return {name: statistics.median(each[1:]) for name, each in took.items()}
