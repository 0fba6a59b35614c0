"""Validation policies: when an example has enough votes, and what its gold label is.

A policy looks at the votes in the order in which they were given, and settles an example as soon as it can: later votes
change nothing, and replaying the same votes gives the same result. To add a policy, register a `Policy` with
`register_policy`, or from another package under the entry point group `outfox.validation_policies`; task.yaml then uses
its name.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from round_manager.errors import PolicyError
from templates.sections import Validation

GROUP = "outfox.validation_policies"
ANLI_VERIFIERS = 2
DYNASENT_VOTES, DYNASENT_NEEDED = 5, 3


@dataclass(frozen=True)
class Wants:
    """Not settled: this many votes are needed in total."""

    votes: int


@dataclass(frozen=True)
class Settled:
    """Settled with this gold label or answer; None if the votes do not agree."""

    gold: str | None


Ruling = Wants | Settled
# The votes so far, the author's label or answer, and the task's settings.
Rule = Callable[[Sequence[str], str, Validation], Ruling]


@dataclass(frozen=True)
class Policy:
    """A rule with its name in task.yaml, and the smallest first_votes and max_votes that it supports.

    `most` is the number of votes that the rule never exceeds, whatever the task's max_votes; quotes use it.
    """

    name: str
    rule: Rule
    first_votes: int = 1
    max_votes: int = 1
    most: int | None = None

    def problem(self, settings: Validation) -> str | None:
        """Return why a task's numbers do not fit; None if they do."""
        if settings.first_votes >= self.first_votes and settings.max_votes >= self.max_votes:
            return None
        needs = f"first_votes of at least {self.first_votes} and max_votes of at least {self.max_votes}"
        return f"policy {self.name} needs {needs}"


# Groups votes so that a policy can count them: agreeing votes get one name, those that agree with the author theirs.
Grouping = Callable[[Sequence[str], str], Sequence[str]]

_POLICIES: dict[str, Policy] = {}


def register_policy(policy: Policy) -> Policy:
    """Make the policy available to task.yaml by its name."""
    if _POLICIES.setdefault(policy.name, policy) is not policy:
        raise PolicyError(f"there is already a validation policy `{policy.name}`; choose another name")
    return policy


def find_policy(name: str) -> Policy:
    """Return the policy of that name, built-in or from another package."""
    if name in _POLICIES:
        return _POLICIES[name]
    for entry in entry_points(group=GROUP, name=name):
        policy = entry.load()
        if not isinstance(policy, Policy):
            raise PolicyError(f"the entry point `{name}` is not a Policy; correct {entry.value}")
        return _POLICIES.setdefault(name, policy)
    raise PolicyError(f"there is no policy `{name}`; use one of {', '.join(known_policies())}")


def first_votes(settings: Validation) -> int:
    """Return the number of votes that every example gets first, by the task's policy."""
    policy = find_policy(settings.policy)
    ruling = policy.rule((), "", settings)
    # A rule that needs no votes decides after the first look.
    return ruling.votes if isinstance(ruling, Wants) else policy.first_votes


def most_votes(settings: Validation) -> int:
    """Return the largest number of votes that an example can get, by the task's policy."""
    most = find_policy(settings.policy).most
    # Votes are asked for until one of them is an established validator's.
    return settings.max_votes if most is None or settings.established_votes else most


def known_policies() -> list[str]:
    """Return every name that task.yaml can use."""
    return [*_POLICIES, *sorted(entry_points(group=GROUP).names - _POLICIES.keys())]


def exactly(votes: Sequence[str], author: str) -> Sequence[str]:
    """Return the votes as they are: labels agree if they are equal."""
    return votes


def replay(
    policy: Policy,
    settings: Validation,
    votes: Sequence[str],
    author: str,
    grouping: Grouping = exactly,
    established: Sequence[bool] = (),
) -> Ruling:
    """Return the ruling on votes in this order: the first one that settles it, else how many votes are needed.

    A gold label also needs the votes for it by established validators that the task requires: `established` says for
    each vote whether it is one. Without them, one more vote is needed at a time, up to max_votes; then there is no gold
    label.
    """
    ruling: Ruling = Wants(settings.first_votes)
    for count in range(len(votes) + 1):
        grouped = grouping(votes[:count], author)
        ruling = policy.rule(grouped, author, settings)
        if isinstance(ruling, Settled):
            for_it = sum(is_known and vote == ruling.gold for vote, is_known in zip(grouped, established, strict=False))
            if ruling.gold is None or for_it >= settings.established_votes:
                return ruling
            if count >= settings.max_votes:
                return Settled(None)
            ruling = Wants(count + 1)
    if isinstance(ruling, Wants) and ruling.votes <= len(votes):
        raise PolicyError(f"policy {policy.name} asks for {ruling.votes} votes on an example that has {len(votes)}")
    return ruling


def adaptive(votes: Sequence[str], author: str, settings: Validation) -> Ruling:
    """Verified if the first votes all agree with the author; else one more vote at a time until a majority is reached.

    The majority is of max_votes, so a label wins as soon as no further vote could change that, and no vote is requested
    once no label can reach it. A plurality below that is not a gold label.
    """
    given = len(votes)
    if given < settings.first_votes:
        return Wants(settings.first_votes)
    if given == settings.first_votes and all(vote == author for vote in votes):
        return Settled(author)
    needed = settings.max_votes // 2 + 1
    label, most = Counter(votes).most_common(1)[0]
    if most >= needed:
        return Settled(label)
    if most + settings.max_votes - given < needed:
        return Settled(None)
    return Wants(given + 1)


def anli(votes: Sequence[str], author: str, settings: Validation) -> Ruling:
    """Two verifiers, and a third if they disagree: the label that two of them give."""
    given = len(votes)
    if given < ANLI_VERIFIERS:
        return Wants(ANLI_VERIFIERS)
    label, most = Counter(votes).most_common(1)[0]
    if most >= ANLI_VERIFIERS:
        return Settled(label)
    return Wants(given + 1) if given == ANLI_VERIFIERS else Settled(None)


def dynasent(votes: Sequence[str], author: str, settings: Validation) -> Ruling:
    """Always five votes: the label that at least three of them give, else no gold label."""
    if len(votes) < DYNASENT_VOTES:
        return Wants(DYNASENT_VOTES)
    label, most = Counter(votes).most_common(1)[0]
    return Settled(label if most >= DYNASENT_NEEDED else None)


for _policy in (
    Policy("adaptive", adaptive, first_votes=2, max_votes=3),
    Policy("anli", anli, first_votes=ANLI_VERIFIERS, max_votes=ANLI_VERIFIERS + 1, most=ANLI_VERIFIERS + 1),
    Policy("dynasent", dynasent, first_votes=DYNASENT_VOTES, max_votes=DYNASENT_VOTES, most=DYNASENT_VOTES),
):
    register_policy(_policy)
