"""The way from a task to its projects, and what is remembered when Label Studio fails on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from common.clock import Clock
from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.studio import Studio
from round_manager.database.store import Store
from round_manager.errors import RoundManagerError
from round_manager.labelstudio.mirror import clear_error, find_link, note_error
from round_manager.models import LabelStudioLink, ProjectKind, Task
from round_manager.tasks.tasks import find_task

NOT_FOUND = 404


def linked(store: Store, studio: Studio, task_name: str) -> tuple[Task, dict[ProjectKind, LabelStudioLink]]:
    """The task and its two projects, or a LabelStudioError that tells how to connect them."""
    with store.read() as session:
        task = find_task(session, task_name)
        found = {kind: find_link(session, task.id, kind) for kind in ProjectKind}
    links = {kind: link for kind, link in found.items() if link is not None}
    cure = f"run `outfox labelstudio connect {task_name}`"
    if len(links) < len(ProjectKind):
        raise LabelStudioError(f"{task_name} has no projects in Label Studio yet; {cure}")
    for link in links.values():
        if link.url != studio.url:
            raise LabelStudioError(f"{task_name} is connected to {link.url}, not to {studio.url}; {cure}")
    return task, links


@contextmanager
def remembered(store: Store, link: LabelStudioLink, task_name: str, clock: Clock) -> Iterator[None]:
    """Whatever fails inside is written down at the link, for `status` to tell, and raised; success wipes it out."""
    try:
        yield
        if link.last_error is not None:
            with store.write() as session:
                clear_error(session, link.id)
    except LabelStudioError as error:
        told = error
        if error.status == NOT_FOUND:
            text = f"project {link.project} of {task_name} is gone from Label Studio at {link.url}"
            told = LabelStudioError(f"{text}; `outfox labelstudio connect {task_name}` makes another", status=NOT_FOUND)
        _write_down(store, link, told, clock)
        raise told from error
    except RoundManagerError:
        # The database itself may be what fails.
        raise
    except Exception as error:
        _write_down(store, link, error, clock)
        raise


def _write_down(store: Store, link: LabelStudioLink, error: Exception, clock: Clock) -> None:
    # Only errors of ours have a text for people; another one's can hold what somebody typed.
    text = str(error) if hasattr(error, "retry") else type(error).__name__
    with store.write() as session:
        note_error(session, link.id, text, now=clock.now())
