"""Votes counted again for the proof of an archive: as they were when the round was played."""

from collections.abc import Sequence

from round_manager.archive.recount import ArchivedVote, Counted, VoteCount
from round_manager.validation.outcomes import VoteCounter, VoteValue
from templates import TaskSpec


def counting(spec: TaskSpec) -> VoteCount:
    """How a round of that spec counts votes, or a PolicyError where its policy is not known here."""
    ballots = VoteCounter(spec)
    # Looked up now, so that one that is not known is told before the first example.
    ballots.policy  # noqa: B018

    def count(author: ArchivedVote, votes: Sequence[ArchivedVote]) -> Counted:
        outcome = ballots.outcome(author.label, _answer(author), [_given(vote) for vote in votes])
        answer = outcome.gold_answer or {}
        return Counted(outcome.status, ArchivedVote(outcome.gold_label, answer.get("text"), answer.get("start")))

    return count


def _given(vote: ArchivedVote) -> VoteValue:
    return VoteValue(vote.label, _answer(vote), vote.flag)


def _answer(said: ArchivedVote) -> dict[str, object] | None:
    return None if said.answer is None else {"text": said.answer, "start": said.start}
