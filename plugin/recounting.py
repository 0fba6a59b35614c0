"""Votes counted again for the proof of an archive: as they were when the round was played."""

from collections.abc import Sequence

from round_manager.archive.recount import Count, Counted, Said
from round_manager.validation.ballots import Ballots, Given
from templates import TaskSpec


def counting(spec: TaskSpec) -> Count:
    """How a round of that spec counts votes, or a PolicyError where its policy is not known here."""
    ballots = Ballots(spec)
    # Looked up now, so that one that is not known is told before the first example.
    ballots.policy  # noqa: B018

    def count(author: Said, votes: Sequence[Said]) -> Counted:
        outcome = ballots.outcome(author.label, _answer(author), [_given(vote) for vote in votes])
        answer = outcome.gold_answer or {}
        return Counted(outcome.status, Said(outcome.gold_label, answer.get("text"), answer.get("start")))

    return count


def _given(vote: Said) -> Given:
    return Given(vote.label, _answer(vote), vote.flag)


def _answer(said: Said) -> dict[str, object] | None:
    return None if said.answer is None else {"text": said.answer, "start": said.start}
