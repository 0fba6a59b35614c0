"""The state of the demo's round: its examples with their authors, votes and bonuses."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from round_manager.models import EntryState, ExampleStatus, RoundStatus, Source, spec_of
from round_manager.services.context import ServiceContext
from round_manager.services.tasks import list_rounds, show_overview
from round_manager.services.validation import list_examples

PAGE = 200
COUNTED = (ExampleStatus.PENDING, ExampleStatus.FLAGGED, ExampleStatus.VERIFIED)


@dataclass(frozen=True)
class ExampleState:
    """One example; `bonus` is the state of its bonus, None if it has none.

    `is_new` is whether its text repeats no known one: only new texts count towards the target.
    """

    id: UUID
    round: int
    text: str
    label: str
    fooled: bool
    status: ExampleStatus
    simulated: bool
    votes: int
    simulated_votes: int
    bonus: EntryState | None
    in_label_studio: bool
    is_new: bool = True


@dataclass(frozen=True)
class RoundState:
    """The task's round, with its examples as far as they are confirmed."""

    number: int
    status: RoundStatus
    target: int
    versions: tuple[str, ...]
    frozen: bool
    bonus_cents: int
    waits_for: tuple[str, ...]
    examples: tuple[ExampleState, ...]

    @property
    def expected(self) -> int:
        """What the round will have of its target if all votes to come agree with the authors."""
        return sum(one.fooled and one.is_new and one.status in COUNTED for one in self.examples)

    @property
    def verified(self) -> int:
        """What the round has of its target: validated fooling examples with new texts."""
        return sum(one.fooled and one.is_new and one.status is ExampleStatus.VERIFIED for one in self.examples)

    @property
    def own(self) -> tuple[ExampleState, ...]:
        """The examples that people wrote."""
        return tuple(one for one in self.examples if not one.simulated)

    @property
    def takes_colleagues(self) -> bool:
        """Whether simulated colleagues write: in the first round at once, later when a person has begun."""
        return self.status is RoundStatus.OPEN and (self.number == 1 or bool(self.own))


def round_state(context: ServiceContext, task: str) -> RoundState:
    """Return the state of the task's live round, else of the last one that was opened."""
    (overview,) = show_overview(context, task, has_marketplace=True).tasks
    number = overview.round
    found = next(one for one in list_rounds(context, task) if one.round.number == number)
    return RoundState(
        number=number,
        status=found.round.status,
        target=found.round.target_fooling,
        versions=found.versions,
        frozen=found.round.frozen_at is not None,
        bonus_cents=spec_of(found.round).pay.fooled_bonus_cents,
        # What the manager does next by itself is left out.
        waits_for=tuple(one.text for one in overview.waits_for if one.hint is None or one.hint.action != "run_manager"),
        examples=tuple(examples_of(context, task, number)),
    )


def examples_of(context: ServiceContext, task: str, number: int) -> Iterator[ExampleState]:
    """Yield the examples of a round, newest first."""
    after: UUID | None = None
    while True:
        page = list_examples(context, task, number=number, after=after, limit=PAGE)
        (text,) = spec_of(page.round).with_role("input")
        for one in page.examples:
            example = one.example
            yield ExampleState(
                id=example.public_id,
                round=number,
                text=str(example.fields[text.name]),
                label=example.label or "",
                fooled=example.fooled,
                status=example.status,
                simulated=one.simulated,
                votes=one.votes,
                simulated_votes=one.simulated_votes,
                bonus=one.bonus,
                in_label_studio=example.source is Source.LABEL_STUDIO,
                is_new=example.duplicate is None,
            )
        if page.next_after is None:
            return
        after = page.next_after
