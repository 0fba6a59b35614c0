"""A web app on a store with an open round."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from plugin.attempt_delivery import sign
from plugin.settings import Settings
from plugin.web.app import web_app
from plugin.wiring import Application
from round_manager.database.store import LazyStore, open_store
from round_manager.services.attempts import AttemptIntake
from round_manager.tasks.rounds import collected
from tests.campaign import Campaign, start_campaign
from tests.fakes.clock import SettableClock
from tests.integration.databases import Databases
from tests.integration.plugin.web.serving import Serving, serving

SECRETS = ("an-old-secret-that-still-verifies-the-posts", "the-secret-that-signs-the-posts-since-today")


@dataclass(frozen=True)
class Web:
    """The web app, a client of it, and the hints it received."""

    campaign: Campaign
    client: FlaskClient
    settings: Settings
    intake: AttemptIntake
    lazy_store: LazyStore
    hints: list[str]
    clock: SettableClock

    def post(self, body: bytes, **headers: str) -> object:
        """Post with exactly these headers."""
        return self.client.post("/api/attempts", data=body, headers=headers)

    def attempts(self) -> int:
        """How many attempts are stored."""
        with self.campaign.store.read() as session:
            return collected(session, self.campaign.round).attempts


@pytest.fixture
def settings(tmp_path: Path, home_url: str) -> Settings:
    return Settings(home=str(tmp_path / "home"), database_url=home_url, secret=" ".join(SECRETS))


@pytest.fixture
def campaign(settings: Settings, home_tables: str) -> Iterator[Campaign]:
    settings.make_home()
    with open_store(home_tables) as store:
        yield start_campaign(store, label_studio=True)


@pytest.fixture
def web(campaign: Campaign, settings: Settings) -> Iterator[Web]:
    lazy_store, hints, clock = LazyStore(settings.database), list[str](), SettableClock()
    intake = Application(settings, clock=clock).attempt_intake(lazy_store)
    app = web_app(lazy_store, intake, SECRETS, hint=hints.append)
    yield Web(campaign, app.test_client(), settings, intake, lazy_store, hints, clock)
    lazy_store.close()


@dataclass(frozen=True)
class WebProcess:
    """The web app as a separate process, shared by tests that do not change it."""

    process: Serving
    settings: Settings
    campaign: Campaign

    def attempts(self) -> int:
        """How many attempts are stored by now."""
        with self.campaign.store.read() as session:
            return collected(session, self.campaign.round).attempts


@pytest.fixture(scope="session")
def web_process(tmp_path_factory: pytest.TempPathFactory, any_databases: Databases) -> Iterator[WebProcess]:
    home, url = tmp_path_factory.mktemp("web-process"), any_databases.migrated()
    settings = Settings(home=str(home), database_url=url, secret=" ".join(SECRETS))
    with open_store(url) as store, serving(settings) as process:
        campaign = start_campaign(store, label_studio=True)
        yield WebProcess(process, settings.model_copy(update={"web_url": process.url}), campaign)


def headers_for(body: bytes, now: float, secrets: tuple[str, ...] = SECRETS) -> dict[str, str]:
    """The headers of a signed post."""
    return sign(secrets, body, now)
