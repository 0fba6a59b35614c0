"""Use cases about contexts: upload a file of them, and list them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from round_manager.services.context import Actor, ServiceContext
from round_manager.specs import spec_of
from round_manager.tasks import contexts
from round_manager.tasks.contexts import ContextUse, count_contexts
from round_manager.tasks.tasks import find_task
from round_manager.work import context_uploads
from round_manager.work.context_uploads import ContextsUploaded
from templates import TaskSpec
from templates.rows import Context

# Reads the rows of a file for a spec; it is read twice, and raises PackError with all of its mistakes.
ContextReader = Callable[[TaskSpec], Iterable[Context]]


@dataclass(frozen=True)
class ContextList:
    """The first contexts of a task, and how many there are in total."""

    task: str
    total: int
    contexts: tuple[ContextUse, ...]


def upload_contexts(
    context: ServiceContext,
    actor: Actor,
    task: str,
    read: ContextReader,
    *,
    replace: bool = False,
    reason: str = "",
    dry_run: bool = False,
) -> ContextsUploaded:
    """Add contexts in one transaction: all of them, or none and an error; safe to repeat.

    With `replace`, all other contexts are retired. With `dry_run`, the changes are rolled back.
    """
    store = context.store
    with store.read() as session:
        spec = spec_of(find_task(session, task))
    # Checked completely before anything is locked.
    for _ in read(spec):
        pass
    with store.dry_run() if dry_run else store.write() as session:
        owner = find_task(session, task)
        return context_uploads.upload_contexts(
            session, owner, read(spec), replace=replace, who=actor.name, why=reason, now=context.now()
        )


def list_contexts(context: ServiceContext, task: str, *, limit: int, retired: bool = False) -> ContextList:
    """Return the first contexts in the owner's order, with the number of examples on each."""
    with context.store.read() as session:
        owner = find_task(session, task)
        total = count_contexts(session, owner.id, retired=retired)
        found = contexts.list_contexts(session, owner.id, most=limit, retired=retired)
    return ContextList(task, total, tuple(found))
