"""Writing examples in a session: contexts are assigned, skipped, and become examples."""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from common.messages import Message, gettext, ngettext
from round_manager.database.engine import locks_rows
from round_manager.examples.submissions import (
    FieldName,
    InputProblem,
    StoredVerdict,
    Submission,
    is_duplicate,
    new_example,
    store_example,
    submission_problem,
)
from round_manager.models import Attempt, Context, Duplicate, Example, LeaseEnd, Source, WorkItem, WorkSession
from round_manager.models.rows import insert_row
from round_manager.novelty.decisions import Repetition, find_repetition
from round_manager.tasks.contexts import pack_context
from round_manager.work import errors
from round_manager.work.active_time import add_item_time
from round_manager.work.attempts import (
    AttemptInput,
    CreationItem,
    PageInput,
    input_error,
    is_written_elsewhere,
    load_item,
    lock_item,
)
from round_manager.work.errors import NothingToDo
from round_manager.work.leases import end_lease, label_counts, lease_contexts, lock_task
from round_manager.work.sessions import SessionContext, items_of, session_context
from templates import TaskSpec
from templates.payloads import next_target


def assign_contexts(session: Session, context: SessionContext, *, is_new: bool, now: datetime) -> None:
    """Add the items that the session still lacks, each with its own context; the task must be locked.

    A new session has none of them.
    """
    work = context.work
    there = set() if is_new else {row.item for row in items_of(session, work)}
    lacking = [item for item in range(context.spec.work.examples_per_hit) if item not in there]
    found = _lease(session, context, len(lacking), now)
    if not found and not there:
        text = gettext("you have written on everything that there is in this task; return the HIT, please")
        raise NothingToDo(text, hint=errors.RETURN_HIT)
    for item, (context_id, label) in zip(lacking, found, strict=False):
        row = WorkItem(session_id=work.id, worker_id=work.worker_id, item=item, context_id=context_id, label=label)
        insert_row(session, row)


def skip(
    session: Session, work: WorkSession, item: int, *, mark: str | None = None, now: datetime,
    active_ms: int | None = None,
) -> CreationItem:  # fmt: skip
    """Give the item another context, after enough attempts or if the worker has written on it on another page.

    `active_ms` is the active time that the page has counted so far; the time on a skipped text belongs to no example.
    """
    lock_task(session, session_context(session, work).hit.task_id)
    context, shown = lock_item(session, work, item)
    if mark is not None:
        shown.check_mark(mark)
    context.require_open(now)
    shown.require_unwritten()
    if not shown.can_skip:
        raise errors.MoreAttemptsNeeded(
            ngettext(
                "ask the model %(n)s more time before you skip this one",
                "ask the model %(n)s more times before you skip this one",
                shown.attempts_missing,
            )
        )
    row, given_up = shown.row, shown.row.context_id
    found = _lease(session, context, 1, now)
    if not found:
        text = gettext("there is nothing else that you have not had; go on with this one, or return the HIT")
        raise NothingToDo(text, hint=errors.RETURN_HIT)
    ((row.context_id, row.label),) = found
    row.draft = {}
    add_item_time(session, context.work, row, active_ms, now=now)
    end_lease(session, context.work, given_up, LeaseEnd.SKIPPED, now=now)
    session.flush()
    return load_item(session, context.spec, row)


def submit_item(
    session: Session,
    context: SessionContext,
    item: CreationItem,
    page: PageInput,
    *,
    now: datetime,
    active_ms: int | None = None,
    warn: bool = False,
) -> Example:
    """Store the example with the verdict that the worker saw on exactly this text; the session must be locked.

    A repeated call returns the same example. It is unconfirmed until the marketplace names its author, and then it is
    decided again whether its text is new. With `warn`, a text that is not new is refused with EarnsNoBonus.
    """
    spec, row = context.spec, item.row
    asked = item.input_of(page)
    extra = _with_role(spec, page, "extra")
    reasons = {name: text for name, text in _with_role(spec, page, "reason").items() if text.strip()}
    known, fields = item.example, {**asked.fields, **extra}
    if known is not None:
        same = (known.fields, known.label, known.answer) == (fields, asked.label, asked.answer)
        if same and (known.explanation or {}) == reasons:
            return known
        raise errors.AlreadySubmitted(
            gettext("something else was already submitted for this example; go on with the next one")
        )
    context.require_open(now)
    _check_names(spec, page)
    submission = Submission(
        fields, asked.label, asked.answer, reasons, row.context_id, row.worker_id, Source.PAGES, submitted_at=now,
        session_id=row.session_id, item=row.item,
    )  # fmt: skip
    attempt = _checked(session, context, item, submission, asked)
    repetition = find_repetition(session, context.open_round, spec, row.worker_id, fields)
    if repetition is not None and warn:
        raise errors.EarnsNoBonus(repetition_warning(repetition))
    submission = replace(submission, active_ms=add_item_time(session, context.work, row, active_ms, now=now))
    verdict = StoredVerdict.of_attempt(attempt)
    example = new_example(context.open_round, submission, verdict, tries=len(item.attempts), now=now, confirmed=False)
    if repetition is not None:
        example.duplicate, example.duplicate_of = repetition.how, repetition.name
    store_example(session, example, list(item.attempts))
    end_lease(session, context.work, row.context_id, LeaseEnd.USED, now=now)
    return example


