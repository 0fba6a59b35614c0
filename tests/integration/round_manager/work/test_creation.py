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
from tests.integration.round_manager.work.conftest import LayFloor
from tests.integration.round_manager.work.floor import MINUTE, Floor, shown_items


def test_an_example_is_unconfirmed_and_has_the_verdict_that_its_worker_saw(floor: Floor) -> None:
    work = floor.open()
    text = floor.fooling(work)
    seen = [floor.ask(work, f"so {floor.written(work, '').label}"), floor.ask(work, text)]
    example = floor.hand_in(work, text)
    assert (example.status, example.fooled, example.tries) == (ExampleStatus.UNCONFIRMED, True, 2)
    assert (example.verdict_id, example.verdict) == (seen[1].public_id, seen[1].verdict)
    assert example.votes_wanted == floor.spec.validation.first_votes
    assert [floor.one(one).example_id for one in seen] == [None, example.id]
    (lease,) = floor.rows(Lease)
    assert lease.outcome is LeaseEnd.USED


def test_an_example_wants_as_many_votes_as_its_policy_asks_for_first(lay: LayFloor) -> None:
    floor = lay(validation={"policy": "anli", "first_votes": 5})
    (example,) = floor.write_all(floor.open())
    assert example.votes_wanted == 2


def test_submitting_twice_gives_one_example_and_another_text_is_refused(floor: Floor) -> None:
    work = floor.open()
    text = floor.fooling(work)
    floor.ask(work, text)
    floor.ask(work, f"{text} too")
    first = floor.hand_in(work, text)
    assert floor.hand_in(work, text).id == first.id
    with pytest.raises(AlreadySubmitted):
        floor.hand_in(work, f"{text} too")
    floor.finish(work)
    assert floor.hand_in(work, text).id == first.id
    assert len(floor.rows(Example)) == 1


def test_a_text_that_the_model_never_saw_is_refused_however_little_it_differs(floor: Floor) -> None:
    work = floor.open()
    text = floor.fooling(work)
    floor.ask(work, text)
    for other in (f"{text} ", text.upper(), text.replace(" ", "\u00a0")):
        with pytest.raises(NotAskedYet):
            floor.hand_in(work, other)
    assert floor.rows(Example) == []


def test_a_text_that_does_not_fool_is_accepted_after_the_required_attempts(floor: Floor) -> None:
    work = floor.open()
    with floor.store.read() as session:
        target = shown_items(session, work)[0].target
    floor.ask(work, f"{target} 1")
    with pytest.raises(MoreAttemptsNeeded):
        floor.hand_in(work, f"{target} 1")
    floor.ask(work, f"{target} 2")
    floor.ask(work, f"{target} 3")
    example = floor.hand_in(work, f"{target} 1")
    assert (example.fooled, example.tries) == (False, 3)


def test_explanations_and_extra_fields_are_checked_and_kept(lay: LayFloor) -> None:
    floor = lay("hate_speech")
    work = floor.open()
    text = floor.fooling(work)
    floor.ask(work, text)
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
            floor.hand_in(work, floor.written(work, text, fields=fields))
    why = "كيف <b>حالك</b> 🦊"
    example = floor.hand_in(work, floor.written(work, text, fields={"hate_type": "none", "why_right": why}))
    assert floor.one(example).explanation == {"why_right": why}
    assert example.fields == {**floor.context(work).fields, "text": text, "hate_type": "none"}
    for fields in ({"hate_type": "none"}, {"hate_type": "threatening", "why_right": why}):
        with pytest.raises(AlreadySubmitted):
            floor.hand_in(work, floor.written(work, text, fields=fields))


def test_the_target_label_comes_from_the_server_and_not_from_the_page(floor: Floor) -> None:
    work = floor.open()
    with floor.store.read() as session:
        target = shown_items(session, work)[0].target
    text = floor.fooling(work)
    lied = floor.written(work, text, label=next(name for name in floor.spec.label_names if name != target))
    assert floor.ask(work, lied).label == target
    assert floor.hand_in(work, lied).label == target


