"""The owner's side of a test: approve and pay work, and check the ledger."""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import select, update

from round_manager.crowd.reviews import approve, find_assignment, undecided
from round_manager.loop.quote import open_round_of
from round_manager.models import Example, ExampleStatus, LedgerEntry, Vote, WorkSession
from round_manager.money.budget import StatementLine, drift, statement
from round_manager.tasks.tasks import find_task
from round_manager.validation.decisions import decide_round
from tests.e2e.plugin.web.work.stage import WorkStage

OWNER = "owner@example.com"


@dataclass(frozen=True)
class Stored:
    """The number of records of one page in the database, by kind."""

    tries: int
    examples: int
    votes: int


def stored(stage: WorkStage, work: WorkSession) -> Stored:
    """Return the number of records of a page by kind, to check that none is lost or doubled."""
    return Stored(
        sum(one.session_id == work.id for one in stage.tries()),
        sum(one.session_id == work.id for one in stage.examples()),
        sum(one.session_id == work.id for one in votes(stage)),
    )


def votes(stage: WorkStage) -> list[Vote]:
    """Return every vote that counts, in order."""
    with stage.store.read() as session:
        return list(session.scalars(select(Vote).order_by(Vote.id)))


def next_to_be_checked(stage: WorkStage, example: Example) -> None:
    """Make this the only example that needs a vote, so that the next validator gets it."""
    with stage.store.write() as session:
        session.execute(update(Example).where(Example.id != example.id).values(votes_wanted=0))
        row = session.get_one(Example, example.id)
        row.status, row.votes_wanted = ExampleStatus.PENDING, 1


def pay(stage: WorkStage, name: str) -> int:
    """Approve all work of the task, decide its examples and pay what is owed; return the cents paid."""
    stage.collect()
    now = stage.clock.now()
    with stage.store.write() as session:
        task, market = find_task(session, name), stage.services.crowd.name
        waiting = [find_assignment(session, market, one.assignment_id) for one in undecided(session, market, task.id)]
        approve(session, waiting, actor=OWNER, reason="it is good", now=now)
        open_round = open_round_of(session, task)
    decide_round(stage.store, open_round, now=now)
    paid = stage.services.payments.run()
    assert (paid.problem, paid.refused, paid.held, paid.in_doubt, paid.waiting) == ("", 0, 0, 0, 0)
    return paid.cents


def line_of(stage: WorkStage, name: str) -> StatementLine:
    """The statement of the task's open round, as of now; it adds up and agrees with the sums in the database."""
    with stage.store.read() as session:
        task = find_task(session, name)
        open_round = open_round_of(session, task)
        _, line = statement(session, task, at=stage.clock.now() + timedelta(seconds=1))
        assert line.adds_up
        assert drift(session, open_round, line) == 0
    return line


def entries_of(stage: WorkStage, work: WorkSession) -> list[LedgerEntry]:
    """Return the ledger entries of a page's HIT."""
    with stage.store.read() as session:
        return list(session.scalars(select(LedgerEntry).where(LedgerEntry.hit_id == work.hit_id)))
