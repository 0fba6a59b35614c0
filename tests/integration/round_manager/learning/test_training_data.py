"""Training rows: everything that may be trained on, and no held-out rows."""

from collections.abc import Sequence

import pytest

from round_manager.errors import NothingToLearn, RoundNotClosed, RoundNotReady
from round_manager.examples.submissions import content_sha256
from round_manager.learning.training_data import TrainingRows, rows_to_learn, training_rows
from round_manager.models import ExampleStatus, Round, Split
from round_manager.services.archives import split_round
from round_manager.services.context import Actor, ServiceContext
from templates import SeedRow, find_pack
from templates.spec import TaskSpec
from tests.campaign.training import RoundRow, TrainingCampaign, first_round_rows
from tests.fakes.clock import SettableClock

FROM_SEED = 12
WORDS = "apples bridges candles drums engines forests gardens harbours islands jackets kettles lanterns mirrors needles"


def texts(rows: Sequence[SeedRow], split: str) -> set[str]:
    return {row.fields["text"] for row in rows if row.split == split}


def counts(data: TrainingRows) -> list[tuple[int | None, int, int]]:
    return [(source.round, source.rows, source.left_out) for source in data.sources]


@pytest.mark.any_database
def test_the_seed_and_every_closed_rounds_train_split_are_used(training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    training.add_closed_round([RoundRow("A second round's row."), RoundRow("One to measure on.", split=Split.HELD_OUT)])
    data = training.training_rows()
    assert counts(data) == [(None, FROM_SEED, 0), (1, 6, 0), (2, 1, 0)]
    assert "A second round's row." in texts(data.rows, "train")
    assert [(part.name, len(part.rows)) for part in data.held_out] == [("seed", 6), ("round 1", 4), ("round 2", 1)]
    assert data.last.number == 2
    assert texts(data.rows, "held_out") == texts(data.held_out[0].rows, "held_out"), "rounds choose no epoch"


@pytest.mark.any_database
def test_no_training_row_is_a_copy_of_a_held_out_row(training: TrainingCampaign) -> None:
    seed = next(row.fields["text"] for row in training.pack.seed if row.split == "train")
    kept = next(row.fields["text"] for row in training.pack.seed if row.split == "held_out")
    training.add_closed_round(
        [
            RoundRow("Copied   from the round\nthat comes.", label="positive"),
            RoundRow("A row of its own."),
            RoundRow(kept),
            RoundRow("Held out from the first.", split=Split.HELD_OUT),
        ]
    )
    training.add_closed_round(
        [
            RoundRow("Copied from the round that comes.", split=Split.HELD_OUT),
            RoundRow(f" {seed}", split=Split.HELD_OUT),
            RoundRow("Held out  from the first."),
            RoundRow("Held out from the\u200b first."),
            RoundRow("Another row of its own."),
        ]
    )
    data = training.training_rows()
    assert counts(data) == [(None, FROM_SEED - 1, 1), (1, 1, 2), (2, 1, 2)]
    spec = training.pack.spec
    held_out = {content_sha256(spec, row.fields) for part in data.held_out for row in part.rows}
    learned = [content_sha256(spec, row.fields) for row in data.rows if row.split == "train"]
    assert held_out.isdisjoint(learned)
    assert len(set(learned)) == len(learned)


@pytest.mark.any_database
def test_of_duplicates_in_several_rounds_the_first_is_used(training: TrainingCampaign) -> None:
    training.add_closed_round([RoundRow("The same text.", "negative")])
    training.add_closed_round([RoundRow("The  same text.", "positive"), RoundRow("Something new.")])
    data = training.training_rows()
    assert counts(data) == [(None, FROM_SEED, 0), (1, 1, 0), (2, 1, 1)]
    assert [row.label for row in data.rows if "same text" in row.fields["text"]] == ["negative"]


@pytest.mark.any_database
def test_only_verified_examples_with_a_split_are_used(training: TrainingCampaign) -> None:
    training.add_closed_round(
        [
            RoundRow("Verified."),
            RoundRow("Disputed.", status=ExampleStatus.DISPUTED),
            RoundRow("Unchecked.", status=ExampleStatus.UNCHECKED),
            RoundRow("Verified, and a copy that was put aside.", split=None),
        ]
    )
    assert counts(training.training_rows())[1:] == [(1, 1, 0)]


def test_the_hashes_do_not_depend_on_the_order_of_examples(training: TrainingCampaign) -> None:
    rows = [RoundRow(f"Text {number}.") for number in range(5)]
    training.add_closed_round(rows)
    training.add_closed_round([RoundRow(f"Other {row.text}") for row in reversed(rows)])
    other = [RoundRow(f"Other {row.text}") for row in rows]
    wanted = training.training_rows().sources[2].sha256
    training.add_closed_round([RoundRow(f"Third {row.text}") for row in other])
    assert training.training_rows(up_to=2).sources[2].sha256 == wanted
    assert training.training_rows().sources[2].sha256 == wanted
    assert len({source.sha256 for source in training.training_rows().sources}) == 4


@pytest.mark.any_database
def test_a_row_with_a_removed_label_is_left_out(training: TrainingCampaign) -> None:
    training.add_closed_round(
        [RoundRow("Up.", "positive"), RoundRow("Down."), RoundRow("Up and away.", "positive", Split.HELD_OUT)]
    )
    labels = tuple(label for label in training.pack.spec.labels if label.name != "positive")
    spec = training.pack.spec.model_copy(update={"labels": labels})
    with training.store.read() as session:
        data = training_rows(session, training.task_in(session), spec, training.pack.seed)
    assert counts(data)[1:] == [(1, 1, 1)]
    assert [part.name for part in data.held_out] == ["seed"], "nothing that fits is held out of the round"


@pytest.mark.any_database
def test_the_training_rows_of_a_round_are_its_train_split(training: TrainingCampaign) -> None:
    last = training.add_closed_round([RoundRow(f"{word} and nothing else.") for word in WORDS.split()], split=False)
    with training.store.read() as session:
        assert rows_to_learn(session, session.get_one(Round, last.id)) is None
    report = split_round(ServiceContext(training.store, SettableClock()), Actor("ada"), last.id)
    with training.store.read() as session:
        assert rows_to_learn(session, session.get_one(Round, last.id)) == report.train
    data = training.training_rows()
    assert (data.sources[1].rows, len(data.held_out[1].rows)) == (report.train, report.held_out)
    assert report.train > 0
    assert report.held_out > 0


@pytest.mark.any_database
def test_without_a_closed_round_there_are_no_rows(training: TrainingCampaign) -> None:
    with pytest.raises(RoundNotClosed):
        training.training_rows()


@pytest.mark.any_database
def test_a_round_that_is_not_split_yet_is_an_error(training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows(), split=False)
    with pytest.raises(RoundNotReady):
        training.training_rows()


@pytest.mark.any_database
def test_a_round_without_a_verified_example_leaves_the_model_as_it_is(training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    training.add_closed_round([RoundRow("Disputed.", status=ExampleStatus.DISPUTED, split=None)])
    with pytest.raises(NothingToLearn):
        training.training_rows()


@pytest.mark.any_database
def test_a_round_of_duplicates_has_nothing_to_learn(training: TrainingCampaign) -> None:
    training.add_closed_round(first_round_rows())
    training.add_closed_round([RoundRow(row.text) for row in first_round_rows()])
    with pytest.raises(NothingToLearn, match="10 rows"):
        training.training_rows()


def qa_row(spec: TaskSpec, answer: dict[str, object]) -> SeedRow | None:
    from round_manager.examples.rows import row_of_example

    fields = {"question": "Who rows?", "passage": "Anna rows. Anna sings."}
    return row_of_example("1", Split.TRAIN, fields, None, answer, spec)


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        ({"text": "Anna", "start": 11, "end": 15}, 11),
        ({"text": "Anna", "start": 3}, 0),
        ({"text": "sings"}, 16),
        ({"text": "Bert", "start": 0}, None),
        ({"text": " "}, None),
        ({}, None),
    ],
)
def test_an_answer_is_learned_at_its_position(answer: dict[str, object], start: int | None) -> None:
    row = qa_row(find_pack("qa").spec, answer)
    assert (row.answer_start if row else None) == start
