"""A pack's contexts as tasks to write for, as a first push sends them."""

from collections.abc import Sequence

from templates.payloads import Json, creation_task, next_target
from templates.rows import Context
from templates.spec import TaskSpec


def creation_tasks(spec: TaskSpec, contexts: Sequence[Context]) -> list[Json]:
    """One task per context."""
    asked: dict[str, int] = {}
    return [creation_task(spec, context, next_target(spec, context, asked)) for context in contexts]