def test_targets_are_distributed_evenly(floor: Floor) -> None:
    asked: Counter[str | None] = Counter()
    for number in range(6):
        with floor.write() as session:
            asked[shown_items(session, floor.open(f"W{number}"))[0].target] += 1
    assert asked == dict.fromkeys(floor.spec.label_names, 2)


def test_each_of_several_examples_has_its_own_context(lay: LayFloor) -> None:
    floor = lay(work={"examples_per_hit": 3})
    work = floor.open()
    with floor.store.read() as session:
        items = shown_items(session, work)
    assert len({one.context.id for one in items}) == 3
    text = floor.fooling(work)
    floor.ask(work, text, 0)
    floor.hand_in(work, text, 0)
    with pytest.raises(HitIncomplete):
        floor.finish(work)
    floor.clock.advance(MINUTE)
    for item in (1, 2):
        other = floor.fooling(work, item)
        floor.ask(work, other, item)
        floor.hand_in(work, other, item)
    done = floor.finish(work)
    assert (done.status, done.submitted_at) == (SessionStatus.SUBMITTED, floor.now)
    floor.clock.advance(60 * MINUTE)
    assert floor.finish(work).submitted_at == done.submitted_at


@pytest.mark.parametrize("again", [" same  words ", "same\u200b words"])
def test_the_same_text_is_accepted_once_per_worker(lay: LayFloor, again: str) -> None:
    floor = lay(work={"examples_per_hit": 2}, target={"set_by": "task"})
    work = floor.open("W1")
    texts = [floor.written(work, "same words"), floor.written(work, again)]
    for item, text in enumerate(texts):
        for more in ("", " a", " b"):
            floor.ask(work, PageInput({name: value + more for name, value in text.fields.items()}), item)
    floor.hand_in(work, texts[0], 0)
    with pytest.raises(DuplicateText):
        floor.hand_in(work, texts[1], 1)


def test_no_worker_gets_a_context_twice_unless_the_task_allows_it(lay: LayFloor) -> None:
    floor = lay(contexts=3)
    seen = set()
    for _ in range(3):
        work = floor.open("W1")
        seen.add(floor.context(work).id)
        floor.write_all(work)
        floor.finish(work)
        floor.confirm(work)
    assert len(seen) == 3
    with pytest.raises(NothingToDo):
        floor.open("W1")
    floor.open("W2")


def test_a_skipped_submitted_or_leased_context_is_not_leased_again_before_confirmation(
    lay: LayFloor,
) -> None:
    floor = lay(contexts=4, work={"tries_before_skip": 0}, rounds={"context_strategy": "in_order"})
    first, second, third, fourth = floor.rows(Context, Context.retired_at.is_(None))
    work = floor.open("W1")
    with floor.write() as session:
        assert skip(session, work, 0, now=floor.now).context.id == second.id
    floor.write_all(work)
    floor.finish(work)
    for _ in range(3):
        floor.pending("OTHERS", context_id=fourth.id)
    floor.pending("W1", context_id=third.id)
    assert floor.context(floor.open("W1")).id == fourth.id
    assert floor.context(floor.open("W2")).id == first.id


def test_an_expired_lease_does_not_count_even_if_it_was_not_ended(lay: LayFloor) -> None:
    floor = lay(contexts=3, work={"tries_before_skip": 0}, rounds={"context_strategy": "in_order"})
    first, second, _ = floor.rows(Context, Context.retired_at.is_(None))
    assert floor.context(floor.open("W1")).id == first.id
    floor.clock.advance(15 * MINUTE)
    work = floor.open("W2")
    assert floor.context(work).id == second.id
    floor.clock.advance(6 * MINUTE)
    with floor.write() as session:
        assert skip(session, work, 0, now=floor.now).context.id == first.id


