"""Following: the project of a task's writers asks the models of the round that is live, whoever opened it.

While no round is live it asks at the task's own address: what answers there is what the next round will most likely be
played against, and no try is counted for a round that is over. Only the connection that `connect` made is moved, and
only its address; where its owner entered something else in it, or removed it, it is left alone.
"""

import re
from dataclasses import dataclass

from common.clock import Clock
from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.links import linked, remembered
from plugin.labelstudio.studio import BackendSeen, Studio
from round_manager.database.store import Store
from round_manager.labelstudio.mirror import find_link
from round_manager.models import ProjectKind
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task

BAD_REQUEST = 400


@dataclass(frozen=True)
class Course:
    """Which connection has to ask for which round; None for the task itself."""

    project: int
    backend: int
    round: int | None


def find_course(store: Store, task_name: str) -> Course | None:
    """What the task's connection has to ask for now, by the database alone; None where it has none."""
    with store.read() as session:
        task = find_task(session, task_name)
        link = find_link(session, task.id, ProjectKind.CREATE)
        live = live_round(session, task.id)
    if link is None or link.ml_backend is None:
        return None
    return Course(link.project, link.ml_backend, live.number if live else None)


def follow(store: Store, studio: Studio, task_name: str, course: Course, clock: Clock) -> str | None:
    """Moves the connection where it asks for another round; the address that it asks at from now on, None if it stays.

    Once more does no harm, and nor do two at once: each goes by what stands in Label Studio.
    """
    _, links = linked(store, studio, task_name)
    with remembered(store, links[ProjectKind.CREATE], task_name, clock):
        mine = next((one for one in studio.backends(course.project) if one.id == course.backend), None)
        base = _base(mine.url, task_name) if mine else None
        if mine is None or base is None:
            return None
        url = backend_address(base, task_name, course.round)
        if mine.url.rstrip("/") == url:
            return None
        _move(studio, task_name, course, mine, url)
        return url


def backend_address(base: str, task_name: str, number: int | None) -> str:
    """Where a backend is asked for a round, or for the task itself."""
    address = f"{base.rstrip('/')}/tasks/{task_name}"
    return address if number is None else f"{address}/rounds/{number}"


def _base(url: str, task_name: str) -> str | None:
    found = re.fullmatch(rf"(.+)/tasks/{re.escape(task_name)}(?:/rounds/\d+)?/?", url)
    return found[1] if found else None


def _move(studio: Studio, task_name: str, course: Course, mine: BackendSeen, url: str) -> None:
    try:
        studio.change_backend(course.project, mine, url, None, interactive=mine.interactive)
    except LabelStudioError as error:
        if error.status != BAD_REQUEST:
            raise
        text = f"Label Studio still asks the ML backend at {mine.url}, for it cannot use {url}: does it run there"
        cure = f"If its address or password changed, run `outfox labelstudio connect {task_name}`"
        raise LabelStudioError(f"{text}? {cure}. {error}", retry=True, status=BAD_REQUEST) from error
