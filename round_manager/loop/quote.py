"""Quotes: what HITs would cost at most, and whether the account covers them, before anything is reserved or posted."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from common.errors import Hint
from common.text import dollars
from crowd.errors import InsufficientFunds
from crowd.port import Crowd
from crowd.profile import FeeSchedule
from round_manager.crowd.hit_planning import HitCost, HitRequest, check_request, cost_of, order_terms
from round_manager.errors import HitsNotAllowed, RoundNotOpen
from round_manager.loop.supply import MOST_BATCHES, Supply, pages_to_validate, plan_supply
from round_manager.loop.supply_facts import SupplyFacts, find_facts, lacking_votes, places_out
from round_manager.models import HitKind, Round, RoundStatus, Task, spec_of
from round_manager.money.bonuses import most_bonuses
from round_manager.money.budget import BudgetFigures, figures, free_cents
from round_manager.money.prices import planning_fees
from round_manager.tasks.rounds import live_round
from templates import TaskSpec

# More examples than any round has.
ALL = 1_000_000


@dataclass(frozen=True)
class VotesWanted:
    """Votes that are missing, places that are posted for them, and how many more places are needed."""

    votes: int
    places_out: int
    places_needed: int


@dataclass(frozen=True)
class Quote:
    """A request with its price; `at_once_cents` is what the marketplace sets aside when the HITs are posted.

    `votes_wanted` is set for validation HITs.
    """

    task: str
    round: int
    request: HitRequest
    reward_cents: int
    possible_bonus_cents: int
    cost: HitCost
    at_once_cents: int
    account_cents: int
    task_figures: BudgetFigures
    round_figures: BudgetFigures
    needs_qualification: bool
    quiz_attempts: int
    # Whether the number of assignments raises the fee on rewards.
    fees_double: bool
    votes_wanted: VotesWanted | None = None

    @property
    def places_too_many(self) -> int:
        """Places in which workers would find nothing to validate."""
        if self.votes_wanted is None:
            return 0
        return max(0, self.request.hits * self.request.assignments - self.votes_wanted.places_needed)

    def check_account(self) -> None:
        """Raise InsufficientFunds if the account does not cover the HITs when they are posted."""
        if self.at_once_cents > self.account_cents:
            needs = f"posting needs {dollars(self.at_once_cents)} at once"
            raise InsufficientFunds(f"the account has {dollars(self.account_cents)}, and {needs}; add funds")


@dataclass(frozen=True)
class OpeningQuote:
    """What opening a draft leads to: the HITs of the first posting, what is reserved for them, and the most of all.

    More HITs follow until the target is reached or `most_cents` are bound. An in-house round costs nothing.
    """

    task: str
    round: int
    in_house: bool
    target_fooling: int
    days: int
    contexts: int
    first: Supply
    reserved_cents: int
    most_cents: int

    @property
    def spends(self) -> bool:
        """Whether anything can be posted on a crowd."""
        return bool(self.first)


def opening_quote(
    session: Session, task: Task, draft: Round, marketplace: str, *, contexts: int, now: datetime
) -> OpeningQuote:
    """Return what opening the draft would lead to; the crowd itself is not asked."""
    spec, first, reserved = spec_of(draft), Supply(), 0
    if not draft.in_house:
        facts = replace(find_facts(session, draft, spec, marketplace, now=now), status=RoundStatus.OPEN)
        first, reserved = _first_supply(spec, facts, planning_fees(session))
    return OpeningQuote(
        task=task.name,
        round=draft.number,
        in_house=draft.in_house,
        target_fooling=draft.target_fooling,
        days=spec.rounds.days,
        contexts=contexts,
        first=first,
        reserved_cents=reserved,
        most_cents=free_cents(session, draft) if first else 0,
    )


def _first_supply(spec: TaskSpec, facts: SupplyFacts, fees: FeeSchedule) -> tuple[Supply, int]:
    """Return what the supply step plans before any work arrives, and what it reserves for it."""
    reward, bonus = fees.reward(spec.pay.create_cents), fees.bonus(spec.pay.fooled_bonus_cents)
    each = reward.total_cents + most_bonuses(spec, HitKind.CREATE) * bonus.total_cents
    supply, reserved = Supply(), 0
    for _ in range(MOST_BATCHES):
        more = plan_supply(spec, facts, fees)
        if not more:
            break
        cents = more.create * each
        cents += more.quiz_places * fees.reward(spec.pay.quiz_cents, more.quiz_places).total_cents
        supply, reserved = supply + more, reserved + cents
        out = {HitKind.CREATE: supply.create, HitKind.QUIZ: supply.quiz_places}
        facts = replace(facts, out=out, free_cents=facts.free_cents - cents)
    return supply, reserved


def request_for(
    round: Round, kind: HitKind, hits: int, assignments: int, hours: int | None, *, now: datetime
) -> HitRequest:
    """Return the request, for a number of hours or until the round closes."""
    if hours is not None:
        return HitRequest(kind, hits, assignments, now + timedelta(hours=hours))
    if round.closes_at is None or round.closes_at <= now:
        raise HitsNotAllowed(f"the time of round {round.number} is over; say for how many hours the HITs are posted")
    return HitRequest(kind, hits, assignments, round.closes_at)


def open_round_of(session: Session, task: Task) -> Round:
    """Return the task's live round, or raise RoundNotOpen."""
    found = live_round(session, task.id)
    if found is None:
        raise RoundNotOpen(f"{task.name} has no open round", hint=Hint("open_round", task=task.name))
    return found


def quote(
    session: Session, task: Task, round: Round, request: HitRequest, crowd: Crowd, account_cents: int, *, now: datetime
) -> Quote:
    """Return what a request costs, if the round takes it; nothing is changed."""
    check_request(session, round, request, now=now)
    spec = spec_of(round)
    terms = order_terms(session, round, request.kind, crowd)
    return Quote(
        task=task.name,
        round=round.number,
        request=request,
        reward_cents=terms.reward_cents,
        possible_bonus_cents=most_bonuses(spec, request.kind) * spec.pay.fooled_bonus_cents,
        cost=cost_of(session, round, request, crowd),
        at_once_cents=crowd.price(terms, request.assignments).total_cents * request.assignments * request.hits,
        account_cents=account_cents,
        task_figures=figures(session, task),
        round_figures=figures(session, round),
        needs_qualification=spec.quiz is not None,
        quiz_attempts=spec.quiz.max_attempts if spec.quiz else 0,
        fees_double=crowd.profile.fees.rises_for(request.assignments),
        votes_wanted=_votes_wanted(session, round, spec, crowd.name) if request.kind is HitKind.VALIDATE else None,
    )


def _votes_wanted(session: Session, round: Round, spec: TaskSpec, marketplace: str) -> VotesWanted:
    lacking = lacking_votes(session, round, ALL)
    out = places_out(session, round, marketplace).get(HitKind.VALIDATE, 0)
    return VotesWanted(sum(lacking), out, pages_to_validate(spec, lacking, out))
