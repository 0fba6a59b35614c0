"""Stored specs: the current terms of a task, and the terms that a round was opened with."""

from pydantic import ValidationError

from common.errors import Hint
from round_manager.errors import StoredSpecInvalid
from round_manager.models import Round, Task
from templates import TaskSpec


def spec_of(record: Task | Round) -> TaskSpec:
    """Return the current spec of a task, or the spec that a round was opened with."""
    try:
        return TaskSpec.model_validate(record.spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        hint = Hint("create_task", pack=record.name) if isinstance(record, Task) else None
        raise StoredSpecInvalid(
            f"the stored spec of {record!r} is invalid at {where}: {first['msg']}", hint=hint
        ) from error
