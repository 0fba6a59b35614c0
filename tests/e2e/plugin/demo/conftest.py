"""One demo for all tests of this folder, with simulated colleagues who do not pause."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from common.clock import SystemClock
from plugin.demo.demo import TASK, demo_pack
from plugin.demo.progress import ExampleState, RoundState, examples_of, round_state
from plugin.server_process import free_port
from round_manager.database.store import open_store
from round_manager.models import ExampleStatus
from round_manager.services.context import ServiceContext
from round_manager.services.tasks import list_rounds
from templates import BUILT_IN, Pack
from tests.conftest import replace_in
from tests.e2e.first_start import FirstStart
from tests.e2e.running_demo import RunningDemo, about, running_demo, until

# Validated fooling examples that end a round, and how long the colleagues take for them.
EXAMPLES = 3
MINUTES = 0.5
# Every n-th row of the seed.
SEED_PART = 5
# Rarely, because the demo needs the same cores.
SECONDS_BETWEEN_LOOKS = 0.5
DECIDED = (ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)
# Long: other tests use the same cores. What is there ends the wait.
MILLISECONDS_FOR_LABEL_STUDIO = 120_000


@dataclass(frozen=True)
class SharedDemo:
    """A demo that is running: what it printed (`ready`: addresses, logins, an invitation), and what it is doing.

    Tests may use it in any order, and add steps of their own: it holds no round back, so a test waits for what it needs
    with `until` and must not expect a certain round.
    """

    running: RunningDemo
    port: int
    ready: dict[str, Any]

    @property
    def home(self) -> Path:
        """The folder that holds everything."""
        return self.running.home

    @property
    def config(self) -> Path:
        """The settings, for `outfox --config`."""
        return self.running.config

    @property
    def pack(self) -> Pack:
        """The task with the demo's terms."""
        return demo_pack(EXAMPLES, self.home / "templates", is_visit=True)

    def outfox(self, *arguments: str) -> Any:
        """Return what a command says about the demo, as JSON."""
        return about(self.config, *arguments)

    def invite(self, name: str) -> str:
        """Return a link that signs a new worker in on the marketplace."""
        (invited,) = self.outfox("marketplace", "invite", name)
        return str(invited["link"])

    def log_in(self, page: Page) -> None:
        """Log the owner in to Label Studio with what the demo printed."""
        page.set_default_timeout(MILLISECONDS_FOR_LABEL_STUDIO)
        page.goto(self.ready["url"])
        page.fill("#email", self.ready["email"])
        page.fill("#password", self.ready["password"])
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "login" not in url, wait_until="commit")

    def wait(self, is_so: Callable[[RoundState], bool]) -> RoundState:
        """Wait until the round is as described, and return it; fail if the demo ends before."""
        with self._services() as services:

            def look() -> bool:
                assert self.running.ended() is None, self.running.said
                return is_so(round_state(services, TASK))

            until(look, every=SECONDS_BETWEEN_LOOKS)
            return round_state(services, TASK)

    def decided(self, text: str) -> ExampleState:
        """Wait until the person's example with this text is decided, in whichever round, and return it."""
        return self._example(text, lambda one: one.status in DECIDED)

    def confirmed(self, text: str) -> ExampleState:
        """Wait until the marketplace has confirmed the person's example with this text, and return it."""
        return self._example(text, lambda one: one.status is not ExampleStatus.UNCONFIRMED)

    def _example(self, text: str, is_so: Callable[[ExampleState], bool]) -> ExampleState:
        found: list[ExampleState] = []

        def look() -> bool:
            assert self.running.ended() is None, self.running.said
            rounds = [one.round.number for one in list_rounds(services, TASK)]
            every = (one for number in rounds for one in examples_of(services, TASK, number))
            found[:] = [one for one in every if one.text == text and not one.simulated and is_so(one)]
            return bool(found)

        with self._services() as services:
            until(look, every=SECONDS_BETWEEN_LOOKS)
        return found[0]

    @contextmanager
    def _services(self) -> Iterator[ServiceContext]:
        with open_store(f"sqlite:///{self.home / 'outfox.db'}") as store:
            yield ServiceContext(store, SystemClock())


@pytest.fixture(scope="session")
def shared_demo(tmp_path_factory: pytest.TempPathFactory, first_start: FirstStart) -> Iterator[SharedDemo]:
    """The default demo, with small rounds and a small seed."""
    home, port = tmp_path_factory.mktemp("shared-demo") / "home", free_port()
    first_start.give_tables(home / "label-studio")
    give_small_pack(home / "templates")
    options = ("--examples", EXAMPLES, "--minutes", MINUTES, "--mode", "head")
    with running_demo(home, port, *options) as demo:
        printed: dict[str, Any] = {}

        def has_printed() -> bool:
            assert demo.ended() is None, demo.said
            try:
                printed.update(demo.printed())
            except ValueError:
                return False  # Nothing yet, or a part.
            return True

        until(has_printed)
        yield SharedDemo(demo, port, printed)


def give_small_pack(folder: Path) -> None:
    """Copy the task with a part of its seed, so that its models are trained in a fraction of the time.

    On so few rows a model may lose many points by chance, and among so few workers a round may have none whom no model
    knows, so that nothing of it would be held out. What the guard and the split make of that is tried elsewhere.
    """
    shutil.copytree(BUILT_IN / "sentiment", folder / "sentiment")
    rows = (folder / "sentiment" / "seed.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "sentiment" / "seed.jsonl").write_text("\n".join(rows[::SEED_PART]), encoding="utf-8")
    replace_in(folder / "sentiment" / "task.yaml", "guard_points: 2.0", "guard_points: 50.0")
    replace_in(folder / "sentiment" / "task.yaml", "split_by_worker: true", "split_by_worker: false")
    # So that there are HITs for every validator.
    replace_in(folder / "sentiment" / "task.yaml", "validations_per_hit: 5", "validations_per_hit: 2")


# First: pytest-xdist reads the order in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what ends the shared demo after everything that uses it."""
    items.sort(key=lambda item: item.get_closest_marker("ends_demo") is not None)
