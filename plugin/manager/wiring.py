"""The manager, wired: the context that the settings describe."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from common.clock import Clock, SystemClock
from ml_backend.registry.registry import open_registry
from ml_backend.targets.loading import load_target
from plugin.backend_health import look_at_backend
from plugin.crowd import CrowdServices, crowd_of, crowd_services
from plugin.manager.step import ManagerContext
from plugin.manager.studio import ConnectedStudio
from plugin.manager.trainings import Trainings
from plugin.operator import operator_name
from plugin.page_health import look_at_pages
from plugin.round_opening import RoundOpening
from plugin.settings import Settings
from plugin.training_process import TrainingProcess
from round_manager.archive.storage import open_archives
from round_manager.database.store import Store, open_store


@dataclass(frozen=True)
class Wishes:
    """What a command adds to the settings: options for the trainings' own commands, and how far rounds go on.

    `options` go before a command, such as `--config FILE`; `timeout` is how long serving processes may take to confirm
    a version.
    """

    options: Sequence[str] = ()
    mode: str | None = None
    last_round: int | None = None
    timeout: float = 60.0


@contextmanager
def open_manager_context(settings: Settings, wishes: Wishes) -> Iterator[ManagerContext]:
    """The context; the trainings that were started on it end with the block."""
    clock = SystemClock()
    with open_store(settings.database) as store:
        trainings = Trainings(store, clock, lambda task: _training(settings, wishes, task))
        try:
            yield ManagerContext(
                store=store,
                clock=clock,
                who=operator_name(),
                crowd=_crowd(settings, store, clock),
                studio=ConnectedStudio(settings, store, clock) if settings.label_studio_token else None,
                archives=lambda: open_archives(settings.archives_location),
                opening=lambda: _opening(settings, wishes, store, clock),
                trainings=trainings,
                check_pages=lambda: look_at_pages(settings).are_ours,
                check_backend=lambda task, number: look_at_backend(settings, task, number),
                last_round=wishes.last_round,
                our_pages=settings.serves_hit_pages,
            )
        finally:
            trainings.stop()


def _crowd(settings: Settings, store: Store, clock: Clock) -> CrowdServices | None:
    if not settings.has_crowd_keys:
        return None
    return crowd_services(settings, store, crowd_of(settings), clock)


def _training(settings: Settings, wishes: Wishes, task: str) -> TrainingProcess:
    log_file = settings.make_home() / f"training-{task}.log"
    return TrainingProcess(task, os.environ, log_file, mode=wishes.mode, options=wishes.options)


def _opening(settings: Settings, wishes: Wishes, store: Store, clock: Clock) -> RoundOpening:
    place = settings.registry_location
    registry = open_registry(place, settings.cache_path / "models")
    return RoundOpening(store, registry, place, load_target, clock, wishes.timeout)
