"""Workers never judge their own examples, nor an example twice, and gold items are mixed in."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from round_manager.models import Example, ExampleStatus, GoldItem, HitKind, Lease, Task, WorkItem
from round_manager.work.errors import (
    AlreadySubmitted,
    HitIncomplete,
    InvalidInput,
    TextTooLong,
    TimeIsOver,
)
from round_manager.work.gold import each_gold_answer
from round_manager.work.gold_choice import gold_count
from round_manager.work.sessions import session_context
from round_manager.work.validation_work import Judgement, cast_vote, judge_item
from tests.campaign import MINUTE, Campaign, NewCampaign
from tests.campaign.base import built_in_pack
from tests.campaign.pages import items_to_judge
from tests.fakes.gold import update_gold

POSITIVE = Judgement(label="positive")
NO_GOLD = {"gold_rate": 0.0}


def given(campaign: Campaign) -> list[int]:
    """The ids of the examples that the newest session has."""
    last = max(row.session_id for row in campaign.rows(WorkItem))
    return [row.example_id for row in campaign.rows(WorkItem, WorkItem.session_id == last)]


@pytest.mark.any_database
def test_a_page_shows_the_text_without_its_author_or_target(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("nli", validation=NO_GOLD)
    example = campaign.add_example(label="neutral", explanation={"why_right": "secret"})
    work = campaign.open_validation_page()
    with campaign.store.read() as session:
        (item,) = items_to_judge(session, work)
    assert item.fields == {name: example.fields[name] for name in ("premise", "hypothesis")}
    assert set(vars(item)) == {"item", "fields", "draft", "judgement"}


@pytest.mark.any_database
def test_no_worker_judges_their_own_example_or_one_twice(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    own, voted, fresh = campaign.add_example("W1"), campaign.add_example(), campaign.add_example()
    with campaign.store.write() as session:
        other = session.get_one(Example, voted.id)
        cast_vote(session, other, own.author_id, source=other.source, voted_at=campaign.now, label="positive")
    work = campaign.open_validation_page("W1")
    assert given(campaign) == [fresh.id]
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    assert campaign.finds_nothing("W1")


@pytest.mark.any_database
def test_no_worker_gets_an_example_that_is_leased_to_them_elsewhere(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    examples = [campaign.add_example(), campaign.add_example()]
    worker = campaign.add_example("V1").author_id
    span: dict[str, Any] = {"leased_at": campaign.now, "expires_at": campaign.now + MINUTE}
    with campaign.store.write() as session:
        session.add(Lease(example_id=examples[0].id, author_id=examples[0].author_id, worker_id=worker, **span))
    campaign.open_validation_page("V1")
    assert given(campaign) == [examples[1].id]


@pytest.mark.any_database
def test_no_more_workers_are_asked_than_votes_are_wanted(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example(wanted=2)
    first, second = campaign.open_validation_page("V1"), campaign.open_validation_page("V2")
    assert campaign.finds_nothing("V3")
    campaign.judge_all(first, POSITIVE)
    campaign.finish_page(first)
    campaign.confirm(first)
    assert campaign.finds_nothing("V3")
    assert len(campaign.votes()) == 1
    campaign.clock.set(second.expires_at)
    assert campaign.open_validation_page("V3").status == "open"


@pytest.mark.any_database
def test_a_submitted_judgement_keeps_its_lease_for_an_hour(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example(wanted=1)
    work = campaign.open_validation_page("V1")
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    campaign.clock.advance(59 * MINUTE)
    assert campaign.finds_nothing("V2")
    campaign.clock.advance(MINUTE)
    campaign.open_validation_page("V2")


@pytest.mark.any_database
def test_examples_that_are_not_pending_are_not_handed_out(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    for status in (ExampleStatus.UNCONFIRMED, ExampleStatus.UNCHECKED, ExampleStatus.FLAGGED):
        campaign.add_example(status=status)
    assert campaign.finds_nothing()


def test_the_oldest_come_first_and_each_worker_sees_them_in_another_order(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"validations_per_hit": 5})
    ids = [campaign.add_example(wanted=5).id for _ in range(7)]
    orders = []
    for number in range(4):
        campaign.open_validation_page(f"V{number}")
        orders.append(given(campaign))
    assert all(sorted(order) == ids[:5] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


@pytest.mark.any_database
def test_a_judgement_can_be_changed_until_it_is_submitted_and_must_be_one_that_the_task_knows(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example()
    work = campaign.open_validation_page()
    reason = campaign.spec.validation.flag_reasons[0]
    bad = (
        (Judgement(), InvalidInput),
        (Judgement(label="positive", flag=reason), InvalidInput),
        (Judgement(label="Positive"), InvalidInput),
        (Judgement(answer={"text": "A"}), InvalidInput),
        (Judgement(flag="I do not like it"), InvalidInput),
        (Judgement(label="positive", comment="x" * 200_000), TextTooLong),
        (Judgement(label="positive", comment="a\x00"), InvalidInput),
    )
    for judgement, error in bad:
        with campaign.store.write() as session, pytest.raises(error):
            judge_item(session, work, 0, judgement, now=campaign.now)
    with pytest.raises(HitIncomplete):
        campaign.finish_page(work)
    for judgement in (POSITIVE, Judgement(flag=reason, comment="why? 🦊 \u202eabc")):
        campaign.judge_all(work, judgement)
        with campaign.store.read() as session:
            assert items_to_judge(session, work)[0].judgement == judgement
    assert campaign.votes() == []
    campaign.finish_page(work)
    with pytest.raises(AlreadySubmitted):
        campaign.judge_all(work, POSITIVE)


@pytest.mark.any_database
def test_nothing_is_judged_after_the_deadline(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example()
    work = campaign.open_validation_page()
    campaign.clock.set(work.expires_at)
    with pytest.raises(TimeIsOver):
        campaign.judge_all(work, POSITIVE)


@pytest.mark.any_database
def test_an_answer_must_be_a_span_of_the_passage(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa", validation=NO_GOLD)
    campaign.add_example()
    work = campaign.open_validation_page()
    for judgement, error in (
        (Judgement(label="x"), InvalidInput),
        (Judgement(answer={"text": "B", "start": 0, "end": 1}), InvalidInput),
        (Judgement(answer={"text": "A" * 10**6, "start": 0, "end": 10**6}), InvalidInput),
    ):
        with campaign.store.write() as session, pytest.raises(error):
            judge_item(session, work, 0, judgement, now=campaign.now)
    campaign.judge_all(work, Judgement(answer={"text": "A", "start": 0, "end": 1, "labels": ["Answer"]}))
    campaign.finish_page(work)
    campaign.confirm(work)
    (vote,) = campaign.votes()
    assert vote.answer == {"text": "A", "start": 0, "end": 1}


@pytest.mark.any_database
def test_gold_is_mixed_in_at_the_tasks_rate(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.3}, work={"validations_per_hit": 5})
    pack = built_in_pack("sentiment")
    with campaign.store.write() as session:
        assert update_gold(session, campaign.task, pack.seed[:40], now=campaign.now) == 40
    for _ in range(5):
        campaign.add_example(wanted=30)
    counts: Counter[int] = Counter()
    for number in range(12):
        campaign.open_page(f"V{number}", kind=HitKind.VALIDATE)
        last = max(row.session_id for row in campaign.rows(WorkItem))
        items = campaign.rows(WorkItem, WorkItem.session_id == last)
        assert len(items) == 5
        counts[sum(row.gold_id is not None for row in items)] += 1
    assert set(counts) == {1, 2}


def test_which_items_are_gold_follows_from_a_secret_of_the_task_and_is_the_same_each_time(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5}, work={"validations_per_hit": 5})
    with campaign.store.write() as session:
        update_gold(session, campaign.task, built_in_pack("sentiment").seed[:40], now=campaign.now)
    for _ in range(5):
        campaign.add_example(wanted=1)
    hit = campaign.add_hit(HitKind.VALIDATE)

    def drawn(salt: str) -> tuple[int | None, ...]:
        """The gold on one page, which begins again with its old id: where and which."""
        with campaign.store.write() as session:
            session.get_one(Task, campaign.task.id).worker_salt = salt * 32
        campaign.clock.advance(21 * MINUTE)
        page = campaign.open_page("V1", hit=hit)
        return tuple(row.gold_id for row in sorted(campaign.rows(WorkItem, WorkItem.session_id == page.id), key=place))

    pages = [drawn(salt) for salt in "abca"]
    assert pages[0] == pages[3]
    assert len(set(pages)) > 1
    page = campaign.open_page("V1", hit=hit)
    with campaign.store.write() as session:
        task, desk = session.get_one(Task, campaign.task.id), session_context(session, page)
        counts = set()
        for number in range(40):
            task.worker_salt = f"{number:032}"
            counts.add(gold_count(session, desk, 5))
    assert counts == {2, 3}


def place(row: WorkItem) -> int:
    return row.item


def test_no_worker_gets_the_same_gold_twice(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    with campaign.store.write() as session:
        update_gold(session, campaign.task, built_in_pack("sentiment").seed[:2], now=campaign.now)
    for _ in range(4):
        campaign.add_example()
    for _ in range(3):
        work = campaign.open_validation_page("V1")
        campaign.judge_all(work, POSITIVE)
        campaign.finish_page(work)
    rows = campaign.rows(WorkItem)
    assert sorted(row.gold_id for row in rows if row.gold_id) == [row.id for row in campaign.rows(GoldItem)]
    assert len(rows) == 6


@pytest.mark.any_database
def test_gold_answers_count_once_the_marketplace_has_confirmed_the_worker(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.6}, work={"validations_per_hit": 5})
    seed = [row for row in built_in_pack("sentiment").seed if row.label == "positive"][:2]
    wrong = [row for row in built_in_pack("sentiment").seed if row.label == "negative"][:1]
    with campaign.store.write() as session:
        update_gold(session, campaign.task, [*seed, *wrong], now=campaign.now)
    examples = [campaign.add_example() for _ in range(2)]
    work = campaign.open_validation_page("V1")
    campaign.judge_all(work, POSITIVE)
    campaign.finish_page(work)
    with campaign.store.read() as session:
        assert list(each_gold_answer(session, campaign.task)) == []
    campaign.confirm(work)
    with campaign.store.read() as session:
        answers = list(each_gold_answer(session, campaign.task))
    assert {item.worker_id for item, _ in answers} == {work.worker_id}
    found = Counter((item.expected_label, is_right) for item, is_right in answers)
    assert found == {("positive", True): 2, ("negative", False): 1}
    assert sorted(vote.example_id for vote in campaign.votes()) == [one.id for one in examples]


def test_examples_that_people_agreed_on_become_gold_once_and_get_no_further_vote(new_campaign: NewCampaign) -> None:
    terms = {"gold_rate": 0.5, "gold_withheld": 1.0}
    campaign = new_campaign("qa", validation=terms, work={"validations_per_hit": 2})
    answer = {"text": "A sentence of", "start": 0, "end": 13}
    known: dict[str, Any] = {"status": ExampleStatus.VERIFIED, "gold_answer": answer, "decided_at": campaign.now}
    own, voted, verified = (
        campaign.add_example("V1", **known),
        campaign.add_example(**known),
        campaign.add_example(**known),
    )
    with campaign.store.write() as session:
        row = session.get_one(Example, voted.id)
        cast_vote(session, row, own.author_id, source=row.source, voted_at=campaign.now, answer=answer)
    plain = [campaign.add_example(), campaign.add_example()]
    work = campaign.open_validation_page("V1")
    assert sorted(given(campaign)) == [verified.id, plain[0].id]
    campaign.judge_all(work, Judgement(answer={"text": "sentence", "start": 2, "end": 10}))
    campaign.finish_page(work)
    campaign.open_validation_page("V1")
    assert given(campaign) == [plain[1].id]
    campaign.confirm(work)
    with campaign.store.read() as session:
        ((item, is_right),) = list(each_gold_answer(session, campaign.task))
    assert (item.expected_answer, is_right) == (answer, True)
    assert [vote.example_id for vote in campaign.votes()] == [voted.id, plain[0].id]


def test_gold_that_its_owner_changed_is_retired_and_comes_back_with_its_old_text(campaign: Campaign) -> None:
    rows = built_in_pack("sentiment").seed[:3]
    for chosen, live in ((rows, 3), (rows[:1], 1), (rows[:2], 2)):
        with campaign.store.write() as session:
            assert update_gold(session, campaign.task, chosen, now=campaign.now) == live
        assert len(campaign.rows(GoldItem, GoldItem.retired_at.is_(None))) == live
    assert len(campaign.rows(GoldItem)) == 3


def test_gold_with_a_label_that_the_round_does_not_have_waits_for_a_round_that_has(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
    campaign.add_example(wanted=9)
    renamed = [replace(row, label="mixed") for row in built_in_pack("sentiment").seed[:3]]
    with campaign.store.write() as session:
        assert update_gold(session, campaign.task, renamed, now=campaign.now) == 3
    campaign.open_validation_page("V1")
    assert [row.gold_id for row in campaign.rows(WorkItem)] == [None]


def test_without_anything_to_vote_on_no_worker_is_paid_for_gold_alone(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 1.0})
    with campaign.store.write() as session:
        update_gold(session, campaign.task, built_in_pack("sentiment").seed[:9], now=campaign.now)
    assert campaign.finds_nothing()


def test_a_validator_gets_examples_of_authors_whom_they_have_judged_least(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"validations_per_hit": 2})
    by = {campaign.add_example(author, wanted=9).id: author for author in ("A1", "A1", "A1", "A1", "A2", "A3")}
    pages = []
    for _ in range(3):
        campaign.open_validation_page("V1")
        pages.append(sorted(by[example] for example in given(campaign)))
    assert pages == [["A1", "A2"], ["A1", "A3"], ["A1", "A1"]]


def test_friends_who_take_every_page_meet_no_more_often_than_others(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD, work={"validations_per_hit": 2, "hits_at_once": 4})
    authors = [f"A{number}" for number in range(5)]
    by = {campaign.add_example(author, wanted=9).id: author for author in ["A0"] * 6 + authors[1:] * 2}
    met: Counter[str] = Counter()
    for _ in range(4):
        campaign.open_validation_page("FRIEND")
        met.update(by[example] for example in given(campaign))
    assert met.most_common(1)[0][1] == 2
