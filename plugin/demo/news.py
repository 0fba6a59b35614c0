"""What happens in the demo, as it happens: the outcome of the visitor's examples, and how the round moves on.

The texts name no sentence: what people typed stays out of terminals and logs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from common.text import count, dollars
from plugin.demo.progress import ExampleState, RoundState
from round_manager.models import EntryState, ExampleStatus, RoundStatus

Report = Callable[[str], None]
ExamplesOf = Callable[[int], Iterable[ExampleState]]
# After this time, the news says what an ended round waits for.
SECONDS_TO_END = 20.0
MOST_REASONS = 2
ENDED = (RoundStatus.VALIDATING, RoundStatus.CLOSED)
DECIDED = (ExampleStatus.FLAGGED, ExampleStatus.VERIFIED, ExampleStatus.DISPUTED)


@dataclass(frozen=True)
class Pointers:
    """Where to look next: addresses, the command up to its subcommand, and the task's name."""

    earnings: str
    label_studio: str
    outfox: str
    task: str
    has_colleagues: bool


class News:
    """Reports what changed between two states of the demo."""

    def __init__(self, report: Report, pointers: Pointers, now: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._pointers = pointers
        self._now = now
        self._known: RoundState | None = None
        self._ended_at: float | None = None

    def update(self, state: RoundState, examples_of: ExamplesOf = lambda _round: ()) -> None:
        """Report what is new since the last state; nothing the first time.

        If another round is open since then, `examples_of` returns how the examples of the earlier one ended.
        """
        known = self._known or state
        steps = [known, state]
        if known.number != state.number:
            ended = tuple(examples_of(known.number))
            steps.insert(1, replace(known, status=RoundStatus.CLOSED, frozen=True, examples=ended))
        self._known = state
        for before, after in pairwise(steps):
            for text in self._changes(before, after):
                self._report(f"{time.strftime('%H:%M:%S')}  {text}")

    def _changes(self, known: RoundState, state: RoundState) -> Iterator[str]:
        if known.number != state.number:
            yield from self._next_round(known, state)
            known = replace(state, frozen=False, examples=())
        before = {one.id: one for one in known.own}
        for example in reversed(state.own):
            yield from self._own(before.get(example.id), example, state)
        if state.verified > known.verified:
            yield f"{state.verified:,} of {count(state.target, 'validated fooling example')} of round {state.number}."
        yield from self._round(known, state)

    def _own(self, before: ExampleState | None, now: ExampleState, state: RoundState) -> Iterator[str]:
        was = before.status if before else None
        if was in (None, ExampleStatus.UNCONFIRMED) and now.status in DECIDED:
            # Decided since the last look.
            yield self._submitted(now)
        if now.status is not was:
            text = self._outcome(now, state)
            if text:
                yield text
        if now.bonus is EntryState.CONFIRMED and (before is None or before.bonus is not EntryState.CONFIRMED):
            yield f"Your bonus of {dollars(state.bonus_cents)} was paid: {self._pointers.earnings}"

    def _submitted(self, now: ExampleState) -> str:
        where = "in Label Studio" if now.in_label_studio else "on the marketplace"
        fooled = "fooled the model" if now.fooled else "did not fool the model"
        judges = "simulated colleagues" if self._pointers.has_colleagues else "other people"
        known = "" if now.is_new else " It repeats a known text, so it earns no bonus and the round does not count it."
        return f"Your example {where} {fooled}; now {judges} judge it.{known}"

    def _outcome(self, now: ExampleState, state: RoundState) -> str:
        if now.status is ExampleStatus.PENDING:
            return self._submitted(now)
        if now.status is ExampleStatus.VERIFIED:
            return f"Your example was validated by {_voters(now)}. {self._reward(now, state)}".rstrip()
        if now.status is ExampleStatus.DISPUTED:
            return f"Your example was disputed: too few votes agree with its label ({count(now.votes, 'vote')})."
        if now.status is ExampleStatus.FLAGGED:
            return (
                f"Your example was flagged; decide about it: {self._pointers.outfox} round flags {self._pointers.task}"
            )
        if now.status is ExampleStatus.UNCHECKED:
            return "Your example did not fool the model, and was not drawn for validation."
        return ""

    def _reward(self, now: ExampleState, state: RoundState) -> str:
        if now.in_label_studio:
            return "Work in Label Studio has no bonus; work on the marketplace has."
        return f"Its bonus of {dollars(state.bonus_cents)} is paid next." if now.bonus is not None else ""

    def _round(self, known: RoundState, state: RoundState) -> Iterator[str]:
        number, pointers = state.number, self._pointers
        if state.status in ENDED and known.status not in ENDED:
            yield f"Round {number} takes no new examples; what was started is finished, validated and paid."
            self._ended_at = self._now()
        if state.status is not RoundStatus.VALIDATING:
            self._ended_at = None
        is_late = self._ended_at is not None and self._now() - self._ended_at > SECONDS_TO_END
        if is_late and state.waits_for:
            self._ended_at = None
            yield f"Round {number} still waits: {'; '.join(state.waits_for[:MOST_REASONS])}."
        if state.frozen and not known.frozen:
            yield (
                f"Round {number} is closed and frozen, and the next model learns from it. How it went: "
                f"{pointers.outfox} round metrics {pointers.task}"
            )

    def _next_round(self, known: RoundState, state: RoundState) -> Iterator[str]:
        if not known.frozen:
            yield f"Round {known.number} is closed and frozen."
        models = ", ".join(state.versions)
        same = "the same as before: the new model was worse on earlier data, or there was nothing to learn"
        why = same if state.versions == known.versions else f"it learned from round {known.number}"
        yield f"Round {state.number} is open against {models} ({why})."
        yield f"Try to fool it again: {self._pointers.label_studio}"
        if self._pointers.has_colleagues:
            yield f"Your simulated colleagues write in round {state.number} as soon as you have written an example."


def _voters(example: ExampleState) -> str:
    if example.votes == example.simulated_votes:
        return count(example.votes, "simulated colleague")
    return f"{count(example.votes, 'person', 'people')}, {example.simulated_votes:,} of them simulated"
