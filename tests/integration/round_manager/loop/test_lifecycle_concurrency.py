"""Concurrent managers, workers and payments: a round advances once, and nothing is added after its end."""

from round_manager.loop.lifecycle import begin_validating, close_round, pause, resume
from round_manager.models import Hit, HitStatus, RoundStatus, WorkSession
from tests.integration.round_manager.season import Season
from tests.integration.round_manager.work.test_concurrency import at_once

TOGETHER = 4


def test_two_concurrent_managers_advance_the_round_once(season: Season) -> None:
    for step in (begin_validating, close_round):
        moved = at_once(*[lambda step=step: season.move(step)] * TOGETHER)
        assert {one.status for one in moved} == {season.status}
    assert [action for _, action, _ in season.history()] == ["opened", "began validating", "closed"]


def test_a_page_opened_while_the_round_ends_is_opened_before_the_end_or_refused(season: Season) -> None:
    hits = [season.floor.hit() for _ in range(TOGETHER)]
    pages = [lambda place=place: season.floor.open(f"W{place}", hit=hits[place]) for place in range(TOGETHER)]
    at_once(*pages, season.validate)
    opened = season.floor.rows(WorkSession)
    # A page opened after the end would have no work; every open page has its context.
    assert season.status is RoundStatus.VALIDATING
    assert len(season.floor.live_leases()) == len(opened)
    again = at_once(*[lambda place=place: season.floor.open(f"X{place}", hit=hits[place]) for place in range(TOGETHER)])
    assert all("nothing new is written" in str(error) for error in again)


def test_no_creation_hit_is_planned_after_the_end_of_writing(season: Season) -> None:
    outcomes = at_once(season.plan, season.plan, season.validate, season.plan)
    assert season.status is RoundStatus.VALIDATING
    refused = [one for one in outcomes if isinstance(one, Exception)]
    assert all("HITs to create need it open" in str(error) for error in refused)
    # HITs planned before the end were given up with it; later ones were refused.
    hits = season.floor.rows(Hit)
    assert [hit.status for hit in hits] == [HitStatus.REFUSED] * (3 - len(refused))
    assert not season.waiting()


def test_concurrent_payments_and_pauses_do_not_deadlock(season: Season) -> None:
    hits = season.post(TOGETHER)
    for place, hit in enumerate(hits):
        page = season.take(hit, f"W{place}")
        season.floor.write_all(page)
        season.submit(hit, f"W{place}", page)
    season.collector.run()

    def pay() -> None:
        season.pay_day()

    def stop_and_go() -> None:
        for step in (pause, resume) * 3:
            season.move(step)

    outcomes = at_once(pay, stop_and_go, stop_and_go, season.collector.run)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    season.pay_day()
    assert season.round.owed_cents == 0
