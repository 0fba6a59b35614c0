"""What a task costs on a marketplace, fees included, before anybody is paid."""

from dataclasses import dataclass

from mturk.fees import bonus_fee, reward_fee
from round_manager.policies import first_votes, most_votes
from templates import TaskSpec


@dataclass(frozen=True)
class Costs:
    """Whole cents, rounded up, fees included."""

    create_hit: int
    bonus: int
    validate_hit: int
    example_least: int
    example_most: int
    round_examples: int


def costs_of(spec: TaskSpec) -> Costs:
    """The cost of one validated fooling example, and how many of the dearest kind a round's budget pays for."""
    create = spec.pay.create_cents + reward_fee(spec.pay.create_cents)
    bonus = spec.pay.fooled_bonus_cents + bonus_fee(spec.pay.fooled_bonus_cents)
    validate = spec.pay.validate_cents + reward_fee(spec.pay.validate_cents)

    def example(votes: int) -> int:
        checking = _share(validate * votes, spec.work.validations_per_hit)
        return _share(create, spec.work.examples_per_hit) + bonus + checking

    most = example(most_votes(spec.validation))
    return Costs(
        create_hit=create,
        bonus=bonus,
        validate_hit=validate,
        example_least=example(first_votes(spec.validation)),
        example_most=most,
        round_examples=spec.budget.round_cents // most if most else 0,
    )


def _share(cents: int, parts: int) -> int:
    return -(-cents // parts)
