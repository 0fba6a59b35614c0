"""Validation policies: when an example has had votes enough, and what people then say that it is.

A policy looks at the votes in the order in which they were given, and the first moment at which it can settle an
example settles it: votes that come later change nothing, and whoever replays the same votes gets the same answer. A
further policy is a `Policy`, registered in the program with `register_policy` or by another package under the entry
point group `outfox.validation_policies`; task.yaml then names it.
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
    """Not settled: so many votes in all are wanted."""

    votes: int


@dataclass(frozen=True)
class Settled:
    """What people say it is; None where they do not agree on anything."""

    gold: str | None


Ruling = Wants | Settled
# The votes so far, what the author says, and the task's settings.
Rule = Callable[[Sequence[str], str, Validation], Ruling]


@dataclass(frozen=True)
class Policy:
    """A rule with its name in task.yaml, and the fewest first_votes and max_votes that it works with.

    A rule that never wants more than `most` votes, whatever the task's max_votes, says so: costs go by that.
    """

    name: str
    rule: Rule
    first_votes: int = 1
    max_votes: int = 1
    most: int | None = None

    def problem(self, settings: Validation) -> str | None:
        """What is wrong with a task's numbers; None when they fit."""
        if settings.first_votes >= self.first_votes and settings.max_votes >= self.max_votes:
            return None
        needs = f"first_votes of at least {self.first_votes} and max_votes of at least {self.max_votes}"
        return f"policy {self.name} needs {needs}"

    def first_wanted(self, settings: Validation) -> int:
        """How many votes an example gets before anybody can tell more: what the rule wants of one that has none."""
        ruling = self.rule((), "", settings)
        # A rule that needs no votes decides when somebody has looked.
        return ruling.votes if isinstance(ruling, Wants) else self.first_votes

    def most_wanted(self, settings: Validation) -> int:
        """How many votes an example gets at most."""
        return settings.max_votes if self.most is None else self.most


# Gives the votes names that a policy can count: what agrees gets the same one, and what agrees with the author, theirs.
Grouping = Callable[[Sequence[str], str], Sequence[str]]

_POLICIES: dict[str, Policy] = {}


def register_policy(policy: Policy) -> Policy:
    """Lets task.yaml use the policy by its name."""
    if _POLICIES.setdefault(policy.name, policy) is not policy:
        raise PolicyError(f"there is already a validation policy `{policy.name}`; choose another name")
    return policy


def find_policy(name: str) -> Policy:
    """The policy of that name, ours or another package's."""
    if name in _POLICIES:
        return _POLICIES[name]
    for entry in entry_points(group=GROUP, name=name):
        policy = entry.load()
        if not isinstance(policy, Policy):
            raise PolicyError(f"what is registered as validation policy `{name}` is no Policy; mend {entry.value}")
        return _POLICIES.setdefault(name, policy)
    raise PolicyError(f"there is no policy `{name}`; write one of {', '.join(known_policies())}")


def first_votes(settings: Validation) -> int:
    """How many votes every example gets first, by the policy that the task names; its rule may not ask the task."""
    return find_policy(settings.policy).first_wanted(settings)


def most_votes(settings: Validation) -> int:
    """How many votes an example gets at most, by the policy that the task names."""
    return find_policy(settings.policy).most_wanted(settings)


def known_policies() -> list[str]:
    """Every name that task.yaml can use."""
    return [*_POLICIES, *sorted(entry_points(group=GROUP).names - _POLICIES.keys())]


def exactly(votes: Sequence[str], author: str) -> Sequence[str]:
    """Votes that agree when they are equal, as labels do."""
    return votes


def replay(
    policy: Policy, settings: Validation, votes: Sequence[str], author: str, grouping: Grouping = exactly
) -> Ruling:
    """What the policy says of votes that were given in this order: the first that settles it, else what it wants."""
    ruling: Ruling = Wants(settings.first_votes)
    for count in range(len(votes) + 1):
        ruling = policy.rule(grouping(votes[:count], author), author, settings)
        if isinstance(ruling, Settled):
            return ruling
    if isinstance(ruling, Wants) and ruling.votes <= len(votes):
        raise PolicyError(f"policy {policy.name} wants {ruling.votes} votes of an example that has {len(votes)}")
    return ruling


def adaptive(votes: Sequence[str], author: str, settings: Validation) -> Ruling:
    """Verified when the first votes all agree with the author; else one more at a time, and more than half decides.

    Half is of max_votes, so a label wins as soon as no further vote could take that away, and nobody is asked once no
    label can get there any more. A label that fewer name is no gold label, even if it is named most.
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
    """Two verifiers, and a third when they disagree: the label that two of them name."""
    given = len(votes)
    if given < ANLI_VERIFIERS:
        return Wants(ANLI_VERIFIERS)
    label, most = Counter(votes).most_common(1)[0]
    if most >= ANLI_VERIFIERS:
        return Settled(label)
    return Wants(given + 1) if given == ANLI_VERIFIERS else Settled(None)


def dynasent(votes: Sequence[str], author: str, settings: Validation) -> Ruling:
    """Five votes, always: the label that at least three of them name, else no gold label."""
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
