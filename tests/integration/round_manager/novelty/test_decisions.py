"""Only new texts earn bonuses: every example is compared once, and payment and freeze follow the same decision."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import outfox
from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.crowd.confirmation import mark_rejected
from round_manager.examples.submissions import submit
from round_manager.loop.supply_facts import find_facts
from round_manager.models import (
    Assignment,
    Duplicate,
    Example,
    ExampleStatus,
    ModelVersion,
    Round,
    Task,
    WorkSession,
)
from round_manager.services.work import ask_target, page_state
from round_manager.tasks.rounds import open_round
from round_manager.validation.flags import find_example, withdraw
from round_manager.work.errors import EarnsNoBonus
from tests.campaign import OWNER, Campaign, NewCampaign

SENTENCES = (
    "The crust was burnt and the cheese was cold on every slice",
    "A queue of two hours for a ride that stood still halfway up",
    "The lamp flickers whenever the fridge begins to hum at night",
)
# The fake model predicts the first label for these texts, and workers choose the second.
TERMS: dict[str, Any] = {
    "work": {"examples_per_hit": 1, "repeat_context": True},
    "target": {"set_by": "annotator"},
}


@pytest.fixture
def campaign(new_campaign: NewCampaign) -> Campaign:
    return new_campaign(**TERMS)


def write(campaign: Campaign, worker: str, text: str) -> WorkSession:
    """Write a text that fools the model for a paid HIT, and finish the page."""
    hit = campaign.add_paid_hit()
    work = campaign.open_page(worker, hit=hit, assignment=f"AS-{hit.key}")
    campaign.ask_target(work, text)
    campaign.submit_example(work, text)
    return campaign.finish_page(work)


def confirmed(campaign: Campaign, worker: str, text: str) -> Example:
    """Return the example after the marketplace has confirmed its author."""
    work = write(campaign, worker, text)
    campaign.confirm(work)
    example: Example
    (example,) = campaign.rows(Example, Example.session_id == work.id)
    return example


def annotated(campaign: Campaign, author: int, text: str) -> Example:
    """Return the example that an annotator submits in Label Studio."""
    submission = campaign.submission(fields=campaign.fields(text=text), author_id=author)
    with campaign.store.write() as session:
        round = session.get_one(Round, campaign.round_id)
        return submit(session, round, submission, campaign.verdict(submission), now=campaign.now)


def next_round(campaign: Campaign) -> Campaign:
    """Close the round and return the campaign in the next one."""
    campaign.mark_closed()
    with campaign.store.write() as session:
        task, version = session.get_one(Task, campaign.task.id), session.get_one(ModelVersion, 1)
        opened = open_round(session, task, [version], now=campaign.now, actor=OWNER, reason="a test")
    return replace(campaign, round_id=opened.id)


def warning_on(campaign: Campaign, worker: str, text: str) -> str | None:
    """Return the warning that a worker reads after an attempt."""
    work = campaign.open_page(worker)
    written, mark = campaign.page_input(work, text), campaign.items(work)[0].mark
    return ask_target(
        campaign.services, campaign, work.public_id, 0, mark=mark, read=lambda _item: written, draft={}
    ).warning


def verify_all(campaign: Campaign) -> None:
    for example in campaign.rows(Example, Example.status == ExampleStatus.PENDING):
        campaign.vote(example, None, None)
    campaign.decide()


def reject(campaign: Campaign, example: Example) -> None:
    with campaign.store.write() as session:
        work = session.get_one(WorkSession, example.session_id)
        row = session.get_one(Assignment, work.assignment_id)
        mark_rejected(session, row, "It is spam.", OWNER, campaign.now, now=campaign.now)


def withdraw_example(campaign: Campaign, example: Example) -> None:
    with campaign.store.write() as session:
        held = find_example(session, session.get_one(Task, campaign.task.id), example.public_id)
        withdraw(session, held, actor=OWNER, reason="It names a person.", now=campaign.now)


def test_three_sentences_in_eight_variants_and_their_copies_earn_three_bonuses(campaign: Campaign) -> None:
    endings = (("", ".", "!"), ("", " ..."), ("", "?!", ";"))
    variants = [sentence + ending for sentence, some in zip(SENTENCES, endings, strict=True) for ending in some]
    assert len(variants) == 8
    for text in variants:
        confirmed(campaign, "W1", text)
    for text in SENTENCES:
        confirmed(campaign, "W2", text.upper())
    verify_all(campaign)
    assert campaign.bonus_states() == {"owed": 3, "released": 8}
    new = campaign.rows(Example, Example.duplicate.is_(None))
    assert sorted(campaign.examples_with_bonus()) == [example.id for example in new]


def test_every_paid_bonus_belongs_to_a_row_that_the_freeze_keeps(campaign: Campaign, tmp_path: Path) -> None:
    for number in range(6):
        confirmed(campaign, f"W{number % 4}", SENTENCES[number % 3] + "!" * number)
    confirmed(campaign, "W5", "Nothing like the others, as the judge of the contest wrote in May")
    verify_all(campaign)
    campaign.mark_closed()
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    assert (frozen.splits.rule, frozen.splits.exact_duplicates, frozen.splits.verified) == (3, 3, 7)
    df = outfox.load(campaign.spec.name, path=tmp_path)
    kept = set(df[df["split"].notna()]["id"])
    paid = {example.public_id.hex for example in campaign.rows(Example, Example.id.in_(campaign.examples_with_bonus()))}
    assert paid == kept
    assert set(df[df["duplicate"].notna()]["duplicate_of"]) < kept


def test_a_near_duplicate_of_an_earlier_round_is_not_new(campaign: Campaign) -> None:
    first = confirmed(campaign, "W1", SENTENCES[0])
    second = confirmed(next_round(campaign), "W2", f"{SENTENCES[0]} today")
    assert (second.duplicate, second.duplicate_of) == (Duplicate.NEAR, first.public_id.hex)


def test_a_copy_of_the_seed_or_of_a_context_is_not_new(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(seeds=True, **TERMS)
    row, shown = campaign.pack.seed[0], campaign.context
    copied = confirmed(campaign, "W1", row.fields["text"].upper())
    assert (copied.duplicate, copied.duplicate_of) == (Duplicate.EXACT, f"seed:{row.id}")
    copied = confirmed(campaign, "W1", f"{shown.fields['prompt']} Yes")
    assert (copied.duplicate, copied.duplicate_of) == (Duplicate.NEAR, f"context:{shown.key}")


def test_an_unconfirmed_text_keeps_no_other_from_being_new(campaign: Campaign) -> None:
    claimed = write(campaign, "SQUATTER", SENTENCES[0])
    honest = confirmed(campaign, "W1", SENTENCES[0])
    assert honest.duplicate is None
    campaign.confirm(claimed)
    (late,) = campaign.rows(Example, Example.session_id == claimed.id)
    assert (late.duplicate, late.duplicate_of) == (Duplicate.EXACT, honest.public_id.hex)
    assert campaign.reload(honest).duplicate is None


@pytest.mark.parametrize("end", [withdraw_example, reject])
def test_if_the_original_ends_the_earliest_duplicate_is_new_and_earns_its_bonus(
    campaign: Campaign, end: Callable[[Campaign, Example], None]
) -> None:
    original = confirmed(campaign, "W1", SENTENCES[0])
    second = confirmed(campaign, "W2", SENTENCES[0] + "!")
    third = confirmed(campaign, "W3", SENTENCES[0] + "!!")
    for example in (second, third):
        campaign.vote(example, None, None)
    campaign.decide()
    assert campaign.examples_with_bonus() == []
    end(campaign, original)
    assert campaign.reload(second).duplicate is None
    assert campaign.reload(third).duplicate_of == second.public_id.hex
    assert campaign.examples_with_bonus() == [second.id]
    if end is reject:
        assert campaign.reload(original).duplicate_of == second.public_id.hex


@pytest.mark.any_database
def test_an_archive_with_a_withdrawn_duplicate_of_rejected_work_verifies(campaign: Campaign, tmp_path: Path) -> None:
    original, gone, kept = (confirmed(campaign, f"W{number}", SENTENCES[0] + "!" * number) for number in range(3))
    withdraw_example(campaign, gone)
    reject(campaign, original)
    assert campaign.reload(original).duplicate_of == kept.public_id.hex
    verify_all(campaign)
    campaign.mark_closed()
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    assert verify(Path(frozen.where)).problems == ()


def test_a_text_of_rejected_work_gives_way_to_a_later_one(campaign: Campaign) -> None:
    original = confirmed(campaign, "W1", SENTENCES[0])
    reject(campaign, original)
    assert campaign.reload(original).duplicate is None
    second = confirmed(campaign, "W2", SENTENCES[0])
    assert second.duplicate is None
    assert campaign.reload(original).duplicate_of == second.public_id.hex


def test_rejected_work_whose_bonus_is_owed_stays_the_new_one(campaign: Campaign) -> None:
    original = confirmed(campaign, "W1", SENTENCES[0])
    second = confirmed(campaign, "W2", SENTENCES[0])
    verify_all(campaign)
    reject(campaign, original)
    assert campaign.reload(original).duplicate is None
    assert campaign.reload(second).duplicate_of == original.public_id.hex
    assert campaign.examples_with_bonus() == [original.id]


def test_a_withdrawn_text_whose_bonus_is_owed_earns_its_copies_none(campaign: Campaign, tmp_path: Path) -> None:
    original, second = confirmed(campaign, "W1", SENTENCES[0]), confirmed(campaign, "W2", SENTENCES[0])
    verify_all(campaign)
    withdraw_example(campaign, original)
    third = confirmed(campaign, "W3", SENTENCES[0])
    verify_all(campaign)
    assert {campaign.reload(one).duplicate_of for one in (second, third)} == {original.public_id.hex}
    assert campaign.examples_with_bonus() == [original.id]
    campaign.mark_closed()
    assert verify(Path(campaign.freeze(open_archives(str(tmp_path))).where)).problems == ()


@pytest.mark.any_database
def test_only_new_texts_count_towards_the_target(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(rounds={"target_fooling": 2}, **TERMS)
    for number in range(3):
        confirmed(campaign, f"W{number}", SENTENCES[0] + "!" * number)
    verify_all(campaign)
    with campaign.store.read() as session:
        round = session.get_one(Round, campaign.round_id)
        facts = find_facts(session, round, campaign.spec, "fake", now=campaign.now)
    assert (facts.examples, facts.fooled, facts.verified_fooling, campaign.due()) == (3, 1, 1, None)
    confirmed(campaign, "W3", SENTENCES[1])
    verify_all(campaign)
    assert campaign.due() is not None


def test_the_page_warns_and_shows_only_the_workers_own_text(campaign: Campaign) -> None:
    confirmed(campaign, "W1", SENTENCES[0])
    assert SENTENCES[0] in (warning_on(campaign, "W1", f"{SENTENCES[0]}!") or "")
    theirs = warning_on(campaign, "W2", f"{SENTENCES[0]}!")
    assert theirs is not None
    assert "crust" not in theirs
    assert warning_on(campaign, "W3", SENTENCES[1]) is None


def test_the_warning_is_part_of_the_page_until_the_example_is_submitted(campaign: Campaign) -> None:
    confirmed(campaign, "W1", SENTENCES[0])
    pages = {worker: campaign.open_page(worker) for worker in ("W1", "W2")}
    for work in pages.values():
        campaign.ask_target(work, SENTENCES[1])
        campaign.ask_target(work, f"{SENTENCES[0]}!")
    mine, theirs = (page_state(campaign.services, work.public_id) for work in pages.values())
    for state in (mine, theirs):
        assert set(state.warnings) == {state.creation[0].attempts[1].id}
    assert SENTENCES[0] in "".join(mine.warnings.values())
    assert "crust" not in "".join(theirs.warnings.values())
    campaign.submit_example(pages["W2"], f"{SENTENCES[0]}!")
    assert page_state(campaign.services, pages["W2"].public_id).warnings == {}


def test_a_text_that_is_not_new_is_submitted_only_after_the_warning(campaign: Campaign) -> None:
    confirmed(campaign, "W1", SENTENCES[0])
    work = campaign.open_page("W2")
    campaign.ask_target(work, SENTENCES[0] + "!")
    with pytest.raises(EarnsNoBonus):
        campaign.submit_example(work, SENTENCES[0] + "!", warn=True)
    assert campaign.submit_example(work, SENTENCES[0] + "!").duplicate is Duplicate.EXACT


def test_variants_on_one_page_are_duplicates_of_its_first(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(**{**TERMS, "work": {"examples_per_hit": 3}})
    work = campaign.open_page("W1")
    for item, ending in enumerate((".", "!", "?")):
        campaign.ask_target(work, SENTENCES[0] + ending, item)
        campaign.submit_example(work, SENTENCES[0] + ending, item)
    before = [example.duplicate for example in campaign.rows(Example)]
    campaign.finish_page(work)
    campaign.confirm(work)
    assert before == [example.duplicate for example in campaign.rows(Example)]
    assert before == [None, Duplicate.EXACT, Duplicate.EXACT]


def test_submissions_from_label_studio_are_decided_too(campaign: Campaign) -> None:
    campaign.link_label_studio()
    texts = ((campaign.author, SENTENCES[0]), (campaign.voter, SENTENCES[0] + "!"))
    assert [annotated(campaign, *one).duplicate for one in texts] == [None, Duplicate.EXACT]


def test_of_equal_texts_from_label_studio_at_the_same_time_one_is_new(campaign: Campaign) -> None:
    campaign.link_label_studio()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda author: annotated(campaign, author, SENTENCES[0]), (campaign.author, campaign.voter)))
    assert {example.duplicate for example in campaign.rows(Example)} == {None, Duplicate.EXACT}


def test_short_texts_are_duplicates_only_if_they_are_the_same(campaign: Campaign) -> None:
    found = [confirmed(campaign, f"W{number}", text) for number, text in enumerate(("Awful", "awful!", "!!", "?"))]
    assert [example.duplicate for example in found] == [None, Duplicate.EXACT, None, None]


def test_a_context_that_the_model_reads_separates_texts(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("nli", **TERMS)
    for worker, text in (("W1", SENTENCES[0]), ("W2", SENTENCES[0]), ("W3", "")):
        work = campaign.open_page(worker)
        copied = text or str(campaign.context_of(work).fields["premise"])[:300]
        written = campaign.page_input(work, copied, fields={"why_right": "Because."})
        campaign.ask_target(work, copied)
        campaign.submit_example(work, written)
        campaign.finish_page(work)
        campaign.confirm(work)
    assert [example.duplicate for example in campaign.rows(Example)] == [None, None, Duplicate.EXACT]


def test_a_round_that_was_opened_before_the_rule_decides_nothing(campaign: Campaign) -> None:
    campaign.forget_duplicates()
    for worker in ("W1", "W2"):
        assert confirmed(campaign, worker, SENTENCES[0]).duplicate is None
    verify_all(campaign)
    assert campaign.bonus_states() == {"owed": 2}


def test_of_equal_texts_that_are_confirmed_at_the_same_time_one_is_new(campaign: Campaign) -> None:
    pages = [write(campaign, f"W{number}", SENTENCES[0]) for number in range(4)]
    with ThreadPoolExecutor(len(pages)) as pool:
        list(pool.map(campaign.confirm, pages))
    found = [example.duplicate for example in campaign.rows(Example)]
    assert sorted(map(str, found)) == ["None", "exact", "exact", "exact"]
