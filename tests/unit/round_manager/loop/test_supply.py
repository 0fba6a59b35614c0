"""How many HITs a round needs: enough for its target, never more than its money."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowd.profile import FeeSchedule
from round_manager.loop import supply as planning
from round_manager.loop.supply import MOST_AT_ONCE, Supply
from round_manager.loop.supply_facts import SupplyFacts
from round_manager.models import HitKind, RoundStatus
from round_manager.money.prices import least_cents, vote_cents
from templates import TaskSpec, find_pack

FEES = FeeSchedule()
RICH = 10_000_000
OPEN, VALIDATING = RoundStatus.OPEN, RoundStatus.VALIDATING
PACK = find_pack("sentiment").spec


def spec(**terms: dict[str, object]) -> TaskSpec:
    """The sentiment task with pages of four votes, and other terms where a test says so."""
    terms = {"validation": {"gold_rate": 0.0}, "work": {"validations_per_hit": 4}, **terms}
    parts = {name: getattr(PACK, name).model_copy(update=values) for name, values in terms.items()}
    return PACK.model_copy(update={"quiz": None, **parts})


def facts(**changes: object) -> SupplyFacts:
    return SupplyFacts(**{"status": OPEN, "target": 20, "free_cents": RICH, **changes})  # type: ignore[arg-type]


def plan_supply(spec: TaskSpec, known: SupplyFacts) -> Supply:
    return planning.plan_supply(spec, known, FEES)


def test_a_new_round_gets_as_many_hits_as_its_target_if_every_example_counts() -> None:
    assert plan_supply(spec(), facts()) == Supply(create=20)


def test_hits_on_the_marketplace_are_not_posted_again() -> None:
    assert plan_supply(spec(), facts(out={HitKind.CREATE: 20})) == Supply()


def test_a_low_fooling_rate_posts_more_hits_than_examples_are_missing() -> None:
    known = facts(examples=100, fooled=25, verified_fooling=10, disputed_fooling=10, pending_fooling=5)
    needed = plan_supply(spec(), known).create
    # Five are missing if all pending ones are verified; a quarter of all examples fool, and half of those are verified.
    assert 5 < needed < 10 / (0.25 * 0.5)


def test_the_last_example_is_not_requested_twice() -> None:
    nearly = facts(target=1, examples=1, fooled=1, disputed_fooling=1)
    assert plan_supply(spec(), nearly).create == 1
    assert plan_supply(spec(), facts(target=1, examples=1, fooled=1, pending_fooling=1)).create == 0


def test_no_hits_are_posted_while_pending_examples_may_reach_the_target() -> None:
    assert plan_supply(spec(), facts(examples=20, fooled=20, pending_fooling=20, lacking=[])) == Supply()


def test_several_examples_per_hit_need_fewer_hits() -> None:
    several = spec(work={"examples_per_hit": 5, "validations_per_hit": 4})
    assert plan_supply(several, facts()).create == 4


@pytest.mark.parametrize(
    ("lacking", "out", "pages"),
    [
        ([2, 2], 0, 2),  # a worker votes once per example, so two workers are needed
        ([2] * 8, 0, 4),  # sixteen votes, four on a page
        ([2] * 8, 3, 1),
        ([1], 5, 0),
        ([], 0, 0),
    ],
)
def test_votes_are_requested_once_and_on_as_few_pages_as_possible(lacking: list[int], out: int, pages: int) -> None:
    known = facts(status=VALIDATING, lacking=lacking, out={HitKind.VALIDATE: out})
    assert plan_supply(spec(), known) == Supply(validate=pages)


def test_money_is_reserved_for_the_first_votes_of_the_policy() -> None:
    two, five = (spec(validation={"gold_rate": 0.0, "policy": "anli", "first_votes": votes}) for votes in (2, 5))
    assert least_cents(five, FEES) == least_cents(two, FEES)
    being_written = facts(out={HitKind.CREATE: 4}, free_cents=least_cents(two, FEES) + vote_cents(two, FEES) * 2)
    assert plan_supply(five, being_written) == plan_supply(two, being_written) == Supply(create=1)


def test_gold_questions_on_a_page_leave_less_room_for_votes() -> None:
    with_gold = spec(validation={"gold_rate": 0.5})
    assert plan_supply(with_gold, facts(status=VALIDATING, lacking=[2] * 8)).validate == 8


def test_votes_come_before_new_examples_when_money_is_short() -> None:
    short = facts(lacking=[2, 2], free_cents=2 * vote_cents(spec(), FEES))
    assert plan_supply(spec(), short) == Supply(validate=2)


def test_the_rest_of_the_budget_must_cover_an_example_with_its_votes() -> None:
    least = least_cents(spec(), FEES)
    assert plan_supply(spec(), facts(free_cents=least)).create == 1
    assert plan_supply(spec(), facts(free_cents=least - 1)).create == 0


def test_money_for_votes_on_unfinished_examples_is_reserved() -> None:
    being_written = facts(out={HitKind.CREATE: 4}, free_cents=least_cents(spec(), FEES) + vote_cents(spec(), FEES))
    assert plan_supply(spec(), being_written) == Supply()


def test_work_that_pays_nothing_is_not_posted() -> None:
    unpaid = spec(pay={"create_cents": 0, "validate_cents": 0})
    assert plan_supply(unpaid, facts(lacking=[2, 2])) == Supply()


def test_quizzes_are_posted_until_there_are_enough_workers_and_never_ten_at_once() -> None:
    quiz = spec().model_copy(update={"quiz": PACK.quiz})
    assert plan_supply(quiz, facts(target=200)).quiz_places == 9
    assert plan_supply(quiz, facts(target=200, people=15)).quiz_places == 5
    assert plan_supply(quiz, facts(target=200, people=15, out={HitKind.QUIZ: 5})).quiz_places == 0
    assert plan_supply(quiz, facts(target=1, people=2)).quiz_places == 5
    assert plan_supply(quiz, facts(status=VALIDATING, people=0)).quiz_places == 0
    assert plan_supply(quiz, facts(target=200, free_cents=least_cents(quiz, FEES))).quiz_places == 0


def test_a_large_round_is_planned_in_pieces() -> None:
    assert plan_supply(spec(), facts(target=1_000_000)).create == MOST_AT_ONCE


@settings(max_examples=200, deadline=None)
@given(
    free=st.integers(0, 50_000),
    target=st.integers(1, 500),
    counts=st.tuples(*(st.integers(0, 60) for _ in range(4))),
    lacking=st.lists(st.integers(1, 5), max_size=40),
    out=st.integers(0, 40),
)
def test_no_plan_costs_more_than_the_budget(
    free: int, target: int, counts: tuple[int, int, int, int], lacking: list[int], out: int
) -> None:
    verified, disputed, pending, others = counts
    fooled = verified + disputed + pending
    known = facts(
        target=target,
        examples=fooled + others,
        fooled=fooled,
        verified_fooling=verified,
        disputed_fooling=disputed,
        pending_fooling=pending,
        lacking=lacking,
        out={HitKind.CREATE: out},
        free_cents=free,
    )
    quiz = spec().model_copy(update={"quiz": PACK.quiz})
    pay, supply = quiz.pay, plan_supply(quiz, known)
    one = FEES.reward(pay.create_cents).total_cents + FEES.bonus(pay.fooled_bonus_cents).total_cents
    cost = supply.create * one + supply.validate * vote_cents(quiz, FEES)
    cost += supply.quiz_places * FEES.reward(pay.quiz_cents).total_cents
    assert cost <= free
