"""A task that is open for all tests of workers' pages, and people's browsers."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, ViewportSize

from mturk.marketplace.tables.people import Worker
from round_manager.models import HitKind
from tests.e2e.plugin.web.work.hands import Mouse
from tests.e2e.plugin.web.work.hit_page import HitPage, accept, sign_in
from tests.e2e.plugin.web.work.stage import WorkStage, work_stage
from tests.e2e.plugin.web.work.writing import Reader
from tests.e2e.taught import Teach

OpenWindow = Callable[[ViewportSize], Page]
Begin = Callable[..., HitPage]


@pytest.fixture
def open_window(everyday_browser: BrowserContext) -> Iterator[OpenWindow]:
    """A window of a browser in which one worker after the other signs in: `open_window(PHONE)`."""
    before = set(everyday_browser.pages)

    def open_window(size: ViewportSize) -> Page:
        page = everyday_browser.new_page()
        page.set_viewport_size(size)
        return page

    yield open_window
    # Tests open others beside it.
    for one in set(everyday_browser.pages) - before:
        one.close()


@pytest.fixture(scope="session")
def reader(teach: Teach) -> Reader:
    """The model of the shared stage's task."""
    return Reader("sentiment", teach("sentiment"))


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[WorkStage]:
    """The sentiment task with three attempts, one of them required before skipping; each test posts its own HITs."""
    with work_stage(tmp_path_factory.mktemp("shared")) as stage:
        stage.open_task(
            "sentiment",
            model=teach("sentiment"),
            work={"tries": 3, "tries_before_skip": 1, "validations_per_hit": 1},
            validation={"first_votes": 1, "gold_rate": 0.0, "sample_non_fooling": 0.0},
        )
        yield stage


@pytest.fixture
def begin(shared_stage: WorkStage, open_window: OpenWindow, reader: Reader) -> Begin:
    """A new worker who has accepted a new HIT: `begin(HitKind.VALIDATE)`."""

    def begin(kind: HitKind = HitKind.CREATE, worker: Worker | None = None) -> HitPage:
        shared_stage.post("sentiment", kind)
        hands = Mouse(open_window({"width": 1280, "height": 900}))
        sign_in(shared_stage, hands, worker or shared_stage.worker("Ada"))
        title = reader.spec.title
        hit = accept(hands, title if kind is HitKind.CREATE else f"Check: {title}")
        hit.wait_until_ready()
        return hit

    return begin
