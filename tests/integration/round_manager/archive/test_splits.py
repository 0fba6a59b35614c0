"""Splits follow from ids: no worker and no duplicate is in both parts, and every run gives the same split."""

from collections import defaultdict
from pathlib import Path

import pytest
from sqlalchemy import select

import outfox
from round_manager.archive.split_plan import SplitReport
from round_manager.archive.storage import open_archives
from round_manager.database.store import Store
from round_manager.models import Example, ExampleStatus, Split
from round_manager.services.archives import split_report, split_round
from round_manager.services.context import Actor, ServiceContext
from tests.campaign import Campaign, start_closed
from tests.campaign.closed_rounds import text_of
from tests.fakes.clock import SettableClock

ALL_VERIFIED = (ExampleStatus.VERIFIED,)


def parts(campaign: Campaign) -> dict[int, tuple[int, Split | None]]:
    """Return the author and the split of each verified example, by its position."""
    with campaign.store.read() as session:
        rows = session.scalars(select(Example).where(Example.round_id == campaign.round_id).order_by(Example.public_id))
        return {
            place: (row.author_id, row.split) for place, row in enumerate(rows) if row.status is ExampleStatus.VERIFIED
        }


def split(campaign: Campaign) -> SplitReport:
    return split_round(ServiceContext(campaign.store, SettableClock()), Actor("ada"), campaign.round_id)


def test_no_worker_is_in_both_parts_and_both_have_their_share(store: Store) -> None:
    campaign = start_closed(store, examples=60, statuses=ALL_VERIFIED)
    report = split(campaign)
    sides = defaultdict(set)
    for author, part in parts(campaign).values():
        sides[author].add(part)
    assert sorted(map(len, sides.values())) == [1] * 6
    assert (report.verified, report.train, report.held_out, report.workers) == (60, 50, 10, 6)


def test_splitting_again_changes_nothing_and_says_the_same(store: Store) -> None:
    campaign = start_closed(store)
    first, before = split(campaign), parts(campaign)
    assert (split(campaign), parts(campaign)) == (first, before)
    with store.read() as session:
        assert split_report(session, campaign.round) == first


def test_if_one_worker_wrote_everything_nothing_is_held_out_and_this_is_reported(store: Store) -> None:
    campaign = start_closed(store, author=lambda _: 0, statuses=ALL_VERIFIED)
    report = split(campaign)
    assert (report.train, report.held_out) == (40, 0)
    assert "one worker wrote everything" in report.note


def test_by_example_a_worker_may_be_in_both_parts(store: Store) -> None:
    campaign = start_closed(store, author=lambda _: 0, statuses=ALL_VERIFIED, policy={"split_by_worker": False})
    report = split(campaign)
    assert (report.train, report.held_out, report.note) == (32, 8, "")


def test_of_exact_duplicates_the_first_is_used(store: Store) -> None:
    same = start_closed(store, text=lambda number: text_of(number % 30), statuses=ALL_VERIFIED, decided=True)
    report = split(same)
    found = parts(same)
    assert report.exact_duplicates == 10
    assert [found[place][1] is None for place in range(40)] == [False] * 30 + [True] * 10


def louder(number: int) -> str:
    """Return one of twenty texts, each written twice by different people, the second time a little louder."""
    return text_of(number % 20) if number < 20 else f"{text_of(number % 20).upper()} !!"


@pytest.mark.parametrize("by_worker", [True, False])
def test_near_duplicates_are_in_no_part(store: Store, by_worker: bool) -> None:
    def text(number: int) -> str:
        return f"{louder(number)} Yes." if number >= 20 else louder(number)

    policy = {"split_by_worker": by_worker}
    campaign = start_closed(store, text=text, statuses=ALL_VERIFIED, policy=policy, decided=True)
    report = split(campaign)
    found = parts(campaign)
    assert (report.rule, report.near_duplicates, report.exact_duplicates, report.kept_apart) == (3, 20, 0, 0)
    assert [found[place][1] is None for place in range(40)] == [False] * 20 + [True] * 20
    assert report.train + report.held_out == 20
    assert report.held_out > 0


@pytest.mark.parametrize("by_worker", [True, False])
def test_without_stored_decisions_near_duplicates_are_never_in_both_parts(store: Store, by_worker: bool) -> None:
    campaign = start_closed(store, text=louder, statuses=ALL_VERIFIED, policy={"split_by_worker": by_worker})
    campaign.forget_duplicates()
    report = split(campaign)
    found = parts(campaign)
    assert (report.near_duplicates, report.near_groups, report.exact_duplicates) == (20, 20, 0)
    for place in range(20):
        assert len({found[place][1], found[place + 20][1]} - {None}) == 1
    assert report.train + report.held_out + report.kept_apart == 40
    assert (report.kept_apart > 0) is by_worker
    counted = [part for _, part in found.values()]
    assert (counted.count(Split.TRAIN), counted.count(Split.HELD_OUT)) == (report.train, report.held_out)


def test_a_worker_stays_on_one_side_in_all_rounds_of_the_task(store: Store, tmp_path: Path) -> None:
    archives = open_archives(str(tmp_path))
    first = start_closed(store, statuses=ALL_VERIFIED)
    first.freeze(archives)
    second = first.next_closed_round(statuses=ALL_VERIFIED, author=lambda number: (number + number // 7) % 6)
    second.freeze(archives)
    second.next_closed_round(statuses=ALL_VERIFIED).freeze(archives)
    df = outfox.load("sentiment", path=tmp_path).dropna(subset=["split"])
    assert len(df) == 120
    assert df.groupby("author")["split"].nunique().max() == 1
    assert set(df[df["round"] == 3]["split"]) == {"train", "held_out"}


def test_a_round_that_is_split_after_a_later_one_keeps_the_later_ones_sides(store: Store) -> None:
    first = start_closed(store, statuses=ALL_VERIFIED)
    second = first.next_closed_round(statuses=ALL_VERIFIED)
    split(second)
    report = split(first)
    assert report.sides.rounds == (2,)
    assert dict(parts(first).values()) == dict(parts(second).values())


def test_new_workers_are_assigned_around_those_already_assigned(store: Store) -> None:
    first = start_closed(store, statuses=ALL_VERIFIED, author=lambda number: number % 3)
    split(first)
    second = first.next_closed_round(statuses=ALL_VERIFIED, author=lambda number: 3 + number % 3 if number % 4 else 0)
    report = split(second)
    assert len(report.sides.train | report.sides.held_out) == 1
    assert report.held_out > 0
    assert report.train > 0


def test_if_all_workers_are_in_the_train_split_nothing_is_held_out_and_this_is_reported(store: Store) -> None:
    first = start_closed(store, statuses=ALL_VERIFIED, author=lambda _: 0)
    split(first)
    report = split(first.next_closed_round(statuses=ALL_VERIFIED, author=lambda _: 0))
    assert (report.train, report.held_out) == (40, 0)
    assert "trained on in another round" in report.note


def test_a_worker_in_both_parts_of_a_round_split_by_example_goes_to_train(store: Store) -> None:
    first = start_closed(store, statuses=ALL_VERIFIED, policy={"split_by_worker": False, "held_out_share": 0.5})
    split(first)
    second = first.next_closed_round(statuses=ALL_VERIFIED)
    assert (split(second).held_out, len(split(second).sides.train)) == (0, 6)
