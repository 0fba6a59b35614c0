"""The quote: what HITs would cost at most, and what there is to pay for them, before anything is reserved or posted."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from common.money import dollars
from crowd.errors import InsufficientFunds
from crowd.port import Crowd
from round_manager.crowd.hit_planning import HitCost, HitRequest, check_wish, cost_of, order_terms
from round_manager.errors import CrowdWorkError
from round_manager.loop.supply import pages_to_validate
from round_manager.loop.supply_facts import lacking_votes, places_out
from round_manager.models import HitKind, Round, Task
from round_manager.money.budget import BudgetFigures, figures
from round_manager.money.hit_terms import shape_of
from round_manager.specs import spec_of
from round_manager.tasks.rounds import live_round
from templates import TaskSpec

# More examples than a round has at once.
ALL = 1_000_000


@dataclass(frozen=True)
class VotesWanted:
    """What there is to validate: votes that are lacking, places that stand for them, and how many more are needed."""

    votes: int
    places_out: int
    places_needed: int


@dataclass(frozen=True)
class Quote:
    """One wish with its price; `at_once_cents` is what the marketplace sets aside when the HITs are posted.

    `votes_wanted` is filled where the HITs are to validate.
    """

    task: str
    round: int
    wish: HitRequest
    reward_cents: int
    possible_bonus_cents: int
    cost: HitCost
    at_once_cents: int
    account_cents: int
    task_figures: BudgetFigures
    round_figures: BudgetFigures
    needs_qualification: bool
    quiz_attempts: int
    # Whether a HIT has so many assignments that the fee on its rewards is higher.
    fees_double: bool
    votes_wanted: VotesWanted | None = None

    @property
    def places_too_many(self) -> int:
        """Places in which workers would find nothing to validate."""
        if self.votes_wanted is None:
            return 0
        return max(0, self.wish.hits * self.wish.assignments - self.votes_wanted.places_needed)

    def check_account(self) -> None:
        """Refuses what the account does not cover when it is posted."""
        if self.at_once_cents > self.account_cents:
            there = f"the account has {dollars(self.account_cents)}"
            raise InsufficientFunds(f"{there} and posting needs {dollars(self.at_once_cents)} there at once; add to it")


def wish_for(
    round: Round, kind: HitKind, hits: int, assignments: int, hours: int | None, *, now: datetime
) -> HitRequest:
    """The wish, for so many hours, or until the round closes."""
    if hours is not None:
        return HitRequest(kind, hits, assignments, now + timedelta(hours=hours))
    if round.closes_at is None or round.closes_at <= now:
        raise CrowdWorkError(f"the time of round {round.number} is over; say with --hours how long the HITs stand")
    return HitRequest(kind, hits, assignments, round.closes_at)


def open_round_of(session: Session, task: Task) -> Round:
    """The task's round that HITs are posted for, or an error that tells how to get one."""
    found = live_round(session, task.id)
    if found is None:
        raise CrowdWorkError(f"{task.name} has no open round; `outfox round open {task.name}` opens one")
    return found


def quote(
    session: Session, task: Task, round: Round, wish: HitRequest, crowd: Crowd, account_cents: int, *, now: datetime
) -> Quote:
    """What the wish costs, where the round takes it; nothing is changed."""
    check_wish(session, round, wish, now=now)
    spec = spec_of(round)
    terms = order_terms(session, round, wish.kind, crowd)
    shape = shape_of(spec, wish.kind)
    return Quote(
        task=task.name,
        round=round.number,
        wish=wish,
        reward_cents=shape.reward_cents,
        possible_bonus_cents=shape.bonuses * spec.pay.fooled_bonus_cents,
        cost=cost_of(session, round, wish, crowd),
        at_once_cents=crowd.price(terms, wish.assignments).total_cents * wish.assignments * wish.hits,
        account_cents=account_cents,
        task_figures=figures(session, task),
        round_figures=figures(session, round),
        needs_qualification=spec.quiz is not None,
        quiz_attempts=spec.quiz.max_attempts if spec.quiz else 0,
        fees_double=crowd.profile.fees.rises_for(wish.assignments),
        votes_wanted=_votes_wanted(session, round, spec, crowd.name) if wish.kind is HitKind.VALIDATE else None,
    )


def _votes_wanted(session: Session, round: Round, spec: TaskSpec, marketplace: str) -> VotesWanted:
    lacking = lacking_votes(session, round, ALL)
    out = places_out(session, round, marketplace).get(HitKind.VALIDATE, 0)
    return VotesWanted(sum(lacking), out, pages_to_validate(spec, lacking, out))
