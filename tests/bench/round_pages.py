"""The time of each request of a worker's page in a round of any size, over real HTTP."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from round_manager.database.store import open_store
from round_manager.models import HitKind
from templates import find_pack
from tests.campaign import find_campaign
from tests.integration.plugin.web.work.work_site import WorkSite

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
        campaign = find_campaign(store, find_pack("sentiment"))
        with closing(WorkSite(campaign, file.parent)) as site:
            for number in range(PAGES + 1):
                writing, checking = campaign.add_hit(), campaign.add_hit(HitKind.VALIDATE)
                with timed("opens a page to write"):
                    page = site.open(f"W{number}", writing)
                body = page.fooling()
                with timed("asks the model"):
                    page.post("/items/0/tries", body)
                with timed("hands in"):
                    page.post("/items/0/hand-in", body)
                with timed("opens a page to check"):
                    page = site.open(f"V{number}", checking)
                assert page.state()["items"]
    # The first request of each kind runs with empty caches.
    return {name: statistics.median(each[1:]) for name, each in took.items()}
