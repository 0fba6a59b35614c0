"""Cancelling a training, whether its process still lives or not."""

from round_manager.clock import Clock
from round_manager.database.store import Store
from round_manager.errors import TrainingBusy, TrainingError
from round_manager.learning.jobs import DIED, ask_to_cancel, bury, training_turn
from round_manager.models import TrainingJob
from round_manager.tasks.tasks import find_task


def cancel_training(store: Store, name: str, *, who: str, clock: Clock) -> TrainingJob:
    """The task's training, asked to stop; one whose process is gone is told to have failed instead."""
    try:
        with training_turn(store, name), store.write() as session:
            buried = bury(session, find_task(session, name), DIED, now=clock.now())
    except TrainingBusy:
        with store.write() as session:
            return ask_to_cancel(session, find_task(session, name), who=who, now=clock.now())
    if buried is None:
        raise TrainingError(f"no model of {name} is being trained; `outfox model jobs {name}` shows the last ones")
    return buried
