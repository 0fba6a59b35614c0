"""Cancelling a training, whether its process still lives or not.

Its turn does not tell: PostgreSQL gives it back with a lost connection, while the process goes on. Only one that nobody
has heard of for a while is gone.
"""

from common.clock import Clock
from round_manager.database.store import Store
from round_manager.errors import TrainingBusy
from round_manager.learning.jobs import DIED, ask_to_cancel, bury, is_heard_of, running_job, training_turn
from round_manager.models import TrainingJob
from round_manager.tasks.tasks import find_task


def cancel_training(store: Store, name: str, *, who: str, clock: Clock) -> TrainingJob:
    """The task's training, asked to stop; one whose process is gone is over at once, and not begun again."""
    with store.write() as session:
        asked = ask_to_cancel(session, find_task(session, name), who=who, now=clock.now())
    return end_cancelled(store, name, clock=clock) or asked


def end_cancelled(store: Store, name: str, *, clock: Clock) -> TrainingJob | None:
    """The task's training that somebody cancelled when its process was gone, told to be over; None for any other."""
    if not _is_left(store, name, clock):
        return None
    try:
        with training_turn(store, name):
            if not _is_left(store, name, clock):
                return None
            with store.write() as session:
                return bury(session, find_task(session, name), DIED, now=clock.now())
    except TrainingBusy:
        return None  # Its process lives after all, or somebody else has begun the next.


def _is_left(store: Store, name: str, clock: Clock) -> bool:
    with store.read() as session:
        job = running_job(session, find_task(session, name))
    return job is not None and job.cancel_at is not None and not is_heard_of(job, now=clock.now())
