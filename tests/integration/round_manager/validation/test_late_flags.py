"""A flag on a decided example reaches the owner, and does not undo the decision."""

from typing import Any

import pytest

from round_manager.errors import DecisionRefused
from round_manager.models import Example, ExampleStatus, Task, WorkSession
from round_manager.tasks.tasks import update_gold
from round_manager.validation.flags import (
    Flagged,
    FlaggedGold,
    count_late,
    find_example,
    flagged,
    flagged_gold,
    keep,
    withdraw,
)
from round_manager.validation.validators import gold_accuracy
from round_manager.work.validation_work import Judgement
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import OWNER, Panel
from tests.integration.round_manager.work.floor import pack_of

FLAG = "It names a person"
WHY = "I looked at it."


@pytest.fixture
def golden(seat: SeatPanel) -> Panel:
    """A task whose pages to validate have one known answer and one example."""
    return seat(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})


def known(panel: Panel) -> Example:
    """An example that people agreed on: the next page shows it as gold."""
    terms: dict[str, Any] = {"gold_label": "positive", "decided_at": panel.now, "votes_wanted": 0}
    return panel.floor.pending(status=ExampleStatus.VERIFIED, **terms)


def judged(panel: Panel, judgement: Judgement, voter: str = "V1") -> WorkSession:
    """A confirmed page on which a worker gave every item the same judgement."""
    panel.floor.pending()
    page = panel.floor.validating(voter)
    panel.floor.judge_all(page, judgement)
    panel.floor.finish(page)
    panel.floor.confirm(page)
    return page


def flagging(panel: Panel) -> Judgement:
    return Judgement(flag=panel.floor.spec.validation.flag_reasons[1], comment="two at once")


def late(panel: Panel) -> list[Flagged]:
    with panel.store.read() as session:
        return [one for one in flagged(session, panel.round) if not one.waits]


def gold_flags(panel: Panel) -> list[FlaggedGold]:
    with panel.store.read() as session:
        return flagged_gold(session, panel.round)


def accuracy(panel: Panel) -> list[str]:
    with panel.store.read() as session:
        rates = gold_accuracy(session, session.get_one(Task, panel.floor.task.id)).values()
    return [f"{rate.count} of {rate.of}" for rate in rates]


def say(panel: Panel, decision: Any, example: Example) -> None:
    with panel.store.write() as session:
        row = find_example(session, session.get_one(Task, panel.floor.task.id), example.public_id)
        decision(session, row, actor=OWNER, reason=WHY, now=panel.now)


def test_a_flag_on_a_decided_example_is_listed_and_undoes_nothing(panel: Panel) -> None:
    (example,) = panel.written()
    panel.vote(example, None, None)
    panel.decide()
    assert late(panel) == []
    panel.vote(example, flag=FLAG)
    panel.decide()
    assert (panel.status(example), panel.bonuses()) == (ExampleStatus.VERIFIED, {"owed": 1})
    (shown,) = late(panel)
    assert (shown.example, shown.status, shown.votes[-1].flag) == (example.public_id, ExampleStatus.VERIFIED, FLAG)
    with panel.store.read() as session:
        assert count_late(session, panel.round) == 1


def test_a_kept_example_is_listed_again_only_if_another_validator_flags_it(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, flag=FLAG)
    say(panel, keep, example)
    panel.vote(example, None, None)
    panel.decide()
    assert (panel.status(example), late(panel)) == (ExampleStatus.VERIFIED, [])
    panel.vote(example, flag=FLAG)
    assert len(late(panel)) == 1
    say(panel, keep, example)
    assert (panel.status(example), late(panel)) == (ExampleStatus.VERIFIED, [])
    with pytest.raises(DecisionRefused):
        say(panel, keep, example)


def test_a_withdrawn_example_is_no_longer_listed(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, None, None)
    panel.decide()
    panel.vote(example, flag=FLAG)
    say(panel, withdraw, example)
    assert (panel.status(example), late(panel)) == (ExampleStatus.WITHDRAWN, [])


def test_a_flag_on_gold_reaches_the_owner_and_lowers_no_score(golden: Panel) -> None:
    gold = known(golden)
    judged(golden, flagging(golden))
    (shown,) = late(golden)
    assert (shown.example, shown.round, shown.votes[0].comment) == (gold.public_id, 1, "two at once")
    assert golden.status(gold) is ExampleStatus.VERIFIED
    assert accuracy(golden) == []
    say(golden, keep, gold)
    assert late(golden) == []


def test_a_flag_on_gold_of_a_closed_round_is_listed_and_can_be_kept(golden: Panel) -> None:
    gold = known(golden)
    judged(golden, flagging(golden))
    golden.close()
    with pytest.raises(DecisionRefused):
        say(golden, withdraw, gold)
    assert len(late(golden)) == 1
    say(golden, keep, gold)
    assert late(golden) == []


def test_withdrawn_gold_lowers_no_score(golden: Panel) -> None:
    gold = known(golden)
    judged(golden, Judgement(label="negative"))
    assert accuracy(golden) == ["0 of 1"]
    say(golden, withdraw, gold)
    assert accuracy(golden) == []


def test_a_flag_on_the_owners_gold_is_listed_until_the_row_is_corrected(golden: Panel) -> None:
    (row,) = pack_of("sentiment").seed[:1]
    with golden.store.write() as session:
        update_gold(session, golden.floor.task, [row], now=golden.now)
    judged(golden, flagging(golden))
    (shown,) = gold_flags(golden)
    assert (shown.row, shown.target, shown.flags[0].comment) == (row.id, row.label, "two at once")
    assert accuracy(golden) == []
    with golden.store.write() as session:
        update_gold(session, golden.floor.task, [], now=golden.now)
    assert gold_flags(golden) == []


def test_unconfirmed_flags_are_ignored(golden: Panel) -> None:
    known(golden)
    golden.floor.pending()
    page = golden.floor.validating()
    golden.floor.judge_all(page, flagging(golden))
    golden.floor.finish(page)
    assert late(golden) == []
