"""What a task's work costs, with the crowd's fees."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from crowd.profile import FeeSchedule
from round_manager.policies import first_votes, most_votes
from templates import TaskSpec

FEES = "crowd_fees"


def planning_fees(session: Session) -> FeeSchedule:
    """Return the fees of the crowd that the store was opened for; an estimate if there is none."""
    fees: FeeSchedule = session.info.get(FEES) or FeeSchedule()
    return fees


@dataclass(frozen=True)
class PackCosts:
    """A task's prices in whole cents, rounded up, with fees."""

    create_hit: int
    bonus: int
    validate_hit: int
    example_least: int
    example_most: int
    round_examples: int


def pack_costs(spec: TaskSpec, fees: FeeSchedule | None = None) -> PackCosts:
    """Return the cost of one validated fooling example, and how many of the dearest ones a round's budget pays for."""
    fees = fees or FeeSchedule()
    create = fees.reward(spec.pay.create_cents).total_cents
    bonus = fees.bonus(spec.pay.fooled_bonus_cents).total_cents
    validate = fees.reward(spec.pay.validate_cents).total_cents

    def example(votes: int) -> int:
        return (
            _share(create, spec.work.examples_per_hit) + bonus + _share(validate * votes, spec.work.validations_per_hit)
        )

    most = example(most_votes(spec.validation))
    return PackCosts(
        create_hit=create,
        bonus=bonus,
        validate_hit=validate,
        example_least=example(first_votes(spec.validation)),
        example_most=most,
        round_examples=spec.budget.round_cents // most if most else 0,
    )


def vote_cents(spec: TaskSpec, fees: FeeSchedule) -> int:
    """Return the price of one validation HIT for one worker, with its fee."""
    return _with_fee(spec.pay.validate_cents, fees)


def least_cents(spec: TaskSpec, fees: FeeSchedule) -> int:
    """Return the price of one creation HIT with its bonuses and the first votes on its examples, with fees."""
    bonuses = spec.work.examples_per_hit * fees.bonus(spec.pay.fooled_bonus_cents).total_cents
    # A worker votes once on an example, so each of the first votes is another worker's HIT.
    pages = -(-spec.work.examples_per_hit // spec.work.validations_per_hit)
    votes = first_votes(spec.validation) * pages * vote_cents(spec, fees)
    return _with_fee(spec.pay.create_cents, fees) + bonuses + votes


def _share(cents: int, parts: int) -> int:
    return -(-cents // parts)


def _with_fee(cents: int, fees: FeeSchedule) -> int:
    return fees.reward(cents).total_cents if cents else 0
