"""Specs as they are stored: what a task says now, and what a round said when it was opened."""

from pydantic import ValidationError

from round_manager.errors import TaskError
from round_manager.models import Round, Task
from templates import TaskSpec


def spec_of(record: Task | Round) -> TaskSpec:
    """The spec of a task as it is now, or of a round as it was when the round opened."""
    try:
        return TaskSpec.model_validate(record.spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        cure = "run `outfox task create` with the pack again" if isinstance(record, Task) else "use the older program"
        raise TaskError(f"what is stored of {record!r} is not right at {where}: {first['msg']}; {cure}") from error
