"""Evaluations in the archives as a use case: after a freeze, after a training, and after `outfox evaluate`."""

import logging
from collections.abc import Sequence

from common.errors import CodedError, one_line
from round_manager.evaluation.records import keep_record, measured_rows, newest_card, stored_rows
from round_manager.models import Round
from round_manager.services.context import ServiceContext
from round_manager.tasks.rounds import list_rounds
from round_manager.tasks.tasks import find_task

log = logging.getLogger(__name__)


def record_round(context: ServiceContext, round: Round, where: str) -> bool:
    """Write what is known of the models on a frozen round into its archive's folder, or into that of a copy.

    Figures from the archive's own place come along. Return whether something changed. Where an address cannot be
    reached from here, nothing is written, with a warning: the next freeze or training repeats it.
    """
    places = dict.fromkeys((str(round.archive_uri or where), where))
    try:
        with context.store.read() as session:
            rows = measured_rows(session, round)
            card = newest_card(session, round.task_id)
        rows += [row for place in places for row in stored_rows(place, round.number)]
        return keep_record(where, rows, card)
    except CodedError as error:
        log.warning("the evaluations of round %s are not in its archive: %s", round.number, one_line(error))
        return False


def record_rounds(context: ServiceContext, task: str) -> list[int]:
    """Do that for every frozen round of a task; return the rounds whose record changed."""
    with context.store.read() as session:
        rounds: Sequence[Round] = [one for one in list_rounds(session, find_task(session, task)) if one.archive_uri]
    return [one.number for one in rounds if record_round(context, one, str(one.archive_uri))]
