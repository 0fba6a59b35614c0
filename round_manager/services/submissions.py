"""Models that researchers submit: received and checked, listed, cancelled and removed; what an owner allows.

Nothing is taken unless the task's owner has allowed it. What is taken waits in a queue; see submission_runs.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import count
from ml_backend.hashing import json_sha256
from round_manager.audit import note
from round_manager.errors import (
    DuplicateError,
    EndpointNotAllowed,
    SubmissionDuplicate,
    SubmissionInvalid,
    SubmissionNameTaken,
    SubmissionNotFound,
    SubmissionQuotaExceeded,
    SubmissionsClosed,
    SubmissionStateError,
)
from round_manager.evaluation.storage import open_evaluations
from round_manager.evaluation.submitted_files import (
    KINDS,
    MODEL,
    MODEL_HINT,
    Read,
    Received,
    SubmittedFiles,
    name_predictions,
    too_large,
    unpack_model,
)
from round_manager.models import DataToken, ModelSubmission, SubmissionState, SubmissionTerms, Task, spec_of
from round_manager.services.context import Actor, Role, ServiceContext
from round_manager.services.data_access import ListedToken
from round_manager.tasks.tasks import find_task

KEY_BYTES = 6
MEGABYTE = 1_000_000
DAY = timedelta(days=1)
NAME = re.compile(r"[A-Za-z0-9][\w .()+-]{0,58}[\w)]|[A-Za-z0-9]", re.ASCII)
KEY = re.compile(r"[0-9a-f]{12}")
MOST_LABELS, MOST_LABEL_CHARS, MOST_DATA = 100, 100, 50
WAITING = (SubmissionState.QUEUED, SubmissionState.RUNNING)
CLOSED = "takes no submissions; ask its owner to allow them"


@dataclass(frozen=True)
class Limits:
    """What each data token may submit, and what each model may use while it is evaluated.

    `axes` are those on which models are measured, separated by commas; None for the default ones.
    """

    per_day: int = 5
    queued: int = 2
    file_bytes: int = 2_000 * MEGABYTE
    total_bytes: int = 5_000 * MEGABYTE
    memory_mb: int = 4_096
    seconds: int = 3_600
    axes: str | None = None


@dataclass(frozen=True)
class SubmissionOrder:
    """What a researcher says about a submission.

    `form` is zip, csv or parquet. `labels` says what the labels of the model mean. `data` are the data sets of
    predictions; a model is evaluated on all data sets. Only with `is_named` do others see the name.
    """

    form: str
    name: str
    is_named: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class Submitted:
    """A submission with the name of its task and the public part of its token; `position` is its place in the queue."""

    row: ModelSubmission
    task: str
    token: str
    position: int = 0
    is_new: bool = False

    @property
    def shown_name(self) -> str:
        """The name that others see."""
        return self.row.name if self.row.is_named else f"anonymous-{self.row.key}"

    def as_data(self) -> dict[str, Any]:
        """Return what its researcher may know."""
        row = self.row
        failure = {"code": row.code, "error": row.message, "retry": False, "hint": MODEL_HINT.as_data()}
        return {
            "id": row.key,
            "task": self.task,
            "name": row.name,
            "visibility": "named" if row.is_named else "anonymous",
            "kind": row.kind,
            "state": row.state.value,
            "position": self.position or None,
            "progress": {"done": row.steps, "total": row.total} if row.state is SubmissionState.RUNNING else None,
            "size": row.size,
            "created_at": row.created_at.isoformat(),
            "finished_at": row.finished_at.isoformat() if row.finished_at else None,
            "failure": failure if row.code else None,
            "results": (row.results or {}).get("rows", []),
        }


def allow_submissions(
    context: ServiceContext, actor: Actor, task: str, limits: Limits, *, reason: str = ""
) -> SubmissionTerms:
    """Take submissions of models for a task, within these limits; safe to repeat."""
    now = context.now()
    with context.store.write() as session:
        owner = find_task(session, task)
        terms = _terms(session, owner)
        if terms is None:
            terms = SubmissionTerms(task_id=owner.id, changed_at=now, **asdict(limits))
            session.add(terms)
        for name, value in asdict(limits).items():
            setattr(terms, name, value)
        terms.is_open, terms.changed_at = True, now
        session.flush()
        note(session, "allowed", terms, actor=actor.name, reason=reason, now=now, of=owner, after=asdict(limits))
    return terms


def refuse_submissions(context: ServiceContext, actor: Actor, task: str, *, reason: str = "") -> None:
    """Take no further submissions; those that wait are still evaluated. Safe to repeat."""
    now = context.now()
    with context.store.write() as session:
        owner = find_task(session, task)
        terms = _terms(session, owner)
        if terms is not None and terms.is_open:
            terms.is_open, terms.changed_at = False, now
            note(session, "refused", terms, actor=actor.name, reason=reason, now=now, of=owner)


def submission_terms(context: ServiceContext, task: str) -> SubmissionTerms | None:
    """Return what the task's owner allows; None if it takes no submissions."""
    with context.store.read() as session:
        terms = _terms(session, find_task(session, task))
        return terms if terms is not None and terms.is_open else None


