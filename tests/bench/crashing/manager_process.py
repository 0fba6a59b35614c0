"""A manager as `outfox manage` runs it, in a process that can be killed at any time."""

import time
from dataclasses import dataclass, replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy.orm import configure_mappers

from crowd.errors import CrowdError, RetryPolicy
from crowd.port import Crowd
from plugin.manager.loop import STEPS, Manager
from plugin.manager.round_steps import Freeze, Open, Train
from plugin.manager.step import ManagerContext
from plugin.settings import Settings
from plugin.wiring import Application, ManagerOptions
from tests.fakes.clock import JumpingClock

# The processes are forks of one that has imported this module. The composition root imports these only when they are
# used, which would take each process a second.
for module in ("psycopg", "mturk.client", "mturk.event_queue", "plugin.backend_client", "plugin.crowd"):
    import_module(module)
configure_mappers()
# The rest moves money or leads to it. The owner of the benchmark opens the rounds.
MONEY_STEPS = tuple(step for step in STEPS if not isinstance(step, Freeze | Train | Open))
SECONDS_BETWEEN_PASSES = 0.05
SECONDS_TO_WAIT = 5.0


@dataclass(frozen=True)
class Job:
    """Where a manager works, by which clock."""

    home: str
    database: str
    marketplace: str
    key_id: str
    key_secret: str
    queue: str
    clock: str

    @property
    def settings(self) -> Settings:
        """The settings of its process."""
        return Settings(
            home=self.home,
            database_url=self.database,
            secret="the-secret-that-signs-the-links-of-hits",
            crowd_url=self.marketplace,
            crowd_key_id=self.key_id,
            crowd_key_secret=self.key_secret,
            crowd_queue_url=self.queue,
            log_level="error",
        )


class _Application(Application):
    """An Outfox that loses little time with a marketplace that fails often."""

    def crowd(self, retries: RetryPolicy | None = None) -> Crowd:
        """Return the marketplace."""
        return super().crowd(RetryPolicy(budget=SECONDS_TO_WAIT, first_pause=0.02, longest_pause=0.2))


def manage(pipe: Connection, job: Job) -> None:
    """Run a manager until it is killed."""
    application = _Application(job.settings, clock=JumpingClock(Path(job.clock)))
    with application.manager_context(ManagerOptions()) as found:
        # The workers of the benchmark use the pages without a web server.
        context = replace(found, check_pages=lambda: False, our_pages=True)
        events = _Events(application, context)
        pipe.send("ready")
        Manager(context, MONEY_STEPS).run(events.read)


class _Events:
    """Reads the HITs that events name between two passes, as `outfox crowd follow` does."""

    def __init__(self, application: Application, context: ManagerContext) -> None:
        self._queue = application.event_queue()
        self._crowd = context.crowd

    def read(self) -> None:
        time.sleep(SECONDS_BETWEEN_PASSES)
        if self._queue is None or self._crowd is None:
            return
        try:
            hints = self._queue.take(0)
            self._crowd.collector.hinted(hints.hit_ids)
            self._queue.done(hints)
        except CrowdError:
            return  # the next pass reads everything
