"""Use cases about rounds: open, pause, resume, close, and change the budget; `services.tasks` lists and shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from common.errors import Hint
from ml_backend.registry.registry import Registry
from round_manager.errors import NoModelVersion, RoundAlreadyOpen, RoundError
from round_manager.learning.training_data import pending_training
from round_manager.learning.training_jobs import running_job
from round_manager.learning.versions import find_versions
from round_manager.loop import lifecycle
from round_manager.loop.quote import OpeningQuote, opening_quote
from round_manager.loop.waiting import WaitReason, waiting
from round_manager.models import Round, RoundStatus, Task, spec_of
from round_manager.money import budget
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.imports import import_lock, index_texts
from round_manager.services.model_versions import ModelDeployment, register_versions
from round_manager.tasks import rounds
from round_manager.tasks.contexts import count_contexts
from round_manager.tasks.tasks import find_task


@dataclass(frozen=True)
class RoundOpened:
    """An open round, and whether it was open before."""

    task: str
    number: int
    versions: tuple[str, ...]
    already: bool
    paused: bool = False
    in_house: bool = False


@dataclass(frozen=True)
class RoundClosed:
    """A round after a request to close it: closed, or validating with the reasons that it waits for.

    After a round that ended with no examples, no further round opens automatically.
    """

    round: Round
    already: bool
    ended_empty: bool
    waits_for: list[WaitReason]


@dataclass(frozen=True)
class RoundPaused:
    """A round that was paused or resumed; `changed` is False if it already was."""

    round: Round
    changed: bool


@dataclass(frozen=True)
class BudgetSet:
    """A round with a new budget, and what of it is free."""

    round: Round
    free_cents: int


def quote_opening(
    context: ServiceContext, task: str, *, marketplace: str, in_house: bool | None = None
) -> OpeningQuote | None:
    """Return what opening the task's next round leads to; None if a round is live. Raise if it cannot be opened.

    Without `in_house`, the round is in-house if the one before it was. Nothing is changed or sent.
    """
    now = context.now()
    with context.store.dry_run() as session:
        owner = find_task(session, task)
        if rounds.live_round(session, owner.id) is not None:
            return None
        draft = _draft(session, owner, in_house=in_house, now=now)
        contexts = count_contexts(session, owner.id)
        return opening_quote(session, owner, draft, marketplace, contexts=contexts, now=now)


def open_round(
    context: ServiceContext,
    actor: Actor,
    task: str,
    versions: Sequence[str] = (),
    *,
    models: ModelDeployment,
    reason: str = "",
    in_house: bool | None = None,
) -> RoundOpened:
    """Open the task's next round against these versions, else the pinned ones, else the newest.

    Without `in_house`, the round is in-house if the one before it was.

    Versions are registered, pinned for every serving process, and only then is the round opened. Each step can be
    repeated, so a killed process is repaired by calling this again. The database decides: if it says that the round is
    open, its versions are pinned again and nothing else changes.
    """
    # An import would change the number of the round that opens.
    with import_lock(context, task):
        # Texts of imported rounds are not new in this one.
        index_texts(context, task, models.progress)
        return _open_round(context, actor, task, versions, models=models, reason=reason, in_house=in_house)


def _open_round(
    context: ServiceContext,
    actor: Actor,
    task: str,
    versions: Sequence[str],
    *,
    models: ModelDeployment,
    reason: str,
    in_house: bool | None,
) -> RoundOpened:
    round, pinned = _position(context, task, in_house=in_house)
    chosen = tuple(versions) or pinned or _default_versions(models.registry, task, round.number)
    if pinned:
        if chosen != pinned:
            text = f"round {round.number} of {task} is live with {', '.join(pinned)}"
            raise RoundAlreadyOpen(f"{text}; close it before opening the next one", hint=Hint("close_round", task=task))
        if in_house not in (None, round.in_house):
            text = f"round {round.number} of {task} is live {'in-house' if round.in_house else 'for the crowd'}"
            raise RoundAlreadyOpen(f"{text}; close it before opening the next one", hint=Hint("close_round", task=task))
        _pin(models, task, round.number, chosen, actor, reason)
        is_paused = round.paused_at is not None
        return RoundOpened(task, round.number, chosen, already=True, paused=is_paused, in_house=round.in_house)
    register_versions(context, models, task, chosen, spec_of(round))
    _pin(models, task, round.number, chosen, actor, reason)
    try:
        with context.store.write() as session:
            owner = find_task(session, task)
            registered = find_versions(session, owner, chosen)
            opened = rounds.open_round(
                session, owner, registered, now=context.now(), actor=actor.name, reason=reason, in_house=in_house
            )
            return RoundOpened(task, opened.number, chosen, already=False, in_house=opened.in_house)
    except RoundError:
        # Another process opened the round against other versions in the meantime: those must be served.
        round, pinned = _position(context, task)
        if pinned:
            _pin(models, task, round.number, pinned, actor, "the round was opened against these")
        raise


def close_round(
    context: ServiceContext,
    actor: Actor,
    task: str,
    *,
    number: int | None = None,
    reason: str = "",
    force: bool = False,
) -> RoundClosed:
    """End writing in a round, and close it if no more work can arrive.

    `force` closes it at once without waiting for votes, decisions on flags or Label Studio, or raises RoundNotReady
    and changes nothing.
    """
    now = context.now()
    with context.store.write() as session:
        chosen = rounds.choose_round(session, find_task(session, task), number)
        before = chosen.status
        chosen = lifecycle.begin_validating(session, chosen, actor=actor.name, reason=reason, now=now)
        left = waiting(session, chosen, now=now)
        if force or not left:
            chosen = lifecycle.close_round(session, chosen, actor=actor.name, reason=reason, now=now, force=force)
            left = waiting(session, chosen, now=now)
        is_empty = chosen.status is RoundStatus.CLOSED and lifecycle.ended_empty(session, chosen)
    return RoundClosed(chosen, before is RoundStatus.CLOSED, is_empty, left)


def pause_round(context: ServiceContext, actor: Actor, task: str, *, reason: str = "") -> RoundPaused:
    """Hand out and post nothing new in the task's live round until it is resumed."""
    return _set_paused(context, actor, task, reason, paused=True)


