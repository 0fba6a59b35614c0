"""No frequent query scans a whole table, however many HITs there are."""

from typing import Any

from sqlalchemy import event

from mturk.marketplace import worker_actions
from tests.fakes.market import StillWorld

TABLES = (
    "assignment",
    "bonus",
    "hit",
    "movement",
    "passed",
    "request_token",
    "worker",
    "block",
    "outgoing_event",
)


def test_queries_on_large_tables_use_an_index(world: StillWorld) -> None:
    queries: dict[str, Any] = {}

    def record(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if "WHERE" in statement:
            queries[statement] = parameters[0] if many else parameters

    event.listen(world.market.engine, "before_cursor_execute", record)
    _use_everything(world)
    event.remove(world.market.engine, "before_cursor_execute", record)
    assert len(queries) > 20
    with world.market.engine.connect() as connection:
        for statement, parameters in queries.items():
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            scans = [step[3] for step in plan if step[3].startswith(tuple(f"SCAN {name}" for name in TABLES))]
            assert not scans, f"{scans} in {statement}"


def _use_everything(world: StillWorld) -> None:
    worker, hit = world.make_worker(), world.post(places=2)
    world.post()
    world.return_assignment(worker, world.accept(worker, hit.type_id))
    world.approve(world.work(worker, hit.type_id).id)
    world.accept(worker, hit.type_id)
    with world.market.read() as session:
        worker_actions.list_groups(session, worker, world.now)
    world.advance(days=9)
    with world.market.read() as session:
        worker_actions.held_assignments(session, worker, world.now)
