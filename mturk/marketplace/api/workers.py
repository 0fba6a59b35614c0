"""Operations on worker blocks, and messages to workers."""

from sqlalchemy import delete, exists, select

from mturk.marketplace.api.call import Call, Members
from mturk.marketplace.errors import InvalidParameter
from mturk.marketplace.hits import check_range
from mturk.marketplace.tables.people import Block, Message, Worker
from mturk.marketplace.tables.work import Assignment, Hit

MAX_RECIPIENTS = 100


def create_worker_block(call: Call, members: Members) -> Members:
    """Block a worker; blocking again replaces the reason."""
    if not members["Reason"].strip():
        raise InvalidParameter("Reason: say why the worker is blocked")
    worker = call.worker(members["WorkerId"])
    mine = select(Block).where(Block.requester_id == call.requester.id, Block.worker_id == worker.id)
    block = call.session.scalars(mine).one_or_none()
    if block is None:
        block = Block(requester_id=call.requester.id, worker_id=worker.id, reason="", blocked_at=call.now)
        call.session.add(block)
    block.reason = members["Reason"]
    call.session.flush()
    return {}


def delete_worker_block(call: Call, members: Members) -> Members:
    """Unblock a worker, if they were blocked."""
    worker = call.worker(members["WorkerId"])
    call.session.execute(delete(Block).where(Block.requester_id == call.requester.id, Block.worker_id == worker.id))
    return {}


def list_worker_blocks(call: Call, members: Members) -> Members:
    """List the workers whom this requester blocked."""
    query = select(Block).where(Block.requester_id == call.requester.id)
    return call.page(
        query,
        Block.number,
        members,
        key="WorkerBlocks",
        render=lambda row: {"WorkerId": row[0].worker_id, "Reason": row[0].reason},
    )


def notify_workers(call: Call, members: Members) -> Members:
    """Send a message to workers who worked for this requester; return those who were not reached."""
    recipients = list(dict.fromkeys(members["WorkerIds"]))
    check_range("WorkerIds", len(recipients), 1, MAX_RECIPIENTS, "workers")
    check_range("Subject", len(members["Subject"].strip()), 1, 200, "characters")
    check_range("MessageText", len(members["MessageText"].strip()), 1, 4096, "characters")
    failures = []
    for worker_id in recipients:
        failure = _delivery_failure(call, worker_id)
        if failure:
            failures.append(
                {
                    "NotifyWorkersFailureCode": "HardFailure",
                    "NotifyWorkersFailureMessage": failure,
                    "WorkerId": worker_id,
                }
            )
            continue
        call.session.add(
            Message(
                requester_id=call.requester.id,
                worker_id=worker_id,
                subject=members["Subject"],
                text=members["MessageText"],
                sent_at=call.now,
            )
        )
    call.session.flush()
    return {"NotifyWorkersFailureStatuses": failures}


def _delivery_failure(call: Call, worker_id: str) -> str:
    if call.session.get(Worker, worker_id) is None:
        return f"Worker {worker_id} does not exist."
    worked = exists().where(
        Assignment.worker_id == worker_id,
        Assignment.submitted_at.is_not(None),
        Hit.id == Assignment.hit_id,
        Hit.requester_id == call.requester.id,
    )
    # Like MTurk: requesters can only write to workers who have worked for them.
    return "" if call.session.execute(select(worked)).scalar() else f"Worker {worker_id} has not worked for you."
