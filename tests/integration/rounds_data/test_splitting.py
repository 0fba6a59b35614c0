"""Splits follow from ids: nobody in both parts, no duplicate in both, the same however often they are drawn."""

from collections import defaultdict
from typing import Any

import pytest
from sqlalchemy import select

from round_manager.archive.splitting import split_report, split_round, split_with_pauses
from round_manager.database.store import Store
from round_manager.errors import RoundError
from round_manager.models import Example, ExampleStatus, Split
from tests.fakes.clock import NOON, SettableClock
from tests.integration.rounds_data.played import Played, play, text_of
from tests.integration.services.stage import set_stage

ALL_VERIFIED = (ExampleStatus.VERIFIED,)


def parts(played: Played) -> dict[int, tuple[int, Split | None]]:
    """The author and the part of each verified example, by its place."""
    with played.store.read() as session:
        rows = session.scalars(select(Example).where(Example.round_id == played.round_id).order_by(Example.public_id))
        return {
            place: (row.author_id, row.split) for place, row in enumerate(rows) if row.status is ExampleStatus.VERIFIED
        }


def split(played: Played) -> Any:
    return split_with_pauses(played.store, played.round_id, SettableClock())


def test_no_worker_is_in_both_parts_and_both_have_their_share(store: Store) -> None:
    played = play(store, examples=60, statuses=ALL_VERIFIED)
    report = split(played)
    sides = defaultdict(set)
    for author, part in parts(played).values():
        sides[author].add(part)
    assert sorted(map(len, sides.values())) == [1] * 6
    assert (report.verified, report.train, report.held_out, report.workers) == (60, 50, 10, 6)


def test_splitting_again_changes_nothing_and_says_the_same(store: Store) -> None:
    played = play(store)
    first, before = split(played), parts(played)
    with store.write() as session:
        again = split_round(session, played.row(), now=NOON)
    assert (again, parts(played)) == (first, before)
    with store.read() as session:
        assert split_report(session, played.row()) == first


def test_one_transaction_and_many_split_alike(store: Store) -> None:
    played = play(store, statuses=ALL_VERIFIED)
    with store.write() as session:
        in_one = split_round(session, played.row(), now=NOON)
        session.flush()
        query = select(Example.public_id, Example.split).order_by(Example.public_id)
        drawn = session.execute(query).all()
        session.rollback()
    assert split(played) == in_one
    with store.read() as session:
        assert session.execute(query).all() == drawn


def test_where_one_worker_wrote_everything_nothing_is_held_out_and_it_is_said(store: Store) -> None:
    played = play(store, author=lambda _: 0, statuses=ALL_VERIFIED)
    report = split(played)
    assert (report.train, report.held_out) == (40, 0)
    assert "one worker wrote everything" in report.note


def test_by_example_a_worker_may_be_in_both_parts(store: Store) -> None:
    played = play(store, author=lambda _: 0, statuses=ALL_VERIFIED, policy={"split_by_worker": False})
    report = split(played)
    assert (report.train, report.held_out, report.note) == (32, 8, "")


def test_of_exact_duplicates_the_first_is_used(store: Store) -> None:
    same = play(store, text=lambda number: text_of(number % 30), statuses=ALL_VERIFIED)
    report = split(same)
    found = parts(same)
    assert report.exact_duplicates == 10
    assert [found[place][1] is None for place in range(40)] == [False] * 30 + [True] * 10


@pytest.mark.parametrize("by_worker", [True, False])
def test_near_duplicates_are_never_in_both_parts(store: Store, by_worker: bool) -> None:
    def text(number: int) -> str:
        # Twenty texts, each written twice by different people, the second time a little louder.
        return text_of(number % 20) if number < 20 else f"{text_of(number % 20).upper()} !!"

    played = play(store, text=text, statuses=ALL_VERIFIED, policy={"split_by_worker": by_worker})
    report = split(played)
    found = parts(played)
    assert (report.near_duplicates, report.near_groups, report.exact_duplicates) == (20, 20, 0)
    for place in range(20):
        assert len({found[place][1], found[place + 20][1]} - {None}) == 1
    assert report.train + report.held_out + report.kept_apart == 40
    assert (report.kept_apart > 0) is by_worker
    counted = [part for _, part in found.values()]
    assert (counted.count(Split.TRAIN), counted.count(Split.HELD_OUT)) == (report.train, report.held_out)


def test_a_round_that_is_open_is_not_split(store: Store) -> None:
    stage = set_stage(store, "sentiment")
    with pytest.raises(RoundError, match="is open; close it"), store.write() as session:
        split_round(session, stage.round, now=NOON)
