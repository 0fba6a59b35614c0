"""POST /api/attempts: signed batches of tries from backends on other machines."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from flask import request

from ml_backend.errors import VerdictError
from ml_backend.serving.attempt_record import AttemptRecord
from plugin.attempt_delivery import SIGNATURE, TIME, AttemptIntake, check_signature
from plugin.errors import PluginError
from plugin.web.edge import whole_body
from plugin.web.metrics import WebMetrics

MOST_TRIES = 1_000
NOT_A_BATCH = "the body is no batch of tries; send what `AttemptSender` sends"


def attempts_route(intake: AttemptIntake, secrets: Sequence[str], metrics: WebMetrics) -> Callable[[], Any]:
    """The view: it stores what can be stored and tells which ones never can."""

    def attempts() -> Any:
        body = whole_body()
        headers = {name: request.headers.get(name, "") for name in (TIME, SIGNATURE)}
        check_signature(secrets, headers, body, time.time())
        tries, refused = _read(body)
        taken = intake.take(tries)
        refused += [{"id": str(one), "why": why} for one, why in taken.refused.items()]
        repeated = len(tries) - taken.stored - len(taken.refused)
        metrics.attempts({"stored": taken.stored, "repeated": repeated, "refused": len(refused)})
        return {"stored": taken.stored, "refused": refused}

    return attempts


def _read(body: bytes) -> tuple[list[AttemptRecord], list[dict[str, str]]]:
    """The tries of a batch, and those that are none, with their ids as far as they tell them."""
    try:
        batch = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PluginError(NOT_A_BATCH) from error
    given = batch.get("tries") if isinstance(batch, dict) else None
    if not isinstance(given, list) or len(given) > MOST_TRIES:
        raise PluginError(f"{NOT_A_BATCH}, at most {MOST_TRIES:,} at a time")
    tries: list[AttemptRecord] = []
    refused = []
    for one in given:
        try:
            tries.append(AttemptRecord.from_json(one))
        except (VerdictError, OverflowError) as error:
            told = one.get("id") if isinstance(one, dict) else None
            refused.append({"id": told if isinstance(told, str) else "", "why": str(error)})
    return tries, refused
