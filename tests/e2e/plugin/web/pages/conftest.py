"""Bare pages for every test, one office after the other at one address, and a worker's browser that knows them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext
from werkzeug.wrappers import Response

from plugin.server_process import free_port
from round_manager.database.store import open_store
from tests.e2e.plugin.web.pages.bare_page import BarePage, OpenOffice, OpenTab
from tests.integration.databases import SqliteDatabases
from tests.integration.plugin.web.work.office import Office, Served
from tests.integration.round_manager.work.floor import lay_floor


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabases:
    return SqliteDatabases(tmp_path_factory.mktemp("bare-pages"))


@pytest.fixture(scope="session")
def port() -> int:
    """Where all offices are, one after the other: a browser that was there has the editor's files."""
    return free_port()


@pytest.fixture(scope="session")
def counter() -> Iterator[Served]:
    """A marketplace address that accepts every submission."""
    served = Served(Response("Submitted", content_type="text/plain"))
    yield served
    served.stop()


@pytest.fixture
def open_office(sqlite: SqliteDatabases, port: int, counter: Served, tmp_path: Path) -> Iterator[OpenOffice]:
    """A task of one's own choice: `open_office("qa", work={"tries": 2})`."""
    opened: list[Office] = []
    with open_store(sqlite.migrated()) as store:

        def open_office(name: str = "sentiment", **terms: dict[str, Any]) -> Office:
            office = Office(lay_floor(store, name, contexts=8, **terms), tmp_path / "home", port)
            office.settings = office.settings.model_copy(update={"crowd_site_url": counter.url})
            office.restart()
            opened.append(office)
            return office

        yield open_office
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
