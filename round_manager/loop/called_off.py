"""Called off: a round that its owner ended before its time with nothing in it, so that nobody asks for the next."""

from sqlalchemy.orm import Session

from round_manager.loop.supply_facts import tallies_of
from round_manager.models import Round
from round_manager.tasks.rounds import NOT_COUNTED


def was_called_off(session: Session, round: Round) -> bool:
    """Whether nothing was collected in a round that ended before its date.

    Its target it cannot have reached, and a budget that nothing came of is no reason to spend the next one by itself.
    """
    if round.validating_at is None or (round.closes_at is not None and round.closes_at <= round.validating_at):
        return False
    return not any(number for (status, _), number in tallies_of(session, round).items() if status not in NOT_COUNTED)


def called_off_text(round: Round, task: str) -> str:
    """What to say of it."""
    cure = f"`outfox round open {task}` opens the next when you want it"
    return f"round {round.number} was closed with nothing in it; {cure}"
