"""Bare pages for every test, one site after the other at one address, and a worker's browser that knows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext
from werkzeug.wrappers import Response

from plugin.server_process import free_port
from round_manager.database.store import open_store
from tests.campaign import start_campaign
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenSite, OpenTab
from tests.integration.databases import SqliteDatabases
from tests.integration.plugin.web.work.work_site import AppServer, WorkSite


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("bare-pages"))


@pytest.fixture(scope="session")
def port() -> int:
    """Where all sites are, one after the other: a browser that was there has the editor's files."""
    return free_port()


@pytest.fixture(scope="session")
def submit_server() -> Iterator[AppServer]:
    """A marketplace address that accepts every submission."""
    served = AppServer(Response("Submitted", content_type="text/plain"))
    yield served
    served.stop()


@pytest.fixture
def open_site(sqlite: SqliteDatabases, port: int, submit_server: AppServer, tmp_path: Path) -> Iterator[OpenSite]:
    """A task of one's own choice: `open_site("qa", work={"tries": 2})`."""
    opened: list[WorkSite] = []
    with open_store(sqlite.migrated()) as store:

        def open_site(name: str = "sentiment", **terms: Any) -> WorkSite:
            site = WorkSite(start_campaign(store, name, contexts=8, **terms), tmp_path / "home", port)
            site.settings = site.settings.model_copy(update={"crowd_site_url": submit_server.url})
            site.restart()
            opened.append(site)
            return site

        yield open_site
        for one in opened:
            one.close()


@pytest.fixture
def open_tab(everyday_browser: BrowserContext) -> Iterator[OpenTab]:
    """Another tab of a worker's browser."""
    opened: list[BarePage] = []

    def open_tab() -> BarePage:
        page = everyday_browser.new_page()
        page.set_viewport_size({"width": 1280, "height": 900})
        opened.append(BarePage(page))
        return opened[-1]

    yield open_tab
    for one in opened:
        one.page.close()


@pytest.fixture
def tab(open_tab: OpenTab) -> BarePage:
    """The one tab of a worker's browser."""
    return open_tab()
