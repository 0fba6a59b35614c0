"""Bonuses through an unmodified boto3 client: paid once, to the worker who submitted the assignment."""

from typing import Any

import pytest

from mturk.marketplace.services import earnings
from mturk.marketplace.tables.people import Worker
from mturk.marketplace.tables.work import Assignment
from tests.fakes.market import MarketServer
from tests.integration.mturk.marketplace.conftest import Requests, refused


@pytest.fixture
def worker(server: MarketServer) -> Worker:
    return server.make_worker()


@pytest.fixture
def work(lab: Requests, worker: Worker) -> Assignment:
    lab.hit()
    return lab.server.work(worker, lab.type_id)


def _bonus(worker: Worker, work: Assignment, **changes: Any) -> dict[str, Any]:
    return {"WorkerId": worker.id, "AssignmentId": work.id, "BonusAmount": "1.5", "Reason": "Well done.", **changes}


def test_a_bonus_reaches_the_worker_and_is_listed(lab: Requests, worker: Worker, work: Assignment) -> None:
    lab.client.send_bonus(**_bonus(worker, work))
    for filters in ({"AssignmentId": work.id}, {"HITId": work.hit_id}):
        (listed,) = lab.client.list_bonus_payments(**filters)["BonusPayments"]
        assert (listed["BonusAmount"], listed["Reason"], listed["WorkerId"]) == ("1.50", "Well done.", worker.id)
    assert lab.balance() == ("9997.90", "0.30")
    assert earnings.worker_earnings(lab.server.market, worker.id).bonus_cents == 150


def test_a_token_pays_once(lab: Requests, worker: Worker, work: Assignment) -> None:
    lab.client.send_bonus(**_bonus(worker, work, UniqueRequestToken="b"))
    message = refused("DuplicateRequest", lab.client.send_bonus, **_bonus(worker, work, UniqueRequestToken="b"))
    assert '"b" has already been processed' in message
    assert lab.client.list_bonus_payments(AssignmentId=work.id)["NumResults"] == 1
    # The same token of another operation is another token.
    assert lab.hit(UniqueRequestToken="b")["HITStatus"] == "Assignable"


def test_a_refused_bonus_changes_nothing(lab: Requests, worker: Worker, work: Assignment) -> None:
    other = lab.server.make_worker("Bob")
    send = lab.client.send_bonus
    refused("InvalidAssignmentState", send, **_bonus(other, work))
    refused("ParameterValidationError", send, **_bonus(worker, work, BonusAmount="0.00"))
    refused("ParameterValidationError", send, **_bonus(worker, work, BonusAmount="0.015"))
    refused("ParameterValidationError", send, **_bonus(worker, work, BonusAmount="-1"))
    refused("ParameterValidationError", send, **_bonus(worker, work, Reason=" "))
    refused("AssignmentDoesNotExist", send, **_bonus(worker, work, AssignmentId="3NONE"))
    assert "$11,988.00" in refused("InsufficientFunds", send, **_bonus(worker, work, BonusAmount="9990"))
    refused("ParameterValidationError", lab.client.list_bonus_payments)
    assert lab.client.list_bonus_payments(AssignmentId=work.id)["NumResults"] == 0
    assert lab.balance() == ("9999.70", "0.30")


def test_an_accepted_assignment_gets_no_bonus(lab: Requests, worker: Worker) -> None:
    lab.hit()
    held = lab.server.accept(worker, lab.type_id)
    refused("AssignmentDoesNotExist", lab.client.send_bonus, **_bonus(worker, held))
