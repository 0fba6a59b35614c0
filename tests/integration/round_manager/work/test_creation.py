"""Creation work: contexts, targets, drafts, and examples with the verdict that the worker saw."""

from collections import Counter
from typing import Any

import pytest

from round_manager import audit
from round_manager.models import AuditEntry, Context, Example, ExampleStatus, Lease, LeaseEnd, SessionStatus
from round_manager.work.attempts import PageInput
from round_manager.work.context_strategies import RANKS
from round_manager.work.creation import skip
from round_manager.work.errors import (
    AlreadySubmitted,
    DuplicateText,
    HitIncomplete,
    InvalidInput,
    MoreAttemptsNeeded,
    NotAskedYet,
    NothingToDo,
    RoundTakesNoWork,
    TextTooLong,
    TimeIsOver,
    TooManyReports,
    WorkRefused,
)
from round_manager.work.reports import report
from round_manager.work.sessions import items_of, save_draft
from tests.campaign import MINUTE, Campaign, NewCampaign
from tests.campaign.pages import items_to_write


def test_an_example_is_unconfirmed_and_has_the_verdict_that_its_worker_saw(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_text(work)
    seen = [campaign.ask_target(work, f"so {campaign.page_input(work, '').label}"), campaign.ask_target(work, text)]
    example = campaign.submit_example(work, text)
    assert (example.status, example.fooled, example.tries) == (ExampleStatus.UNCONFIRMED, True, 2)
    assert (example.verdict_id, example.verdict) == (seen[1].public_id, seen[1].verdict)
    assert example.votes_wanted == campaign.spec.validation.first_votes
    assert [campaign.reload(one).example_id for one in seen] == [None, example.id]
    (lease,) = campaign.rows(Lease)
    assert lease.outcome is LeaseEnd.USED


@pytest.mark.any_database
def test_an_example_wants_as_many_votes_as_its_policy_asks_for_first(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"policy": "anli", "first_votes": 5})
    (example,) = campaign.write_examples(campaign.open_page())
    assert example.votes_wanted == 2


