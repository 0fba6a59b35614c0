"""Votes decide examples, by the round's policy, once and for good."""

from sqlalchemy import event, insert

from round_manager import migrations
from round_manager.database.store import open_store
from round_manager.models import Example, ExampleStatus, Source, Vote
from round_manager.workers import ensure_worker
from tests.integration.databases import Databases
from tests.integration.round_manager.validation.conftest import SeatPanel
from tests.integration.round_manager.validation.panel import Panel, seat_panel
from tests.integration.round_manager.work.floor import MARKET

VERIFIED, DISPUTED, PENDING = ExampleStatus.VERIFIED, ExampleStatus.DISPUTED, ExampleStatus.PENDING


def test_two_people_who_agree_with_the_author_verify_an_example(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example)
    assert panel.decide().verified == 0
    assert panel.status(example) is PENDING
    panel.vote(example)
    assert panel.decide().verified == 1
    kept = panel.floor.one(example)
    assert (kept.status, kept.gold_label, kept.decided_at) == (VERIFIED, example.label, panel.now)


def test_each_disagreement_adds_one_vote_until_more_than_half_agree(panel: Panel) -> None:
    example = panel.floor.pending()
    other = panel.other(example)
    panel.vote(example, None, other)
    assert panel.decide().want_more == 1
    assert panel.floor.one(example).votes_wanted == 3
    panel.vote(example, None)
    assert panel.decide().want_more == 1
    assert panel.floor.one(example).votes_wanted == 4
    panel.vote(example, None)
    assert panel.decide().verified == 1


def test_an_example_with_another_majority_label_is_disputed_with_that_label(panel: Panel) -> None:
    example = panel.floor.pending()
    other = panel.other(example)
    panel.vote(example, other, other, other)
    assert panel.decide().disputed == 1
    kept = panel.floor.one(example)
    assert (kept.status, kept.gold_label) == (DISPUTED, other)


def test_without_a_majority_there_is_no_gold_label(panel: Panel) -> None:
    example = panel.floor.pending()
    one, two = panel.other(example), panel.other(example, 1)
    panel.vote(example, None, one, two, None, one)
    assert panel.decide().disputed == 1
    kept = panel.floor.one(example)
    assert (kept.status, kept.gold_label) == (DISPUTED, None)


def test_a_late_vote_never_changes_a_decision(panel: Panel) -> None:
    early, late = panel.floor.pending(), panel.floor.pending()
    panel.vote(early)
    panel.vote(early)
    panel.decide()
    for example in (early, late):
        panel.vote(example, *[None] * (2 if example is late else 0), *[panel.other(example)] * 3)
    panel.decide()
    assert (panel.status(early), panel.status(late)) == (VERIFIED, VERIFIED)
    assert panel.uncounted() == 0


def test_answers_that_share_enough_words_agree(seat: SeatPanel) -> None:
    panel = seat("qa")
    (example,) = panel.written()
    passage, answer = str(example.fields["passage"]), dict(example.answer or {})
    assert not passage.startswith(answer["text"])
    # The author chose the last word; two words with it still share two thirds of theirs.
    before = passage[: answer["start"]].rstrip().rindex(" ") + 1
    panel.answer(example, before, answer["end"])
    panel.answer(example, answer["start"], answer["end"])
    assert panel.decide().verified == 1
    assert panel.floor.one(example).gold_answer == answer


def test_a_different_answer_that_validators_agree_on_is_the_gold_answer(seat: SeatPanel) -> None:
    panel = seat("qa")
    (example,) = panel.written()
    first = str(example.fields["passage"]).index(" ")
    for _ in range(3):
        panel.answer(example, 0, first)
    assert panel.decide().disputed == 1
    assert panel.floor.one(example).gold_answer["end"] == first


def test_the_rounds_own_policy_decides(seat: SeatPanel) -> None:
    panel = seat("nli")  # anli: two verifiers, and a third when they disagree
    agreed, split = panel.floor.pending(), panel.floor.pending()
    panel.vote(agreed, panel.other(agreed), panel.other(agreed))
    panel.vote(split, None, panel.other(split))
    found = panel.decide()
    assert (found.disputed, found.want_more) == (1, 1)
    panel.vote(split, panel.other(split, 1))
    assert panel.decide().disputed == 1
    assert panel.floor.one(split).gold_label is None


def test_an_example_that_did_not_fool_is_decided_like_any_other(panel: Panel) -> None:
    example = panel.floor.pending(fooled=False)
    panel.vote(example, None, None)
    assert panel.decide().verified == 1


def test_a_closed_round_decides_nothing_more(panel: Panel) -> None:
    example = panel.floor.pending()
    panel.vote(example, None, None)
    panel.close()
    assert panel.decide().verified == 0
    assert panel.status(example) is PENDING
    assert panel.uncounted() == 0


def test_each_vote_of_a_bulk_insert_is_queued(panel: Panel) -> None:
    examples = [panel.floor.pending() for _ in range(3)]
    with panel.store.write() as session:
        voters = [ensure_worker(session, MARKET, f"B{number}", now=panel.now).id for number in range(2)]
        row = {"source": Source.IMPORT, "item": 0, "voted_at": panel.now}
        rows = [
            {**row, "example_id": one.id, "author_id": one.author_id, "worker_id": voter, "label": one.label}
            for one in examples
            for voter in voters
        ]
        session.execute(insert(Vote), rows)
    assert panel.uncounted() == 6
    assert panel.decide().verified == 3


def test_only_examples_with_new_votes_are_read(panel: Panel) -> None:
    for _ in range(20):
        panel.vote(panel.floor.pending())
    assert panel.decide().want_more == 0
    example = panel.floor.pending()
    panel.vote(example, None, None)
    read: list[int] = []
    listener = lambda found, _: read.append(found.id)  # noqa: E731 - it is removed by its name
    event.listen(Example, "load", listener)
    try:
        assert panel.decide().verified == 1
    finally:
        event.remove(Example, "load", listener)
    assert read == [example.id]
    assert len(panel.floor.rows(Example, Example.status == PENDING)) == 20


def test_the_migration_queues_earlier_votes(databases: Databases) -> None:
    url = databases.migrated()
    with open_store(url) as store:
        panel = seat_panel(store)
        decided, waiting = panel.floor.pending(), panel.floor.pending()
        panel.vote(decided, None, None)
        panel.decide()
        panel.vote(waiting, None, None)
        migrations.downgrade(store.engine, "0009")
        store.upgrade()
        assert panel.uncounted() == 2
        assert panel.decide().verified == 1
    databases.drop(url)