def resume_round(context: ServiceContext, actor: Actor, task: str, *, reason: str = "") -> RoundPaused:
    """End the pause of the task's live round."""
    return _set_paused(context, actor, task, reason, paused=False)


def set_round_budget(
    context: ServiceContext, actor: Actor, task: str, cents: int, *, number: int | None = None, reason: str = ""
) -> BudgetSet:
    """Change the budget of a round, fees included; by default of the live round, else of the draft."""
    with context.store.write() as session:
        owner = find_task(session, task)
        chosen = rounds.choose_round(session, owner, number)
        left = budget.set_round_budget(
            session, owner, chosen, cents, actor=actor.name, reason=reason, now=context.now()
        )
    return BudgetSet(chosen, left.released_cents)


def live_round(context: ServiceContext, task: str) -> Round | None:
    """Return the task's open or validating round, if there is one."""
    with context.store.read() as session:
        return rounds.live_round(session, find_task(session, task).id)


def due_move(context: ServiceContext, task: str) -> lifecycle.Due | None:
    """Return the move that the task's live round should make now, if there is one."""
    with context.store.read() as session:
        live = rounds.live_round(session, find_task(session, task).id)
        return lifecycle.due(session, live, now=context.now()) if live else None


def advance_round(context: ServiceContext, actor: Actor, task: str) -> lifecycle.Due | None:
    """Make the move that is due in the task's live round; return None if there is none."""
    # Most rounds have no due move, and a read transaction blocks no other.
    if due_move(context, task) is None:
        return None
    with context.store.write() as session:
        live = rounds.live_round(session, find_task(session, task).id)
        return lifecycle.take_due(session, live, actor=actor.name, now=context.now()) if live else None


def finished_round(context: ServiceContext, task: str) -> int | None:
    """Return the number of the last round if it is frozen and learned from, so that the next one can open."""
    with context.store.read() as session:
        owner = find_task(session, task)
        opened = [one for one in rounds.list_rounds(session, owner) if one.status is not RoundStatus.DRAFT]
        # After an import, the owner opens the next round.
        if not opened or opened[-1].frozen_at is None or opened[-1].is_imported:
            return None
        is_learned = pending_training(session, owner) is None and running_job(session, owner) is None
        return opened[-1].number if is_learned else None


def empty_round(context: ServiceContext, task: str, number: int) -> WaitReason | None:
    """Return why no round follows this one automatically: it ended with no examples; None if one may follow."""
    with context.store.read() as session:
        round = rounds.find_round(session, find_task(session, task), number)
        return lifecycle.empty_round_reason(round, task) if lifecycle.ended_empty(session, round) else None


def check_next_round(context: ServiceContext, task: str) -> None:
    """Raise RoundError or BudgetError if the task's next round could not be opened now; change nothing."""
    with context.store.dry_run() as session:
        owner = find_task(session, task)
        rounds.check_can_open(session, owner, rounds.draft_round(session, owner, now=context.now()))


def _set_paused(context: ServiceContext, actor: Actor, task: str, reason: str, *, paused: bool) -> RoundPaused:
    change = lifecycle.pause if paused else lifecycle.resume
    with context.store.write() as session:
        chosen = rounds.choose_round(session, find_task(session, task))
        before = chosen.paused_at
        after = change(session, chosen, actor=actor.name, reason=reason, now=context.now())
    return RoundPaused(after, changed=before != after.paused_at)


def _position(context: ServiceContext, task: str, *, in_house: bool | None = None) -> tuple[Round, tuple[str, ...]]:
    """Return the live round and its pinned versions, or the draft that can be opened and no versions."""
    with context.store.write() as session:
        owner = find_task(session, task)
        live = rounds.live_round(session, owner.id)
        if live is not None:
            return live, rounds.pinned_versions(session, live)
        # Checked before anything is pinned: a round that cannot be opened must not change what is served.
        return _draft(session, owner, in_house=in_house, now=context.now()), ()


def _draft(session: Session, task: Task, *, in_house: bool | None, now: datetime) -> Round:
    """Return the task's draft, in-house or not, if it can be opened."""
    draft = rounds.draft_round(session, task, now=now)
    if in_house is not None:
        draft.in_house = in_house
        session.flush()
    rounds.check_can_open(session, task, draft)
    return draft


def _default_versions(registry: Registry, task: str, number: int) -> tuple[str, ...]:
    pins = registry.pins(task, number)
    if pins is not None:
        return pins.versions
    known = registry.versions(task)
    if not known:
        raise NoModelVersion(f"{task} has no model to play against", hint=Hint("train_model", task=task))
    return (known[0],)


def _pin(models: ModelDeployment, task: str, number: int, versions: Sequence[str], actor: Actor, reason: str) -> None:
    pins = models.registry.pin_set(task)
    # A backend starts once the task itself has pins: those of the first round, until they are rotated.
    for round in (None, number) if pins.own(None) is None else (number,):
        pinned = pins.own(round)
        if pinned is None or pinned.versions != tuple(versions):
            models.rotate(actor, task, versions, round=round, reason=reason or f"round {number} opens")