def submit(
    context: ServiceContext,
    files: SubmittedFiles,
    token: ListedToken,
    order: SubmissionOrder,
    read: Read,
    length: int | None = None,
) -> Submitted:
    """Receive a model or its predictions, check the files and put it into the queue.

    The same content with the same options is the same submission, and returned as it stands. `length` is what the
    client says before it sends anything.
    """
    _check_order(order)
    with context.store.read() as session:
        terms = _open_terms(session, token)
        _check_quota(session, terms, token.row, length or 0, context.now())
        spec = spec_of(find_task(session, token.task))
    if length is not None and length > terms.file_bytes:
        raise too_large(terms.file_bytes)
    with files.receive(token.task, order.form, read, terms.file_bytes) as received:
        options = {"labels": dict(order.labels), "data": list(order.data)}
        sha256 = json_sha256({"content": received.sha256, **options})
        known = _known(context, token, sha256)
        if known is not None:
            return known
        if KINDS[order.form] == MODEL:
            received = unpack_model(received, spec, order.labels, terms.file_bytes, keep_card=order.is_named)
        else:
            received = name_predictions(received, order.form)
        return _store(context, files, token, order, received, sha256)


@dataclass(frozen=True)
class SubmissionOverview:
    """What a task's owner allows, None if nothing, and what a token has submitted, newest first."""

    terms: SubmissionTerms | None
    mine: tuple[Submitted, ...]

    @property
    def version(self) -> str:
        """A text that changes with everything that is shown."""
        rows = [(one.row.key, one.row.state, one.row.steps, one.row.total, one.position) for one in self.mine]
        return repr((self.terms and self.terms.changed_at, rows))


def submission_overview(context: ServiceContext, task: str, token: str) -> SubmissionOverview:
    """Return what the token of this key, empty for none, may submit to a task and has submitted."""
    with context.store.read() as session:
        owner = find_task(session, task)
        terms = _terms(session, owner)
        mine = _found(session, owner, DataToken.key == token) if token else []
        return SubmissionOverview(terms if terms is not None and terms.is_open else None, tuple(mine))


def list_submissions(context: ServiceContext, task: str, token: ListedToken | None = None) -> list[Submitted]:
    """Return the submissions of a task, or those of one token, newest first."""
    with context.store.read() as session:
        owner = find_task(session, task)
        where = ModelSubmission.token_id == token.row.id if token else ModelSubmission.task_id == owner.id
        return _found(session, owner, where)


def show_submission(context: ServiceContext, task: str, key: str, token: ListedToken | None = None) -> Submitted:
    """Return a submission; raise SubmissionNotFound if the task or the token has none of that id."""
    with context.store.read() as session:
        owner = find_task(session, task)
        found = _found(session, owner, ModelSubmission.key == key) if KEY.fullmatch(key) else []
    if not found or (token is not None and found[0].row.token_id != token.row.id):
        raise SubmissionNotFound(f"there is no submission {key[:40]}", hint=Hint("list_submissions", task=task))
    return found[0]


