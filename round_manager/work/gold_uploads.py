"""The check of a gold file: no row of it may be in a file or a round that workers can read."""

from collections.abc import Iterator, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.text import count
from round_manager.examples.submissions import content_sha256
from round_manager.models import Context, Example, Task, spec_of
from templates import Problem, SeedRow, TaskSpec
from templates.rows import MAX_PROBLEMS, GoldRow, text_key
from templates.texts import lookalike_key

READ_AT_ONCE = 1_000


def published_rows(
    session: Session, task: Task, file: str, rows: Sequence[GoldRow], seed: Sequence[SeedRow]
) -> list[Problem]:
    """Return a problem for each row whose text can be looked up: in the seed, the contexts or any round."""
    spec = spec_of(task)
    problems = [
        Problem(file, line, "gold_published", f"the text is in {where}, where workers can look it up; write another")
        for line, where in sorted(_published(session, task, spec, rows, seed))
    ]
    if len(problems) > MAX_PROBLEMS:
        more = count(len(problems) - MAX_PROBLEMS, "more row")
        text = f"has {more} with a text that can be looked up; fix these first"
        problems[MAX_PROBLEMS:] = [Problem(file, None, "more_problems", text)]
    return problems


def _published(
    session: Session, task: Task, spec: TaskSpec, rows: Sequence[GoldRow], seed: Sequence[SeedRow]
) -> Iterator[tuple[int, str]]:
    seeds = {text_key(row, spec) for row in seed}
    yield from ((one.line, "the seed") for one in rows if text_key(one.row, spec) in seeds)
    written = {content_sha256(spec, one.row.fields): one.line for one in rows}
    for start in range(0, len(rows), READ_AT_ONCE):
        some = list(written)[start : start + READ_AT_ONCE]
        found = select(Example.content_sha256).where(Example.task_id == task.id, Example.content_sha256.in_(some))
        yield from ((written[one], "a round") for one in session.scalars(found.distinct()))
    inputs = [field.name for field in spec.with_role("input")]
    texts = {lookalike_key(one.row.fields[name]): one.line for one in rows for name in inputs}
    contexts = select(Context.fields).where(Context.task_id == task.id).execution_options(yield_per=READ_AT_ONCE)
    for fields in session.scalars(contexts):
        for text in fields.values():
            line = texts.pop(lookalike_key(str(text)), None)
            if line is not None:
                yield line, "a context"