@pytest.mark.any_database
def test_submitting_twice_gives_one_example_and_another_text_is_refused(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_text(work)
    campaign.ask_target(work, text)
    campaign.ask_target(work, f"{text} too")
    first = campaign.submit_example(work, text)
    assert campaign.submit_example(work, text).id == first.id
    with pytest.raises(AlreadySubmitted):
        campaign.submit_example(work, f"{text} too")
    campaign.finish_page(work)
    assert campaign.submit_example(work, text).id == first.id
    assert len(campaign.rows(Example)) == 1


@pytest.mark.any_database
def test_a_text_that_the_model_never_saw_is_refused_however_little_it_differs(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_text(work)
    campaign.ask_target(work, text)
    for other in (f"{text} ", text.upper(), text.replace(" ", "\u00a0")):
        with pytest.raises(NotAskedYet):
            campaign.submit_example(work, other)
    assert campaign.rows(Example) == []


@pytest.mark.any_database
def test_a_text_that_does_not_fool_is_accepted_after_the_required_attempts(campaign: Campaign) -> None:
    work = campaign.open_page()
    with campaign.store.read() as session:
        target = items_to_write(session, work)[0].target
    campaign.ask_target(work, f"{target} 1")
    with pytest.raises(MoreAttemptsNeeded):
        campaign.submit_example(work, f"{target} 1")
    campaign.ask_target(work, f"{target} 2")
    campaign.ask_target(work, f"{target} 3")
    example = campaign.submit_example(work, f"{target} 1")
    assert (example.fooled, example.tries) == (False, 3)


@pytest.mark.any_database
def test_explanations_and_extra_fields_are_checked_and_kept(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("hate_speech")
    work = campaign.open_page()
    text = campaign.page_text(work)
    campaign.ask_target(work, text)
    bad: list[tuple[dict[str, str], type[WorkRefused]]] = [
        ({}, InvalidInput),
        ({"hate_type": "spicy"}, InvalidInput),
        ({"hate_type": "none", "target_group": "x" * 81}, TextTooLong),
        ({"hate_type": "none", "why_right": "x\x00y"}, InvalidInput),
        ({"hate_type": "none", "why_right": "half \ud83d"}, InvalidInput),
        ({"hate_type": "none", "prompt": "my own"}, InvalidInput),
        ({"hate_type": "none", "verdict": "fooled"}, InvalidInput),
    ]
    for fields, error in bad:
        with pytest.raises(error):
            campaign.submit_example(work, campaign.page_input(work, text, fields=fields))
    why = "كيف <b>حالك</b> 🦊"
    example = campaign.submit_example(
        work, campaign.page_input(work, text, fields={"hate_type": "none", "why_right": why})
    )
    assert campaign.reload(example).explanation == {"why_right": why}
    assert example.fields == {**campaign.context_of(work).fields, "text": text, "hate_type": "none"}
    for fields in ({"hate_type": "none"}, {"hate_type": "threatening", "why_right": why}):
        with pytest.raises(AlreadySubmitted):
            campaign.submit_example(work, campaign.page_input(work, text, fields=fields))


@pytest.mark.any_database
def test_the_target_label_comes_from_the_server_and_not_from_the_page(campaign: Campaign) -> None:
    work = campaign.open_page()
    with campaign.store.read() as session:
        target = items_to_write(session, work)[0].target
    text = campaign.page_text(work)
    lied = campaign.page_input(work, text, label=next(name for name in campaign.spec.label_names if name != target))
    assert campaign.ask_target(work, lied).label == target
    assert campaign.submit_example(work, lied).label == target


@pytest.mark.any_database
def test_targets_are_distributed_evenly(campaign: Campaign) -> None:
    asked: Counter[str | None] = Counter()
    for number in range(6):
        page = campaign.open_page(f"W{number}")
        with campaign.store.read() as session:
            asked[items_to_write(session, page)[0].target] += 1
    assert asked == dict.fromkeys(campaign.spec.label_names, 2)


@pytest.mark.any_database
def test_each_of_several_examples_has_its_own_context(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={"examples_per_hit": 3})
    work = campaign.open_page()
    with campaign.store.read() as session:
        items = items_to_write(session, work)
    assert len({one.context.id for one in items}) == 3
    text = campaign.page_text(work)
    campaign.ask_target(work, text, 0)
    campaign.submit_example(work, text, 0)
    with pytest.raises(HitIncomplete):
        campaign.finish_page(work)
    campaign.clock.advance(MINUTE)
    for item in (1, 2):
        other = campaign.page_text(work, item)
        campaign.ask_target(work, other, item)
        campaign.submit_example(work, other, item)
    done = campaign.finish_page(work)
    assert (done.status, done.submitted_at) == (SessionStatus.SUBMITTED, campaign.now)
    campaign.clock.advance(60 * MINUTE)
    assert campaign.finish_page(work).submitted_at == done.submitted_at


@pytest.mark.any_database
@pytest.mark.parametrize("again", [" same  words ", "same\u200b words"])
def test_the_same_text_is_accepted_once_per_worker(new_campaign: NewCampaign, again: str) -> None:
    campaign = new_campaign(work={"examples_per_hit": 2}, target={"set_by": "task"})
    work = campaign.open_page("W1")
    texts = [campaign.page_input(work, "same words"), campaign.page_input(work, again)]
    for item, text in enumerate(texts):
        for more in ("", " a", " b"):
            campaign.ask_target(work, PageInput({name: value + more for name, value in text.fields.items()}), item)
    campaign.submit_example(work, texts[0], 0)
    with pytest.raises(DuplicateText):
        campaign.submit_example(work, texts[1], 1)


@pytest.mark.any_database
def test_no_worker_gets_a_context_twice_unless_the_task_allows_it(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=3)
    seen = set()
    for _ in range(3):
        work = campaign.open_page("W1")
        seen.add(campaign.context_of(work).id)
        campaign.write_examples(work)
        campaign.finish_page(work)
        campaign.confirm(work)
    assert len(seen) == 3
    with pytest.raises(NothingToDo):
        campaign.open_page("W1")
    campaign.open_page("W2")


@pytest.mark.any_database
def test_a_skipped_submitted_or_leased_context_is_not_leased_again_before_confirmation(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(contexts=4, work={"tries_before_skip": 0}, rounds={"context_strategy": "in_order"})
    first, second, third, fourth = campaign.rows(Context, Context.retired_at.is_(None))
    work = campaign.open_page("W1")
    with campaign.store.write() as session:
        assert skip(session, work, 0, now=campaign.now).context.id == second.id
    campaign.write_examples(work)
    campaign.finish_page(work)
    for _ in range(3):
        campaign.add_example("OTHERS", context_id=fourth.id)
    campaign.add_example("W1", context_id=third.id)
    assert campaign.context_of(campaign.open_page("W1")).id == fourth.id
    assert campaign.context_of(campaign.open_page("W2")).id == first.id


@pytest.mark.any_database
def test_an_expired_lease_does_not_count_even_if_it_was_not_ended(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=3, work={"tries_before_skip": 0}, rounds={"context_strategy": "in_order"})
    first, second, _ = campaign.rows(Context, Context.retired_at.is_(None))
    assert campaign.context_of(campaign.open_page("W1")).id == first.id
    campaign.clock.advance(15 * MINUTE)
    work = campaign.open_page("W2")
    assert campaign.context_of(work).id == second.id
    campaign.clock.advance(6 * MINUTE)
    with campaign.store.write() as session:
        assert skip(session, work, 0, now=campaign.now).context.id == first.id


def test_a_worker_may_get_a_context_again_if_the_task_allows_it_but_not_twice_at_once(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(contexts=2, work={"repeat_context": True})
    work, other = campaign.open_page("W1"), campaign.open_page("W1")
    assert campaign.context_of(other).id != campaign.context_of(work).id
    campaign.write_examples(work)
    assert campaign.context_of(campaign.open_page("W1")).id == campaign.context_of(work).id


@pytest.mark.parametrize("strategy", sorted(RANKS))
def test_workers_who_arrive_together_are_spread_over_the_contexts(new_campaign: NewCampaign, strategy: str) -> None:
    campaign = new_campaign(contexts=3, rounds={"context_strategy": strategy})
    order = [row.id for row in campaign.rows(Context, Context.retired_at.is_(None))]
    got = [campaign.context_of(campaign.open_page(f"W{number}")).id for number in range(6)]
    assert Counter(got) == dict.fromkeys(order, 2)
    if strategy == "in_order":
        assert got == order * 2


@pytest.mark.any_database
def test_the_least_fooled_strategy_prefers_least_used_contexts_on_ties(
    new_campaign: NewCampaign,
) -> None:
    campaign = new_campaign(contexts=8, rounds={"context_strategy": "least_fooled"})
    fooled, *others, fresh = campaign.rows(Context, Context.retired_at.is_(None))
    campaign.add_example(context_id=fooled.id, fooled=True)
    for context in (*others, *others, fresh):
        campaign.add_example(context_id=context.id, fooled=False)
    assert campaign.context_of(campaign.open_page("W1")).id == fresh.id


def test_a_context_can_be_skipped_after_enough_attempts_and_the_next_starts_fresh(campaign: Campaign) -> None:
    work = campaign.open_page()
    before = campaign.context_of(work).id
    for number in range(3):
        with campaign.store.write() as session, pytest.raises(MoreAttemptsNeeded):
            skip(session, work, 0, now=campaign.now)
        campaign.ask_target(work, f"text {number}")
    with campaign.store.write() as session:
        save_draft(session, work, 0, {"text": "old"}, now=campaign.now)
        shown = skip(session, work, 0, now=campaign.now)
    assert shown.context.id != before
    assert (shown.attempts_left, shown.attempts, shown.draft, shown.can_skip) == (
        campaign.spec.work.tries,
        (),
        {},
        False,
    )
    assert [lease.outcome for lease in campaign.rows(Lease)] == [LeaseEnd.SKIPPED, None]
    assert campaign.ask_target(work, "after the skip").number == 4


@pytest.mark.any_database
def test_a_skip_without_another_context_changes_nothing(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(contexts=1, work={"tries_before_skip": 0})
    work = campaign.open_page()
    with pytest.raises(NothingToDo), campaign.store.write() as session:
        skip(session, work, 0, now=campaign.now)
    assert len(campaign.live_leases()) == 1


def test_drafts_survive_a_reload_and_are_limited_in_size(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    work = campaign.open_page(hit=hit)
    draft: dict[str, Any] = {"text": "half a senten\u202e🦊", "places": [1, 2]}
    with campaign.store.write() as session:
        save_draft(session, work, 0, draft, now=campaign.now)
        save_draft(session, work, None, {"consent": True}, now=campaign.now)
    again = campaign.open_page(hit=hit)
    assert again.draft == {"consent": True}
    with campaign.store.read() as session:
        assert items_to_write(session, again)[0].draft == draft
    for bad, error in (
        ({"text": "x" * 200_000}, TextTooLong),
        ({"text": "a\x00b"}, InvalidInput),
        ({"text": float("nan")}, InvalidInput),
    ):
        with campaign.store.write() as session, pytest.raises(error):
            save_draft(session, work, 0, bad, now=campaign.now)
    with campaign.store.read() as session:
        assert items_of(session, work)[0].draft == draft


@pytest.mark.any_database
def test_problem_reports_reach_the_owner_with_their_context_and_are_limited(campaign: Campaign) -> None:
    work = campaign.open_page("W7")
    campaign.clock.set(work.expires_at)
    with campaign.store.write() as session:
        report(session, work, 0, "  The prompt is <i>rude</i>.  ", now=campaign.now)
    for bad, error in ((" ", InvalidInput), ("x" * 200_000, TextTooLong), ("\x00", InvalidInput)):
        with campaign.store.write() as session, pytest.raises(error):
            report(session, work, 0, bad, now=campaign.now)
    (entry,) = campaign.rows(AuditEntry, AuditEntry.action == "reported")
    assert (entry.actor, entry.reason, entry.subject_id) == ("W7", "The prompt is <i>rude</i>.", work.hit_id)
    assert (entry.after["context"], entry.after["item"]) == (campaign.context_of(work).id, 0)
    with campaign.store.write() as session:
        for _ in range(9):
            report(session, work, None, "again", now=campaign.now)
    with campaign.store.write() as session, pytest.raises(TooManyReports):
        report(session, work, None, "and again", now=campaign.now)


def test_reports_are_limited_per_page_and_per_hit(campaign: Campaign) -> None:
    hit = campaign.add_hit()
    forged, honest = campaign.open_page("FORGED", hit=hit), campaign.open_page("W1", hit=hit)
    with campaign.store.write() as session:
        for _ in range(10):
            report(session, forged, None, "noise", now=campaign.now)
    with campaign.store.write() as session, pytest.raises(TooManyReports):
        report(session, forged, None, "noise", now=campaign.now)
    with campaign.store.write() as session:
        report(session, honest, None, "The prompt is cut off.", now=campaign.now)
        for number in range(489):
            about = {"session": f"other-{number}"}
            audit.note(session, "reported", hit, actor="FORGED", reason="noise", now=campaign.now, of=hit, after=about)
    with campaign.store.write() as session, pytest.raises(TooManyReports):
        report(session, honest, None, "It still is.", now=campaign.now)
    elsewhere = campaign.open_page("W1")
    with campaign.store.write() as session:
        report(session, elsewhere, None, "Another HIT's is cut off too.", now=campaign.now)


@pytest.mark.any_database
def test_nothing_is_accepted_after_the_deadline(campaign: Campaign) -> None:
    work = campaign.open_page()
    text = campaign.page_input(work, campaign.page_text(work))
    campaign.ask_target(work, text)
    campaign.clock.set(work.expires_at)
    deeds = (
        lambda: campaign.ask_target(work, campaign.page_input(work, "late")),
        lambda: campaign.submit_example(work, text),
        lambda: campaign.finish_page(work),
    )
    for deed in deeds:
        with pytest.raises(TimeIsOver):
            deed()


@pytest.mark.any_database
def test_no_worker_goes_unpaid_because_their_round_was_closed_while_they_worked(campaign: Campaign) -> None:
    work = campaign.open_page()
    campaign.mark_closed()
    with pytest.raises(RoundTakesNoWork):
        campaign.ask_target(work, "too late")
    assert campaign.finish_page(work).status is SessionStatus.SUBMITTED
    campaign.confirm(work)
    assert campaign.reload(work).status is SessionStatus.CONFIRMED


@pytest.mark.any_database
def test_a_worker_selects_an_answer_and_it_must_be_in_the_passage(new_campaign: NewCampaign) -> None:
    campaign = new_campaign("qa")
    work = campaign.open_page()
    right = campaign.page_input(work, "Which word comes last?")
    assert right.answer is not None
    for answer, error in (
        (None, InvalidInput),
        ({**right.answer, "start": 0}, InvalidInput),
        ({"text": "x"}, InvalidInput),
    ):
        with pytest.raises(error):
            campaign.ask_target(work, PageInput(right.fields, answer=answer))
    attempt = campaign.ask_target(work, PageInput(right.fields, answer={**right.answer, "labels": ["Answer"]}))
    assert attempt.answer == right.answer
    example = campaign.submit_example(work, right)
    assert (example.answer, example.fooled) == (right.answer, True)


@pytest.mark.any_database
def test_if_the_worker_chooses_the_label_it_becomes_the_target(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(target={"set_by": "annotator"})
    work = campaign.open_page()
    with pytest.raises(InvalidInput):
        campaign.ask_target(work, campaign.page_input(work, "x", label=None))
    attempts = [
        campaign.ask_target(work, campaign.page_input(work, "x", label=name)) for name in campaign.spec.label_names
    ]
    assert len({one.id for one in attempts}) == len(campaign.spec.label_names)
    example = campaign.submit_example(work, campaign.page_input(work, "x", label=campaign.spec.label_names[2]))
    assert example.verdict_id == attempts[2].public_id