def cancel_submission(
    context: ServiceContext, actor: Actor, task: str, key: str, token: ListedToken | None = None, *, reason: str = ""
) -> Submitted:
    """Cancel a submission: one that waits at once, one that is evaluated as soon as its process sees it."""
    now = context.now()
    with _changing(context, task, key, token) as (session, row):
        if row.state not in WAITING:
            raise SubmissionStateError(f"the submission has {row.state.value}; it cannot be cancelled")
        if row.cancel_at is None:
            row.cancel_at = now
            if row.state is SubmissionState.QUEUED:
                row.state, row.finished_at = SubmissionState.CANCELLED, now
            note(session, "cancelled", row, actor=actor.name, reason=reason, now=now, of=row)
    return show_submission(context, task, key)


def remove_submission(
    context: ServiceContext,
    actor: Actor,
    files: SubmittedFiles,
    place: str,
    task: str,
    key: str,
    token: ListedToken | None = None,
    *,
    reason: str = "",
) -> Submitted:
    """Remove a submission that has ended: its files, and its results next to the archives at `place`."""
    now = context.now()
    found = show_submission(context, task, key, token)
    if found.row.state in WAITING:
        raise SubmissionStateError("the submission has not ended; cancel it first")
    # Before the row, so that nothing is left if this process is killed.
    if found.row.model_id:
        open_evaluations(place, task).remove_model(found.row.model_id)
    files.remove(task, key)
    with _changing(context, task, key, token) as (session, row):
        row.removed_at, row.results = now, None
        note(session, "removed", row, actor=actor.name, reason=reason, now=now, of=row)
    return Submitted(row, task, found.token)


def requeue_submission(context: ServiceContext, actor: Actor, task: str, key: str, *, reason: str = "") -> Submitted:
    """Put a submission that has ended into the queue again, for example after another round was frozen."""
    now = context.now()
    with _changing(context, task, key, None) as (session, row):
        if row.state not in WAITING:
            row.state, row.starts, row.finished_at, row.cancel_at = SubmissionState.QUEUED, 0, None, None
            row.code = row.message = None
            note(session, "requeued", row, actor=actor.name, reason=reason, now=now, of=row)
    return show_submission(context, task, key)


def researcher(token: ListedToken) -> Actor:
    """Return the actor that a token stands for."""
    return Actor(f"data token {token.row.key}", Role.RESEARCHER)


def _check_order(order: SubmissionOrder) -> None:
    if order.form not in KINDS:
        raise SubmissionInvalid(f"send one of {', '.join(KINDS)}", hint=MODEL_HINT)
    if not NAME.fullmatch(order.name):
        text = "at most 60 letters, digits, spaces and .()+-_, with a letter or digit first"
        raise SubmissionInvalid(f"give the model a name: {text}", hint=MODEL_HINT)
    texts = [*order.labels, *order.labels.values(), *order.data]
    if (
        len(order.labels) > MOST_LABELS
        or len(order.data) > MOST_DATA
        or any(not one.strip() or len(one) > MOST_LABEL_CHARS or not one.isprintable() for one in texts)
    ):
        raise SubmissionInvalid("the labels or the data sets are not valid; write THEIRS=OURS,…", hint=MODEL_HINT)
    if order.labels and KINDS[order.form] != MODEL:
        raise SubmissionInvalid("a mapping of labels is for models; predictions use the task's labels", hint=MODEL_HINT)
    if order.data and KINDS[order.form] == MODEL:
        raise SubmissionInvalid("data sets are for predictions; a model is evaluated on all of them", hint=MODEL_HINT)


def refuse_endpoint() -> EndpointNotAllowed:
    """Return the error of a submission that names an address instead of sending files."""
    text = "an address cannot be submitted, because this server calls none; send the model's files or its predictions"
    return EndpointNotAllowed(text, hint=MODEL_HINT)


def _terms(session: Session, task: Task) -> SubmissionTerms | None:
    return session.scalar(select(SubmissionTerms).where(SubmissionTerms.task_id == task.id))


def _open_terms(session: Session, token: ListedToken) -> SubmissionTerms:
    terms = session.scalar(select(SubmissionTerms).where(SubmissionTerms.task_id == token.row.task_id))
    if terms is None or not terms.is_open:
        raise SubmissionsClosed(f"{token.task} {CLOSED}")
    return terms