def test_a_worker_may_get_a_context_again_if_the_task_allows_it_but_not_twice_at_once(lay: LayFloor) -> None:
    floor = lay(contexts=2, work={"repeat_context": True})
    work, other = floor.open("W1"), floor.open("W1")
    assert floor.context(other).id != floor.context(work).id
    floor.write_all(work)
    assert floor.context(floor.open("W1")).id == floor.context(work).id


@pytest.mark.parametrize("strategy", sorted(RANKS))
def test_workers_who_arrive_together_are_spread_over_the_contexts(lay: LayFloor, strategy: str) -> None:
    floor = lay(contexts=3, rounds={"context_strategy": strategy})
    order = [row.id for row in floor.rows(Context, Context.retired_at.is_(None))]
    got = [floor.context(floor.open(f"W{number}")).id for number in range(6)]
    assert Counter(got) == dict.fromkeys(order, 2)
    if strategy == "in_order":
        assert got == order * 2


def test_the_least_fooled_strategy_prefers_least_used_contexts_on_ties(
    lay: LayFloor,
) -> None:
    floor = lay(contexts=8, rounds={"context_strategy": "least_fooled"})
    fooled, *others, fresh = floor.rows(Context, Context.retired_at.is_(None))
    floor.pending(context_id=fooled.id, fooled=True)
    for context in (*others, *others, fresh):
        floor.pending(context_id=context.id, fooled=False)
    assert floor.context(floor.open("W1")).id == fresh.id


def test_a_context_can_be_skipped_after_enough_attempts_and_the_next_starts_fresh(floor: Floor) -> None:
    work = floor.open()
    before = floor.context(work).id
    for number in range(3):
        with floor.write() as session, pytest.raises(MoreAttemptsNeeded):
            skip(session, work, 0, now=floor.now)
        floor.ask(work, f"text {number}")
    with floor.write() as session:
        save_draft(session, work, 0, {"text": "old"}, now=floor.now)
        shown = skip(session, work, 0, now=floor.now)
    assert shown.context.id != before
    assert (shown.attempts_left, shown.attempts, shown.draft, shown.can_skip) == (floor.spec.work.tries, (), {}, False)
    assert [lease.outcome for lease in floor.rows(Lease)] == [LeaseEnd.SKIPPED, None]
    assert floor.ask(work, "after the skip").number == 4


def test_a_skip_without_another_context_changes_nothing(lay: LayFloor) -> None:
    floor = lay(contexts=1, work={"tries_before_skip": 0})
    work = floor.open()
    with pytest.raises(NothingToDo), floor.write() as session:
        skip(session, work, 0, now=floor.now)
    assert len(floor.live_leases()) == 1


def test_drafts_survive_a_reload_and_are_limited_in_size(floor: Floor) -> None:
    hit = floor.hit()
    work = floor.open(hit=hit)
    draft: dict[str, Any] = {"text": "half a senten\u202e🦊", "places": [1, 2]}
    with floor.write() as session:
        save_draft(session, work, 0, draft, now=floor.now)
        save_draft(session, work, None, {"consent": True}, now=floor.now)
    again = floor.open(hit=hit)
    assert again.draft == {"consent": True}
    with floor.store.read() as session:
        assert shown_items(session, again)[0].draft == draft
    for bad, error in (
        ({"text": "x" * 200_000}, TextTooLong),
        ({"text": "a\x00b"}, InvalidInput),
        ({"text": float("nan")}, InvalidInput),
    ):
        with floor.write() as session, pytest.raises(error):
            save_draft(session, work, 0, bad, now=floor.now)
    with floor.store.read() as session:
        assert items_of(session, work)[0].draft == draft


