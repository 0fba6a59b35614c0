"""Votes read from the validation project: blind, counted once, and only from the annotation's own user."""

import pytest

from round_manager.labelstudio.sync import SyncResult
from round_manager.models import Example, ProjectKind, Vote
from tests.unit.round_manager.labelstudio.conftest import Worlds

VALIDATE = ProjectKind.VALIDATE


def test_a_vote_is_blind_and_counts_once(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"])
    assert world.push().validations == 2
    numbers = world.tasks(VALIDATE)
    assert [dict(world.studio.tasks[one].data) for one in numbers] == [{"text": "positive, they said"}] * 2
    world.studio.annotate(numbers[0], world.judged(label="negative", comment="clear"), user=8)
    assert world.sync() == SyncResult(read=1, votes=1)
    (vote,) = world.rows(Vote)
    assert (vote.label, vote.comment, vote.example_id) == ("negative", "clear", world.rows(Example)[0].id)
    assert world.push().validations == 0


def test_a_flagged_example_goes_to_the_owner_and_gets_no_more_votes(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"])
    world.push()
    flag = world.pack.spec.validation.flag_reasons[0]
    world.studio.annotate(world.tasks(VALIDATE)[0], world.judged(flag=flag), user=8)
    assert world.sync().votes == 1
    assert world.rows(Example)[0].status.value == "flagged"
    assert world.push().validations == 0


@pytest.mark.parametrize("user", [7, 8])
def test_a_refused_vote_frees_its_place(worlds: Worlds, user: int) -> None:
    world = worlds()
    world.examples(["positive, they said"], user=7)
    world.push()
    first, second = world.tasks(VALIDATE)
    world.studio.annotate(first, world.judged(label="negative"), user=8)
    world.studio.annotate(second, world.judged(label="negative"), user=user)  # the author, or the same one again
    assert world.sync() == SyncResult(read=2, votes=1, problems=1)
    assert world.push().validations == 1
    third = world.tasks(VALIDATE)[-1]
    world.studio.annotate(third, world.judged(label="negative"), user=9)
    assert world.sync().votes == 1
    assert world.push().validations == 0


def test_a_vote_in_another_users_name_is_not_counted(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"], user=7)
    world.push()
    world.studio.annotate(world.tasks(VALIDATE)[0], world.judged(label="negative"), user=8, updated_by=9)
    assert world.sync() == SyncResult(read=1, problems=1)
    assert "in the name of user 8" in world.status().projects[1].problems[0].text


def test_a_vote_on_a_task_that_shows_another_text_is_a_problem(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive, they said"], user=7)
    world.push()
    number = world.tasks(VALIDATE)[0]
    world.studio.tasks[number].data.update(text="I am furious")  # type: ignore[attr-defined]
    world.studio.annotate(number, world.judged(label="negative"), user=8)
    assert world.sync() == SyncResult(read=1, problems=1)
