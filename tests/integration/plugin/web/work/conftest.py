"""The workers' pages on both databases: of the sentiment task, or of another pack with other terms."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import Store
from tests.campaign import start_campaign
from tests.integration.plugin.web.work.work_site import WorkSite

OpenSite = Callable[..., WorkSite]


@pytest.fixture
def open_site(store: Store, tmp_path: Path) -> Iterator[OpenSite]:
    """Serve the pages with other terms: `open_site("qa", work={"tries": 2})`."""
    sites: list[WorkSite] = []

    def open_site(name: str = "sentiment", *, contexts: int = 8, **terms: Any) -> WorkSite:
        sites.append(WorkSite(start_campaign(store, name, contexts=contexts, **terms), tmp_path / "home"))
        return sites[-1]

    yield open_site
    for one in sites:
        one.close()


@pytest.fixture
def site(open_site: OpenSite) -> WorkSite:
    return open_site()


@pytest.fixture
def unproven_site(site: WorkSite) -> WorkSite:
    """Pages of a marketplace that cannot prove who accepted a HIT."""
    site.settings = site.settings.model_copy(update={"crowd_kind": "mturk"})
    site.restart()
    return site
