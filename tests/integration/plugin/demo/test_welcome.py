"""The state of the demo's task while its round ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from plugin.demo.welcome import demo_status
from round_manager.database.store import Store
from round_manager.loop.lifecycle import begin_validating, pause
from round_manager.loop.manager_record import record_success
from round_manager.models import Round, RoundStatus
from tests.integration.plugin.manager.company import Company, found_company


@pytest.fixture
def company(store: Store, tmp_path: Path) -> Company:
    return found_company(store, tmp_path)


def move(company: Company, step: Callable[..., Round]) -> None:
    with company.store.write() as session:
        chosen = session.get_one(Round, company.floor.round.id)
        step(session, chosen, actor="owner@test", reason="a test", now=company.clock.now())


def test_an_open_round_accepts_texts_and_an_ended_round_says_what_it_waits_for(company: Company) -> None:
    seen = demo_status(company.store, "sentiment", company.clock)
    assert (seen.round, seen.status, seen.takes_texts, seen.waits_for) == (1, "open", True, ())
    assert seen.versions == (company.floor.version,)
    move(company, pause)
    assert demo_status(company.store, "sentiment", company.clock).status == "paused"


def test_a_finished_round_names_the_next_step(company: Company) -> None:
    company.floor.pending()
    move(company, begin_validating)
    seen = demo_status(company.store, "sentiment", company.clock)
    assert (seen.status, seen.takes_texts) == ("validating", False)
    assert any("waits for votes" in reason for reason in seen.waits_for)
    with company.store.write() as session:
        chosen = session.get_one(Round, company.floor.round.id)
        chosen.status, chosen.closed_at = RoundStatus.CLOSED, company.clock.now()
        record_success(
            session, "open", "sentiment", "no round after 1 is opened", actor="m@test", now=company.clock.now()
        )
    seen = demo_status(company.store, "sentiment", company.clock)
    assert (seen.status, seen.frozen) == ("closed", ())
    archive, manager = seen.waits_for
    assert ("outfox manage" in archive, manager) == (True, "open: no round after 1 is opened")
