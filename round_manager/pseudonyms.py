"""Pseudonyms: how workers are known outside the database."""

import hashlib
import hmac

from ml_backend.hashing import canonical_json
from round_manager.models import Task, Worker

LENGTH = 16


def pseudonym(task: Task, worker: Worker) -> str:
    """The worker's name in one task's data: the same for all that they do there, and no way back to their id."""
    who = canonical_json([worker.marketplace, worker.external_id])
    return hmac.new(task.worker_salt.encode(), who.encode(), hashlib.sha256).hexdigest()[:LENGTH]
