"""Qualifying: who passed a task's quiz may work on it, granted once however many processes look after it."""

from collections.abc import Callable

from crowd.errors import CrowdAccessDenied, CrowdRefused
from round_manager.crowd.recruiting import Recruiting
from round_manager.database.locks import process_lock
from round_manager.database.store import Store
from round_manager.work.quizzes import ungranted_passes

WHO = "quiz"


class _Taken(Exception):
    """Another process is at it."""


def qualify_passed(store: Store, marketplace: str, recruit: Callable[[], Recruiting]) -> int:
    """Grants what is due, unless another process is at it now; how many. A marketplace's no holds up nobody else.

    The processes may be on several machines, so they take turns by the database. Who is due is read inside the turn: a
    worker whom another process qualified, and who lost the qualification since, is not among them any more.
    """
    try:
        with process_lock(store, f"qualifying-{marketplace}", _leave):
            return _qualify(store, marketplace, recruit)
    except _Taken:
        return 0


def _qualify(store: Store, marketplace: str, recruit: Callable[[], Recruiting]) -> int:
    with store.read() as session:
        passed = ungranted_passes(session, marketplace)
    if not passed:
        return 0
    recruiting = recruit()
    refused: list[CrowdRefused] = []
    for one in passed:
        why = f"passed the quiz with {one.score} of 100"
        try:
            recruiting.grant(one.task, one.worker_id, who=WHO, why=why, score=one.score)
        except CrowdAccessDenied:
            raise
        except CrowdRefused as error:
            refused.append(error)
    if refused:
        raise refused[0]
    return len(passed)


def _leave() -> None:
    raise _Taken
