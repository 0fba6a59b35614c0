"""No question that every call asks reads a whole table, however many HITs there are."""

from typing import Any

from sqlalchemy import event

from mturk.marketplace import assignments, worker_actions
from mturk.marketplace.tables.work import Assignment, Hit
from tests.unit.marketplace.conftest import Stage

LARGE = ("assignment", "bonus", "hit", "movement", "passed", "request_token", "worker", "block", "outgoing_event")


def test_questions_to_large_tables_go_through_an_index(stage: Stage) -> None:
    asked: dict[str, Any] = {}

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if "WHERE" in statement:
            asked[statement] = parameters[0] if many else parameters

    event.listen(stage.market.engine, "before_cursor_execute", note)
    _a_day_on_the_market(stage)
    event.remove(stage.market.engine, "before_cursor_execute", note)
    assert len(asked) > 20
    with stage.market.engine.connect() as connection:
        for statement, parameters in asked.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scans = [step[3] for step in plan if step[3].startswith(tuple(f"SCAN {name}" for name in LARGE))]
            assert not scans, f"{scans} in {statement}"


def _a_day_on_the_market(stage: Stage) -> None:
    worker = stage.worker()
    stage.hit(assignments=2)
    stage.hit()
    stage.give_back(worker, stage.accept(worker))
    work = stage.submit(stage.accept(worker))
    stage.accept(worker)
    with stage.market.write() as session:
        place, hit = session.get_one(Assignment, work.number), session.query(Hit).filter_by(id=work.hit_id).one()
        assignments.approve(session, place, hit, stage.clock.now())
        worker_actions.list_groups(session, worker, stage.clock.now())
    stage.pass_time(days=2)
    with stage.market.read() as session:
        worker_actions.held_assignments(session, worker, stage.clock.now())
