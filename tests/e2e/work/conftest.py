"""Models that are taught once for all tests of workers' pages, and people's browsers."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

from ml_backend.training import train
from mturk.marketplace.tables import Worker
from round_manager.models import HitKind
from templates import find_pack
from tests.e2e.work.hands import Mouse
from tests.e2e.work.hit_page import HitPage, accept, sign_in
from tests.e2e.work.stage import WorkStage, work_stage
from tests.e2e.work.writing import Reader

Teach = Callable[[str], Path]
OpenBrowser = Callable[..., BrowserContext]
Begin = Callable[..., HitPage]
# Each so-manieth row of a pack: a model that is quickly taught is right and wrong often enough.
TAUGHT = 20


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep these tests in one process of a parallel run, so that each model is taught once."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("work"))


@pytest.fixture(scope="session")
def teach(tmp_path_factory: pytest.TempPathFactory) -> Teach:
    """The folder of a small model of a task, the same one each time."""
    folder = tmp_path_factory.mktemp("taught")

    @cache
    def teach(name: str) -> Path:
        pack = find_pack(name)
        return train(pack, folder, mode="head", rows=pack.seed[::TAUGHT]).directory

    return teach


@pytest.fixture
def open_browser(browser: Browser) -> Iterator[OpenBrowser]:
    """A browser of one's own: `open_browser(viewport=PHONE)`."""
    opened: list[BrowserContext] = []

    def open_browser(**options: Any) -> BrowserContext:
        opened.append(browser.new_context(**options))
        return opened[-1]

    yield open_browser
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def reader(teach: Teach) -> Reader:
    """The model of the shared stage's task."""
    return Reader("sentiment", teach("sentiment"))


@pytest.fixture(scope="session")
def shared_stage(tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[WorkStage]:
    """The sentiment task with three tries, one of them before anybody gives up; each test has HITs of its own."""
    with work_stage(tmp_path_factory.mktemp("shared")) as stage:
        stage.open_task(
            "sentiment",
            model=teach("sentiment"),
            work={"tries": 3, "tries_before_skip": 1, "validations_per_hit": 1},
            validation={"first_votes": 1, "gold_rate": 0.0, "sample_non_fooling": 0.0},
        )
        yield stage


@pytest.fixture
def begin(shared_stage: WorkStage, open_browser: OpenBrowser, reader: Reader) -> Begin:
    """A new worker who has accepted a new HIT: `begin(HitKind.VALIDATE)`."""

    def begin(kind: HitKind = HitKind.CREATE, worker: Worker | None = None) -> HitPage:
        shared_stage.post("sentiment", kind)
        hands = Mouse(open_browser(viewport={"width": 1280, "height": 900}).new_page())
        sign_in(shared_stage, hands, worker or shared_stage.worker("Ada"))
        title = reader.spec.title
        hit = accept(hands, title if kind is HitKind.CREATE else f"Check: {title}")
        hit.wait_until_ready()
        return hit

    return begin
