from typing import Any

import pytest

from round_manager.errors import VoteRefused
from round_manager.examples.submissions import submit
from round_manager.models import Example, ExampleStatus, Round, RoundStatus, Source, Vote
from round_manager.work.validation_work import cast_vote
from tests.fakes.clock import NOON
from tests.integration.round_manager.stage import Stage


def example_of(stage: Stage) -> int:
    given = stage.submission()
    with stage.store.write() as session:
        return submit(session, session.get_one(Round, stage.round.id), given, stage.verdict(given), now=NOON).id


def vote(stage: Stage, example: int, worker: int | None = None, **judgement: Any) -> Vote:
    with stage.store.write() as session:
        return cast_vote(
            session,
            session.get_one(Example, example),
            stage.voter if worker is None else worker,
            source=Source.LABEL_STUDIO,
            voted_at=NOON,
            **judgement,
        )


def status_of(stage: Stage, example: int) -> ExampleStatus:
    with stage.store.read() as session:
        return session.get_one(Example, example).status


def test_a_vote_is_kept_and_leaves_the_example_pending(stage: Stage) -> None:
    example = example_of(stage)
    kept = vote(stage, example, label="positive", comment="  ", active_ms=4_000)
    assert (kept.label, kept.comment, kept.active_ms, kept.author_id) == ("positive", None, 4_000, stage.author)
    assert status_of(stage, example) is ExampleStatus.PENDING


def test_a_flag_sends_the_example_to_its_owner(stage: Stage) -> None:
    example = example_of(stage)
    kept = vote(stage, example, flag="It makes no sense", comment="Really not.")
    assert (kept.flag, kept.comment) == ("It makes no sense", "Really not.")
    assert status_of(stage, example) is ExampleStatus.FLAGGED


def test_a_flag_does_not_undo_a_decision(stage: Stage) -> None:
    example = example_of(stage)
    with stage.store.write() as session:
        decided = session.get_one(Example, example)
        decided.status, decided.decided_at, decided.gold_label = ExampleStatus.VERIFIED, NOON, "positive"
    vote(stage, example, flag="It makes no sense")
    assert status_of(stage, example) is ExampleStatus.VERIFIED


def test_no_validator_judges_their_own_example(stage: Stage) -> None:
    with pytest.raises(VoteRefused, match="their own"):
        vote(stage, example_of(stage), stage.author, label="positive")


def test_no_validator_judges_an_example_twice(stage: Stage) -> None:
    example = example_of(stage)
    vote(stage, example, label="positive")
    with pytest.raises(VoteRefused, match="already"):
        vote(stage, example, label="negative")


@pytest.mark.parametrize(
    "judgement",
    [
        {},
        {"label": "positive", "flag": "no"},
        {"label": "splendid"},
        {"label": ""},
        {"answer": {"text": "x", "start": 0, "end": 1}},
        {"flag": "  "},
        {"label": "positive", "comment": "\x00"},
    ],
)
def test_an_invalid_vote_is_refused(stage: Stage, judgement: dict[str, Any]) -> None:
    with pytest.raises(VoteRefused):
        vote(stage, example_of(stage), **judgement)


def test_an_answer_in_a_vote_is_a_span_of_the_passage(qa: Stage) -> None:
    example = example_of(qa)
    with pytest.raises(VoteRefused, match="where it was selected"):
        vote(qa, example, answer={"text": "nothing", "start": 0, "end": 7})
    kept = vote(qa, example, answer=qa.answer())
    assert kept.answer == qa.answer()


def test_a_closed_round_accepts_no_votes(stage: Stage) -> None:
    example = example_of(stage)
    for status, moment in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
        with stage.store.write() as session:
            closing = session.get_one(Round, stage.round.id)
            closing.status = status
            setattr(closing, moment, NOON)
    with pytest.raises(VoteRefused, match="is closed and takes no votes"):
        vote(stage, example, label="positive")


def test_a_withdrawn_example_accepts_no_votes(stage: Stage) -> None:
    example = example_of(stage)
    with stage.store.write() as session:
        gone = session.get_one(Example, example)
        gone.status, gone.decided_at = ExampleStatus.WITHDRAWN, NOON
    with pytest.raises(VoteRefused, match="withdrawn"):
        vote(stage, example, label="positive")
