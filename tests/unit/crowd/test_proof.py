"""Proofs of acceptance: only the marketplace can make them, and they hold for one page and one assignment."""

from datetime import timedelta

import pytest

from crowd.proof import LEEWAY, MOST_KEYS, ProofExpired, ProofInvalid, sign_acceptance, verify_acceptance
from tests.fakes.clock import NOON

SECRET = "the secret of an access key"
QUERY = {"key": "k", "assignmentId": "A1", "workerId": "W1", "turkSubmitTo": "https://market.example/s/1"}
DEADLINE = NOON + timedelta(minutes=20)


def signed(*secrets: str) -> str:
    return sign_acceptance(QUERY, secrets or [SECRET], issued_at=NOON, expires_at=DEADLINE)


def test_a_proof_says_when_it_was_issued() -> None:
    assert verify_acceptance(signed(), QUERY, SECRET, now=DEADLINE) == NOON


def test_parameters_may_come_in_any_order() -> None:
    assert verify_acceptance(signed(), dict(reversed(QUERY.items())), SECRET, now=NOON) == NOON


@pytest.mark.parametrize("query", [{**QUERY, "workerId": "W2"}, {**QUERY, "more": ""}, {"key": "k"}, {}])
def test_other_parameters_are_not_proven(query: dict[str, str]) -> None:
    with pytest.raises(ProofInvalid):
        verify_acceptance(signed(), query, SECRET, now=NOON)


@pytest.mark.parametrize("proof", ["", ".", "..", "1.2.", "x.y.z", "\ud800.\ud800.\ud800", "9" * 5_000, signed()[:-1]])
def test_an_unreadable_proof_is_invalid(proof: str) -> None:
    with pytest.raises(ProofInvalid):
        verify_acceptance(proof, QUERY, SECRET, now=NOON)


def test_its_times_cannot_be_changed() -> None:
    issued, _, signature = signed().split(".")
    with pytest.raises(ProofInvalid):
        verify_acceptance(f"{issued}.9999999999999999.{signature}", QUERY, SECRET, now=NOON)


def test_it_ends_with_the_assignment_but_for_clocks_that_differ() -> None:
    verify_acceptance(signed(), QUERY, SECRET, now=DEADLINE + LEEWAY)
    with pytest.raises(ProofExpired):
        verify_acceptance(signed(), QUERY, SECRET, now=DEADLINE + LEEWAY + timedelta(seconds=1))


def test_each_key_of_the_requester_verifies_it() -> None:
    secrets = [f"secret {number}" for number in range(MOST_KEYS)]
    for secret in secrets:
        assert verify_acceptance(signed(*secrets), QUERY, secret, now=NOON) == NOON
    with pytest.raises(ProofInvalid):
        verify_acceptance(signed(*secrets), QUERY, "another secret", now=NOON)


def test_without_a_key_nothing_is_proven() -> None:
    proof = sign_acceptance(QUERY, [], issued_at=NOON, expires_at=DEADLINE)
    with pytest.raises(ProofInvalid):
        verify_acceptance(proof, QUERY, SECRET, now=NOON)
