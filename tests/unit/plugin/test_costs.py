from round_manager.money.prices import pack_costs
from templates import find_pack


def test_an_example_costs_its_creation_its_bonus_and_its_votes_with_fees() -> None:
    costs = pack_costs(find_pack("sentiment").spec)
    assert (costs.create_hit, costs.bonus, costs.validate_hit) == (45 + 9, 60 + 12, 50 + 10)
    assert costs.example_least == 54 + 72 + 2 * 60 // 5
    assert costs.example_most == 54 + 72 + 5 * 60 // 5
    assert costs.round_examples == 60000 // 186


def test_the_fewest_votes_are_those_that_the_policy_asks_for() -> None:
    spec = find_pack("sentiment").spec
    anli = spec.validation.model_copy(update={"policy": "anli", "first_votes": 5})
    assert pack_costs(spec.model_copy(update={"validation": anli})).example_least == pack_costs(spec).example_least
