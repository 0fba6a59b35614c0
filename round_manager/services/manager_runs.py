"""Use cases about the manager's own record: which steps worked, failed or wait, for `status` and the next manager."""

from collections.abc import Mapping
from datetime import datetime

from round_manager.loop import manager_record
from round_manager.models import ManagerStep
from round_manager.services.context import Actor, ServiceContext


def recorded_steps(context: ServiceContext) -> Mapping[tuple[str, str], ManagerStep]:
    """Return every recorded step by its name and its task."""
    with context.store.read() as session:
        return manager_record.recorded_steps(session)


def is_backing_off(step: ManagerStep, *, now: datetime) -> bool:
    """Return whether a step that failed waits before it is retried."""
    return manager_record.is_backing_off(step, now=now)


def last_pass(context: ServiceContext) -> ManagerStep | None:
    """Return the record of the last complete pass: when it ended and which manager ran it."""
    with context.store.read() as session:
        return manager_record.last_pass(session)


def problem_steps(context: ServiceContext, task: str) -> list[ManagerStep]:
    """Return the steps that fail or wait: those of a task and those of no task."""
    with context.store.read() as session:
        return list(manager_record.problem_steps(session, task))


def record_pass(context: ServiceContext, actor: Actor) -> None:
    """Record that a manager completed a pass."""
    with context.store.write() as session:
        manager_record.record_pass(session, actor=actor.name, now=context.now())


def record_success(context: ServiceContext, actor: Actor, step: str, task: str, *, waits: str = "") -> None:
    """Record that a step did not fail; it may wait for something."""
    with context.store.write() as session:
        manager_record.record_success(session, step, task, waits, actor=actor.name, now=context.now())


def record_failure(
    context: ServiceContext, actor: Actor, step: str, task: str, error: str, *, retry: bool
) -> ManagerStep:
    """Record that a step failed, and until when it backs off."""
    with context.store.write() as session:
        return manager_record.record_failure(
            session, step, task, error, retry=retry, actor=actor.name, now=context.now()
        )