def repetition_warning(repetition: Repetition) -> Message:
    """Return what a worker reads about a text that is not new; another worker's text is never shown."""
    is_exact, own = repetition.how is Duplicate.EXACT, repetition.own_text
    if own is not None and is_exact:
        return gettext("you wrote the same text before (“%(text)s”), so this one earns no bonus", text=own)
    if own is not None:
        return gettext("you wrote nearly the same text before (“%(text)s”), so this one earns no bonus", text=own)
    if repetition.is_context and is_exact:
        return gettext("this is the same as a text that workers are shown, so it earns no bonus")
    if repetition.is_context:
        return gettext("this is nearly the same as a text that workers are shown, so it earns no bonus")
    if is_exact:
        return gettext("this is the same as a text that we already have, so it earns no bonus")
    return gettext("this is nearly the same as a text that we already have, so it earns no bonus")


def _checked(
    session: Session, context: SessionContext, item: CreationItem, submission: Submission, asked: AttemptInput
) -> Attempt:
    """Return the attempt whose verdict counts for the submission, or raise a WorkRefused."""
    spec = context.spec
    problem = submission_problem(spec, submission)
    if problem:
        raise input_error(spec, problem)
    attempt = item.attempt_on(asked)
    if attempt is None:
        raise errors.NotAskedYet(gettext("the model has not been asked about exactly this text; ask it, then submit"))
    if not attempt.fooled and item.attempts_missing:
        raise errors.MoreAttemptsNeeded(
            ngettext(
                "the model was right; ask it %(n)s more time before you submit a text that does not fool it",
                "the model was right; ask it %(n)s more times before you submit a text that does not fool it",
                item.attempts_missing,
            )
        )
    if is_duplicate(session, context.open_round, submission):
        raise errors.DuplicateText(gettext("you already submitted the same text; write another one"))
    if locks_rows(session):
        # Another page of this worker may have submitted while this one waited for the author's lock.
        item = replace(item, is_written_elsewhere=is_written_elsewhere(session, spec, item.row))
    item.require_not_written_elsewhere()
    return attempt


def _check_names(spec: TaskSpec, page: PageInput) -> None:
    asked_for = {field.name for field in spec.fields if field.role in ("input", "extra", "reason")}
    for name in page.fields:
        if name not in asked_for:
            text = gettext("%(field)s is nothing that this page asks for; load it again", field=FieldName(name[:40]))
            raise input_error(spec, InputProblem(text))


def _with_role(spec: TaskSpec, page: PageInput, role: str) -> dict[str, str]:
    names = [field.name for field in spec.with_role(role)]
    return {name: page.fields[name] for name in names if name in page.fields}


def _lease(session: Session, context: SessionContext, most: int, now: datetime) -> list[tuple[int, str | None]]:
    """Lease contexts for the session, each with the label to write for if the task sets it."""
    spec, round = context.spec, context.open_round
    asked = {} if spec.target.set_by == "annotator" else label_counts(session, round, now=now)
    leased = lease_contexts(session, context.work, round, spec, most, now=now)
    rows = {row.id: row for row in session.scalars(_CONTEXTS, {"ids": leased})}
    return [(one, next_target(spec, pack_context(rows[one]), asked)) for one in leased]


_CONTEXTS = select(Context).where(Context.id.in_(bindparam("ids", expanding=True)))
