"""When the demo's simulated colleagues write and validate."""

from dataclasses import dataclass, replace
from uuid import uuid4

import pytest

from plugin.demo.colleagues import COLLEAGUES, RoundPace, colleague_profiles, meaning_in
from plugin.demo.progress import ExampleState, RoundState
from round_manager.models import ExampleStatus, RoundStatus

MINUTES = 5.0


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


def example(*, simulated: bool = True, status: ExampleStatus = ExampleStatus.PENDING, text: str = "a") -> ExampleState:
    return ExampleState(uuid4(), 1, text, "positive", True, status, simulated, 0, 0, None, False)


def state(*examples: ExampleState, number: int = 1, status: RoundStatus = RoundStatus.OPEN) -> RoundState:
    return RoundState(number, status, 4, ("m1",), False, 60, (), examples)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def pace(watch: Watch) -> RoundPace:
    pace = RoundPace(MINUTES, watch)
    pace.update(state())
    return pace


def test_a_round_is_filled_evenly_over_its_minutes(pace: RoundPace, watch: Watch) -> None:
    assert not pace.may_write(1)
    written = []
    for minute in range(1, 6):
        watch.seconds = 100.0 + 60.0 * minute
        while pace.may_write(1):
            written.append(example())
            pace.left(1)
            pace.update(state(*written))
    assert len(written) == 4
    assert watch.seconds - 100.0 == 60.0 * MINUTES


def test_colleagues_who_are_writing_and_examples_of_people_count(pace: RoundPace, watch: Watch) -> None:
    watch.seconds += 60.0
    assert [pace.may_write(1), pace.may_write(2)] == [True, False]
    pace.left(1)
    assert pace.may_write(2)
    pace.left(2)
    pace.update(state(example(simulated=False)))
    assert not pace.may_write(3)


def test_a_disputed_example_is_replaced(pace: RoundPace, watch: Watch) -> None:
    watch.seconds += 60.0 * MINUTES
    pace.update(state(*(example() for _ in range(4))))
    assert not pace.may_write(1)
    pace.update(state(*(example() for _ in range(3)), example(status=ExampleStatus.DISPUTED)))
    assert pace.may_write(1)


def test_later_rounds_begin_with_an_example_of_a_person(pace: RoundPace, watch: Watch) -> None:
    pace.update(state(number=2))
    watch.seconds += 3600.0
    assert not pace.may_write(1)
    pace.update(state(example(simulated=False), number=2))
    assert not pace.may_write(1), "the round's minutes begin now"
    watch.seconds += 60.0 * MINUTES
    assert pace.may_write(1)


def test_nothing_is_written_in_a_round_that_has_ended(pace: RoundPace, watch: Watch) -> None:
    watch.seconds += 3600.0
    pace.update(state(status=RoundStatus.VALIDATING))
    assert not pace.may_write(1)


def test_people_get_a_moment_to_accept_validation_hits(pace: RoundPace, watch: Watch) -> None:
    assert not pace.may_check()
    for _ in range(10):
        watch.seconds += 2.0
        last = pace.may_check()
    assert last
    watch.seconds += 60.0
    assert not pace.may_check(), "these are new ones"


def test_colleagues_are_named_as_simulated_and_enough_for_every_vote() -> None:
    profiles = colleague_profiles()
    assert len({one.name for one in profiles}) == COLLEAGUES > 5
    assert all("Simulated" in one.name and one.honest for one in profiles)


def test_what_a_person_wrote_means_the_label_they_were_asked_for() -> None:
    examples = [example(text="theirs"), example(simulated=False, text="mine")]
    assert (meaning_in(examples, "mine"), meaning_in(examples, "theirs")) == ("positive", "")


def test_a_text_that_repeats_another_is_replaced(pace: RoundPace, watch: Watch) -> None:
    watch.seconds += 60.0 * MINUTES
    repeated = replace(example(simulated=False, status=ExampleStatus.VERIFIED), is_new=False)
    holding = state(repeated, *(example(status=ExampleStatus.VERIFIED) for _ in range(3)))
    assert holding.verified == 3
    pace.update(holding)
    assert pace.may_write(1)