def test_problem_reports_reach_the_owner_with_their_context_and_are_limited(floor: Floor) -> None:
    work = floor.open("W7")
    floor.clock.set(work.expires_at)
    with floor.write() as session:
        report(session, work, 0, "  The prompt is <i>rude</i>.  ", now=floor.now)
    for bad, error in ((" ", InvalidInput), ("x" * 200_000, TextTooLong), ("\x00", InvalidInput)):
        with floor.write() as session, pytest.raises(error):
            report(session, work, 0, bad, now=floor.now)
    (entry,) = floor.rows(AuditEntry, AuditEntry.action == "reported")
    assert (entry.actor, entry.reason, entry.subject_id) == ("W7", "The prompt is <i>rude</i>.", work.hit_id)
    assert (entry.after["context"], entry.after["item"]) == (floor.context(work).id, 0)
    with floor.write() as session:
        for _ in range(9):
            report(session, work, None, "again", now=floor.now)
    with floor.write() as session, pytest.raises(TooManyReports):
        report(session, work, None, "and again", now=floor.now)


def test_reports_are_limited_per_page_and_per_hit(floor: Floor) -> None:
    hit = floor.hit()
    forged, honest = floor.open("FORGED", hit=hit), floor.open("W1", hit=hit)
    with floor.write() as session:
        for _ in range(10):
            report(session, forged, None, "noise", now=floor.now)
    with floor.write() as session, pytest.raises(TooManyReports):
        report(session, forged, None, "noise", now=floor.now)
    with floor.write() as session:
        report(session, honest, None, "The prompt is cut off.", now=floor.now)
        for number in range(489):
            about = {"session": f"other-{number}"}
            audit.note(session, "reported", hit, actor="FORGED", reason="noise", now=floor.now, of=hit, after=about)
    with floor.write() as session, pytest.raises(TooManyReports):
        report(session, honest, None, "It still is.", now=floor.now)
    elsewhere = floor.open("W1")
    with floor.write() as session:
        report(session, elsewhere, None, "Another HIT's is cut off too.", now=floor.now)


def test_nothing_is_accepted_after_the_deadline(floor: Floor) -> None:
    work = floor.open()
    text = floor.written(work, floor.fooling(work))
    floor.ask(work, text)
    floor.clock.set(work.expires_at)
    deeds = (
        lambda: floor.ask(work, floor.written(work, "late")),
        lambda: floor.hand_in(work, text),
        lambda: floor.finish(work),
    )
    for deed in deeds:
        with pytest.raises(TimeIsOver):
            deed()


def test_no_worker_goes_unpaid_because_their_round_was_closed_while_they_worked(floor: Floor) -> None:
    work = floor.open()
    floor.close_round()
    with pytest.raises(RoundTakesNoWork):
        floor.ask(work, "too late")
    assert floor.finish(work).status is SessionStatus.SUBMITTED
    floor.confirm(work)
    assert floor.one(work).status is SessionStatus.CONFIRMED


def test_a_worker_selects_an_answer_and_it_must_be_in_the_passage(lay: LayFloor) -> None:
    floor = lay("qa")
    work = floor.open()
    right = floor.written(work, "Which word comes last?")
    assert right.answer is not None
    for answer, error in (
        (None, InvalidInput),
        ({**right.answer, "start": 0}, InvalidInput),
        ({"text": "x"}, InvalidInput),
    ):
        with pytest.raises(error):
            floor.ask(work, PageInput(right.fields, answer=answer))
    attempt = floor.ask(work, PageInput(right.fields, answer={**right.answer, "labels": ["Answer"]}))
    assert attempt.answer == right.answer
    example = floor.hand_in(work, right)
    assert (example.answer, example.fooled) == (right.answer, True)


def test_if_the_worker_chooses_the_label_it_becomes_the_target(lay: LayFloor) -> None:
    floor = lay(target={"set_by": "annotator"})
    work = floor.open()
    with pytest.raises(InvalidInput):
        floor.ask(work, floor.written(work, "x", label=None))
    attempts = [floor.ask(work, floor.written(work, "x", label=name)) for name in floor.spec.label_names]
    assert len({one.id for one in attempts}) == len(floor.spec.label_names)
    example = floor.hand_in(work, floor.written(work, "x", label=floor.spec.label_names[2]))
    assert example.verdict_id == attempts[2].public_id
