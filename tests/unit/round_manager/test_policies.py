"""Named policies: votes in, more votes or a gold label out."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, EntryPoints
from itertools import product

import pytest

from ml_backend.verdict import f1_score
from round_manager import policies
from round_manager.errors import PolicyError
from round_manager.policies import (
    Policy,
    Ruling,
    Settled,
    Wants,
    dynasent,
    find_policy,
    first_votes,
    known_policies,
    most_votes,
    register_policy,
    replay,
)
from round_manager.validation.decisions import group_answers
from templates.sections import Validation

AUTHOR = "a"
DEFAULTS = Validation(policy="adaptive")

# Another package would contain this.
ALWAYS = Policy("always", lambda votes, author, settings: Settled(author))


def ruled(name: str, votes: str, **settings: int) -> Ruling:
    return replay(find_policy(name), DEFAULTS.model_copy(update=settings), list(votes), AUTHOR)


@pytest.mark.parametrize(
    ("name", "told", "wanted"),
    [("adaptive", 2, 2), ("adaptive", 3, 3), ("anli", 5, 2), ("dynasent", 9, 5)],
)
def test_the_policy_decides_how_many_votes_are_requested_first(name: str, told: int, wanted: int) -> None:
    assert first_votes(Validation(policy=name, first_votes=told, max_votes=9)) == wanted


@pytest.mark.parametrize("name", ["adaptive", "anli", "dynasent"])
def test_no_example_gets_more_votes_than_its_policy_allows_and_some_get_that_many(name: str) -> None:
    policy, settings = find_policy(name), Validation(policy=name, first_votes=2, max_votes=7)
    most = most_votes(settings)

    def given(votes: Sequence[str]) -> int:
        """How many of them it took."""
        return next(n for n in range(most + 1) if isinstance(policy.rule(votes[:n], AUTHOR, settings), Settled))

    assert max(given(votes) for votes in product("abc", repeat=most)) == most


def test_a_policy_that_can_decide_without_votes_waits_for_its_fewest_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies._POLICIES, "always", ALWAYS)
    assert policies.first_votes(DEFAULTS.model_copy(update={"policy": "always"})) == 1


@pytest.mark.parametrize(
    ("votes", "ruling"),
    [
        ("", Wants(2)),
        ("a", Wants(2)),
        ("aa", Settled("a")),
        ("ab", Wants(3)),
        ("bb", Wants(3)),
        ("aba", Wants(4)),
        ("abaa", Settled("a")),
        ("bbb", Settled("b")),
        ("abab", Wants(5)),
        ("ababa", Settled("a")),
        ("ababb", Settled("b")),
        ("abca", Wants(5)),
        ("abcab", Settled(None)),
        ("abcd", Settled(None)),
        ("aabbb", Settled("a")),
    ],
)
def test_adaptive_requests_votes_until_a_majority_is_certain(votes: str, ruling: Ruling) -> None:
    assert ruled("adaptive", votes) == ruling


@pytest.mark.parametrize(("first", "most"), [(1, 3), (2, 3), (2, 4), (3, 7), (2, 5)])
def test_adaptive_ends_within_max_votes_with_the_result_of_all_votes(first: int, most: int) -> None:
    for votes in product("abc", repeat=most):
        ruling: Ruling = Wants(0)
        given = 0
        while isinstance(ruling, Wants):
            ruling = ruled("adaptive", "".join(votes[:given]), first_votes=first, max_votes=most)
            given = ruling.votes if isinstance(ruling, Wants) else given
        majority = [label for label in "abc" if votes.count(label) * 2 > most]
        if votes[:first] != ("a",) * first:
            assert ruling == Settled(majority[0] if majority else None)


@pytest.mark.parametrize(
    ("votes", "ruling"),
    [("b", Wants(2)), ("bb", Settled("b")), ("ab", Wants(3)), ("aba", Settled("a")), ("abc", Settled(None))],
)
def test_anli_requests_two_votes_and_a_third_if_they_disagree(votes: str, ruling: Ruling) -> None:
    assert ruled("anli", votes, max_votes=3) == ruling


@pytest.mark.parametrize(("votes", "ruling"), [("aaaa", Wants(5)), ("aabba", Settled("a")), ("aabbc", Settled(None))])
def test_dynasent_requests_five_votes_and_needs_three_that_agree(votes: str, ruling: Ruling) -> None:
    assert ruled("dynasent", votes) == ruling


def test_later_votes_change_nothing() -> None:
    assert ruled("dynasent", "aaabbbbb") == Settled("a")
    assert ruled("anli", "aab") == Settled("a")


def test_a_policy_of_another_package_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("always", f"{__name__}:ALWAYS", policies.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: ALWAYS)
    monkeypatch.setattr(policies, "entry_points", lambda **asked: EntryPoints([entry]).select(**asked))
    monkeypatch.setattr(policies, "_POLICIES", dict(policies._POLICIES))
    assert "always" in known_policies()
    assert replay(find_policy("always"), DEFAULTS, [], AUTHOR) == Settled("a")


def test_an_unknown_policy_is_reported_with_the_known_ones() -> None:
    with pytest.raises(PolicyError, match="adaptive, anli, dynasent"):
        find_policy("majority")


def test_a_policy_name_cannot_be_registered_twice() -> None:
    with pytest.raises(PolicyError):
        register_policy(Policy("dynasent", dynasent))


def test_a_policy_that_requests_votes_it_already_has_is_an_error() -> None:
    stuck = Policy("stuck", lambda votes, author, settings: Wants(1))
    with pytest.raises(PolicyError, match="stuck"):
        replay(stuck, DEFAULTS, ["a", "b"], AUTHOR)


def grouped(answers: Sequence[str], author: str) -> list[str]:
    return group_answers(answers, author, lambda one, other: f1_score(one, other) >= 0.6)


def test_answers_that_agree_with_the_author_count_for_the_author() -> None:
    assert grouped(["in Paris", "Paris, France", "London"], "Paris") == ["Paris", "Paris", "London"]


def test_groups_of_answers_do_not_depend_on_their_order() -> None:
    answers = ["the red house", "red house by the sea", "house by the sea", "a boat"]
    there = dict(zip(answers, grouped(answers, "nobody"), strict=True))
    back = dict(zip(answers[::-1], grouped(answers[::-1], "nobody"), strict=True))
    assert there == back
    assert len(set(there.values())) < len(answers)


@pytest.mark.parametrize(
    ("votes", "established", "ruling"),
    [
        ("aa", [False, False], Wants(3)),
        ("aa", [False, True], Settled("a")),
        ("aaa", [False, False, True], Settled("a")),
        ("aaaaa", [False] * 5, Settled(None)),
        ("ba", [False, False], Wants(3)),
        ("bbb", [True, False, False], Settled("b")),
        ("aab", [False, False, True], Wants(4)),
        ("aabaa", [False, False, True, False, False], Settled(None)),
    ],
)
def test_a_gold_label_can_need_the_vote_of_an_established_validator(
    votes: str, established: list[bool], ruling: Ruling
) -> None:
    settings = DEFAULTS.model_copy(update={"established_votes": 1})
    assert replay(find_policy("adaptive"), settings, list(votes), AUTHOR, established=established) == ruling
    assert replay(find_policy("adaptive"), DEFAULTS, list("aa"), AUTHOR) == Settled("a")
