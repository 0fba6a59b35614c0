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
from tests.fakes.clock import SettableClock
from tests.integration.round_manager.learning.school import Row, School, first_round

FROM_SEED = 12
WORDS = "apples bridges candles drums engines forests gardens harbours islands jackets kettles lanterns mirrors needles"


def texts(rows: Sequence[SeedRow], split: str) -> set[str]:
    return {row.fields["text"] for row in rows if row.split == split}


def counts(data: TrainingRows) -> list[tuple[int | None, int, int]]:
    return [(source.round, source.rows, source.left_out) for source in data.sources]


def test_the_seed_and_every_closed_rounds_train_split_are_used(school: School) -> None:
    school.round_over(first_round())
    school.round_over([Row("A second round's row."), Row("One to measure on.", split=Split.HELD_OUT)])
    data = school.rows()
    assert counts(data) == [(None, FROM_SEED, 0), (1, 6, 0), (2, 1, 0)]
    assert "A second round's row." in texts(data.rows, "train")
    assert [(part.name, len(part.rows)) for part in data.held_out] == [("seed", 6), ("round 1", 4), ("round 2", 1)]
    assert data.last.number == 2
    assert texts(data.rows, "held_out") == texts(data.held_out[0].rows, "held_out"), "rounds choose no epoch"


def test_no_training_row_is_a_copy_of_a_held_out_row(school: School) -> None:
    seed = next(row.fields["text"] for row in school.pack.seed if row.split == "train")
    kept = next(row.fields["text"] for row in school.pack.seed if row.split == "held_out")
    school.round_over(
        [
            Row("Copied   from the round\nthat comes.", label="positive"),
            Row("A row of its own."),
            Row(kept),
            Row("Held out from the first.", split=Split.HELD_OUT),
        ]
    )
    school.round_over(
        [
            Row("Copied from the round that comes.", split=Split.HELD_OUT),
            Row(f" {seed}", split=Split.HELD_OUT),
            Row("Held out  from the first."),
            Row("Held out from the\u200b first."),
            Row("Another row of its own."),
        ]
    )
    data = school.rows()
    assert counts(data) == [(None, FROM_SEED - 1, 1), (1, 1, 2), (2, 1, 2)]
    spec = school.pack.spec
    held_out = {content_sha256(spec, row.fields) for part in data.held_out for row in part.rows}
    learned = [content_sha256(spec, row.fields) for row in data.rows if row.split == "train"]
    assert held_out.isdisjoint(learned)
    assert len(set(learned)) == len(learned)


def test_of_duplicates_in_several_rounds_the_first_is_used(school: School) -> None:
    school.round_over([Row("The same text.", "negative")])
    school.round_over([Row("The  same text.", "positive"), Row("Something new.")])
    data = school.rows()
    assert counts(data) == [(None, FROM_SEED, 0), (1, 1, 0), (2, 1, 1)]
    assert [row.label for row in data.rows if "same text" in row.fields["text"]] == ["negative"]


def test_only_verified_examples_with_a_split_are_used(school: School) -> None:
    school.round_over(
        [
            Row("Verified."),
            Row("Disputed.", status=ExampleStatus.DISPUTED),
            Row("Unchecked.", status=ExampleStatus.UNCHECKED),
            Row("Verified, and a copy that was put aside.", split=None),
        ]
    )
    assert counts(school.rows())[1:] == [(1, 1, 0)]


def test_the_hashes_do_not_depend_on_the_order_of_examples(school: School) -> None:
    rows = [Row(f"Text {number}.") for number in range(5)]
    school.round_over(rows)
    school.round_over([Row(f"Other {row.text}") for row in reversed(rows)])
    other = [Row(f"Other {row.text}") for row in rows]
    wanted = school.rows().sources[2].sha256
    school.round_over([Row(f"Third {row.text}") for row in other])
    assert school.rows(up_to=2).sources[2].sha256 == wanted
    assert school.rows().sources[2].sha256 == wanted
    assert len({source.sha256 for source in school.rows().sources}) == 4


def test_a_row_with_a_removed_label_is_left_out(school: School) -> None:
    school.round_over([Row("Up.", "positive"), Row("Down."), Row("Up and away.", "positive", Split.HELD_OUT)])
    labels = tuple(label for label in school.pack.spec.labels if label.name != "positive")
    spec = school.pack.spec.model_copy(update={"labels": labels})
    with school.store.read() as session:
        data = training_rows(session, school.task(session), spec, school.pack.seed)
    assert counts(data)[1:] == [(1, 1, 1)]
    assert [part.name for part in data.held_out] == ["seed"], "nothing that fits is held out of the round"


def test_the_training_rows_of_a_round_are_its_train_split(school: School) -> None:
    last = school.round_over([Row(f"{word} and nothing else.") for word in WORDS.split()], split=False)
    with school.store.read() as session:
        assert rows_to_learn(session, session.get_one(Round, last.id)) is None
    report = split_round(ServiceContext(school.store, SettableClock()), Actor("ada"), last.id)
    with school.store.read() as session:
        assert rows_to_learn(session, session.get_one(Round, last.id)) == report.train
    data = school.rows()
    assert (data.sources[1].rows, len(data.held_out[1].rows)) == (report.train, report.held_out)
    assert report.train > 0
    assert report.held_out > 0


def test_without_a_closed_round_there_are_no_rows(school: School) -> None:
    with pytest.raises(RoundNotClosed):
        school.rows()


def test_a_round_that_is_not_split_yet_is_an_error(school: School) -> None:
    school.round_over(first_round(), split=False)
    with pytest.raises(RoundNotReady):
        school.rows()


def test_a_round_without_a_verified_example_leaves_the_model_as_it_is(school: School) -> None:
    school.round_over(first_round())
    school.round_over([Row("Disputed.", status=ExampleStatus.DISPUTED, split=None)])
    with pytest.raises(NothingToLearn):
        school.rows()


def test_a_round_of_duplicates_has_nothing_to_learn(school: School) -> None:
    school.round_over(first_round())
    school.round_over([Row(row.text) for row in first_round()])
    with pytest.raises(NothingToLearn, match="10 rows"):
        school.rows()


def qa_row(spec: TaskSpec, answer: dict[str, object]) -> SeedRow | None:
    from round_manager.learning.training_data import _row

    fields = {"question": "Who rows?", "passage": "Anna rows. Anna sings."}
    return _row("1", Split.TRAIN, fields, None, answer, spec)


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
