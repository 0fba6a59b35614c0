"""Ballots: the votes on one example as a policy counts them, and what their outcome makes of the example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ml_backend.squad import f1_score
from round_manager.models import ExampleStatus
from round_manager.policies import Grouping, Policy, Ruling, Settled, exactly, find_policy, replay
from templates import TaskSpec

Json = dict[str, Any]
Same = Callable[[str, str], bool]


@dataclass(frozen=True)
class Given:
    """One vote as it was given: a label, an answer, or a flag."""

    label: str | None = None
    answer: Json | None = None
    flag: str | None = None

    @property
    def said(self) -> str:
        """What is counted of a vote that is no flag."""
        return self.label if self.label is not None else str((self.answer or {}).get("text"))


@dataclass(frozen=True)
class Outcome:
    """What an example is by its votes: the status that they give it and the gold that people agree on."""

    status: ExampleStatus
    gold_label: str | None = None
    gold_answer: Json | None = None
    votes_wanted: int = 0


@dataclass(frozen=True)
class Ballots:
    """How one round counts its votes, by the terms that it was opened with."""

    spec: TaskSpec

    @cached_property
    def policy(self) -> Policy:
        """The round's policy."""
        return find_policy(self.spec.validation.policy)

    @cached_property
    def grouping(self) -> Grouping:
        """How votes are put together before they are counted."""
        if self.spec.kind == "classification":
            return exactly
        return lambda votes, author: camps(votes, author, self.agree)

    def agree(self, one: str, other: str) -> bool:
        """Labels agree when they are equal, answers when enough of their words are."""
        return one == other or (self.spec.kind == "qa" and f1_score(one, other) >= self.spec.validation.span_f1)

    def ruling(self, votes: Sequence[str], author: str) -> Ruling:
        """What the policy says of votes in their order."""
        return replay(self.policy, self.spec.validation, votes, author, self.grouping)

    def outcome(self, label: str | None, answer: Json | None, votes: Sequence[Given]) -> Outcome:
        """What an example is that its author says this of; flags are the owner's to judge and no part of it."""
        author = Given(label, answer)
        judged = [vote for vote in votes if vote.flag is None]
        ruling = self.ruling([vote.said for vote in judged], author.said)
        flags = len(votes) - len(judged)
        if not isinstance(ruling, Settled):
            # A flag takes a place among the votes and says nothing about the label.
            return Outcome(ExampleStatus.PENDING, votes_wanted=ruling.votes + flags)
        if ruling.gold is None:
            return Outcome(ExampleStatus.DISPUTED)
        if ruling.gold == author.said:
            return Outcome(ExampleStatus.VERIFIED, label, answer)
        other = next(vote for vote in judged if vote.said == ruling.gold)
        return Outcome(ExampleStatus.DISPUTED, other.label, other.answer)


def camps(answers: Sequence[str], author: str, same: Same) -> list[str]:
    """The name of each answer's camp: the author's for all that agree with it, then the answer that most agree with.

    That two answers agree with a third need not mean that they agree, so camps are filled one after the other, in an
    order that does not depend on who came first.
    """
    named: dict[str, str] = {one: author for one in set(answers) if same(one, author)}
    left = [one for one in answers if one not in named]
    while left:
        name = min(set(left), key=lambda one: (-sum(same(other, one) for other in left), one))
        named |= {other: name for other in set(left) if other == name or same(other, name)}
        left = [one for one in left if one not in named]
    return [named[one] for one in answers]
