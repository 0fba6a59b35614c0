"""A round without work or money is not opened, and nothing changes."""

from pathlib import Path

import pytest
from sqlalchemy import select, update

from crowd.profile import FeeSchedule
from round_manager.database.store import Store
from round_manager.errors import BudgetError, NoContexts, RoundManagerError
from round_manager.models import AuditEntry, Context, Round, RoundStatus, Task
from round_manager.money.budget import set_round_budget
from round_manager.money.prices import least_cents
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.fakes.clock import NOON, SettableClock
from tests.fakes.registry import QuickRegistry, load_fixed, make_version
from tests.fakes.round_opener import RoundOpener

NAME = "sentiment"


@pytest.fixture
def opening(store: Store, tmp_path: Path) -> RoundOpener:
    """The draft of a task, and what opens it."""
    models = tmp_path / "models"
    make_version(models)
    with store.write() as session:
        create_task(session, find_pack(NAME), now=NOON)
    return RoundOpener(store, QuickRegistry(models), str(models), load_fixed, SettableClock(), timeout=5)


def refused(opening: RoundOpener, error: type[RoundManagerError]) -> None:
    """The round stays a draft, and the registry pins nothing for it."""
    with pytest.raises(error):
        opening.open(NAME, (), actor="owner", reason="a test")
    with opening.store.read() as session:
        (draft,) = list_rounds(session, session.scalars(select(Task)).one())
        assert (draft.status, session.scalars(select(AuditEntry.action)).all()) in (
            (RoundStatus.DRAFT, []),
            (RoundStatus.DRAFT, ["changed the budget"]),
        )
    assert opening.registry.pin_set(NAME).own(1) is None


@pytest.mark.any_database
def test_a_round_with_nothing_to_show_is_not_opened(opening: RoundOpener) -> None:
    with opening.store.write() as session:
        session.execute(update(Context).values(retired_at=NOON))
    refused(opening, NoContexts)


@pytest.mark.any_database
def test_a_round_that_cannot_pay_for_one_example_is_not_opened(opening: RoundOpener) -> None:
    # A HIT to create is 54 cents, its bonus 72, and two votes on it 120.
    assert least_cents(find_pack(NAME).spec, FeeSchedule()) == 246
    budget(opening, 245)
    refused(opening, BudgetError)
    budget(opening, 246)
    assert opening.open(NAME, (), actor="owner", reason="").number == 1


def test_a_round_that_may_cost_more_than_its_task_has_left_is_not_opened(opening: RoundOpener) -> None:
    with opening.store.write() as session:
        session.scalars(select(Task)).one().budget_cents = 59_999
    refused(opening, BudgetError)
    budget(opening, 59_999)
    assert opening.open(NAME, (), actor="owner", reason="").number == 1


def test_a_task_that_pays_nothing_needs_no_budget() -> None:
    spec = find_pack(NAME).spec
    free = {"create_cents": 0, "fooled_bonus_cents": 0, "validate_cents": 0}
    assert least_cents(spec.model_copy(update={"pay": spec.pay.model_copy(update=free)}), FeeSchedule()) == 0


def budget(opening: RoundOpener, cents: int) -> None:
    with opening.store.write() as session:
        task, draft = session.scalars(select(Task)).one(), session.scalars(select(Round)).one()
        set_round_budget(session, task, draft, cents, actor="owner", reason="a test", now=NOON)