def _check_quota(session: Session, terms: SubmissionTerms, token: DataToken, more: int, now: datetime) -> None:
    """Raise SubmissionQuotaExceeded if the token has as many submissions, or bytes, as it may have."""
    mine = ModelSubmission.token_id == token.id
    today = select(func.count()).where(mine, ModelSubmission.created_at > now - DAY)
    waiting = select(func.count()).where(mine, ModelSubmission.state.in_(WAITING))
    kept = select(func.coalesce(func.sum(ModelSubmission.size), 0)).where(mine, ModelSubmission.removed_at.is_(None))
    if (session.scalar(today) or 0) >= terms.per_day:
        text = f"this token may submit {count(terms.per_day, 'model')} in 24 hours; try again later"
        raise SubmissionQuotaExceeded(text)
    if (session.scalar(waiting) or 0) >= terms.queued:
        raise SubmissionQuotaExceeded(f"this token may have {count(terms.queued, 'model')} in the queue; wait for them")
    if (session.scalar(kept) or 0) + more > terms.total_bytes:
        text = f"this token may keep {terms.total_bytes:,} bytes; remove submissions that you no longer need"
        raise SubmissionQuotaExceeded(text)


def _known(context: ServiceContext, token: ListedToken, sha256: str) -> Submitted | None:
    """Return the token's submission of the same content; raise SubmissionDuplicate if it is another token's."""
    with context.store.read() as session:
        owner = find_task(session, token.task)
        found = _found(session, owner, ModelSubmission.sha256 == sha256)
    if found and found[0].row.token_id != token.row.id:
        raise SubmissionDuplicate("the same model was submitted with another token; its results are there already")
    return found[0] if found else None


def _store(
    context: ServiceContext,
    files: SubmittedFiles,
    token: ListedToken,
    order: SubmissionOrder,
    received: Received,
    sha256: str,
) -> Submitted:
    now, key = context.now(), secrets.token_hex(KEY_BYTES)
    row = ModelSubmission(
        key=key,
        task_id=token.row.task_id,
        token_id=token.row.id,
        name=order.name,
        is_named=order.is_named,
        kind=KINDS[order.form],
        options={"labels": dict(order.labels), "data": list(order.data)},
        sha256=sha256,
        size=received.size,
        created_at=now,
    )
    try:
        with context.store.write() as session:
            # Locked, so that uploads at the same time do not share what is left of the limits.
            session.scalar(select(DataToken).where(DataToken.id == token.row.id).with_for_update())
            _check_quota(session, _open_terms(session, token), token.row, received.size, now)
            session.add(row)
            session.flush()
            after = {"name": order.name, "kind": row.kind, "sha256": sha256, "size": received.size}
            note(session, "submitted", row, actor=researcher(token).name, reason="", now=now, of=row, after=after)
            files.keep(received, token.task, key)
    except DuplicateError as error:
        known = _known(context, token, sha256)
        if known is not None:
            return known
        raise SubmissionNameTaken(f"another submission has the name {order.name}; choose another one") from error
    except BaseException:
        files.remove(token.task, key)
        raise
    found = show_submission(context, token.task, key)
    return Submitted(found.row, found.task, found.token, found.position, is_new=True)


def _found(session: Session, task: Task, where: ColumnElement[bool]) -> list[Submitted]:
    queue = select(ModelSubmission.id).where(
        ModelSubmission.task_id == task.id, ModelSubmission.state == SubmissionState.QUEUED
    )
    places = {number: place for place, number in enumerate(session.scalars(queue.order_by(ModelSubmission.id)), 1)}
    wanted = (
        select(ModelSubmission, DataToken.key)
        .join(DataToken, DataToken.id == ModelSubmission.token_id)
        .where(ModelSubmission.task_id == task.id, ModelSubmission.removed_at.is_(None), where)
        .order_by(ModelSubmission.id.desc())
    )
    return [Submitted(row, task.name, key, places.get(row.id, 0)) for row, key in session.execute(wanted)]


@contextmanager
def _changing(
    context: ServiceContext, task: str, key: str, token: ListedToken | None
) -> Iterator[tuple[Session, ModelSubmission]]:
    """Open a transaction with a locked submission."""
    found = show_submission(context, task, key, token)
    with context.store.write() as session:
        locked = select(ModelSubmission).where(ModelSubmission.id == found.row.id).with_for_update()
        yield session, session.scalars(locked).one()
