"""Concurrent managers, workers and payments: a round advances once, and nothing is added after its end."""

from round_manager.loop.lifecycle import begin_validating, close_round, pause, resume
from round_manager.models import Hit, HitStatus, RoundStatus, WorkSession
from tests.campaign import Campaign
from tests.integration.round_manager.work.test_concurrency import at_once

TOGETHER = 4


def test_two_concurrent_managers_advance_the_round_once(campaign: Campaign) -> None:
    for step in (begin_validating, close_round):
        moved = at_once(*[lambda step=step: campaign.move_round(step)] * TOGETHER)
        assert {one.status for one in moved} == {campaign.status}
    assert [action for _, action, _ in campaign.round_history()] == ["opened", "began validating", "closed"]


def test_a_page_opened_while_the_round_ends_is_opened_before_the_end_or_refused(campaign: Campaign) -> None:
    hits = [campaign.add_hit() for _ in range(TOGETHER)]
    pages = [lambda place=place: campaign.open_page(f"W{place}", hit=hits[place]) for place in range(TOGETHER)]
    at_once(*pages, campaign.begin_validating)
    opened = campaign.rows(WorkSession)
    # A page opened after the end would have no work; every open page has its context.
    assert campaign.status is RoundStatus.VALIDATING
    assert len(campaign.live_leases()) == len(opened)
    again = at_once(
        *[lambda place=place: campaign.open_page(f"X{place}", hit=hits[place]) for place in range(TOGETHER)]
    )
    assert all("nothing new is written" in str(error) for error in again)


def test_no_creation_hit_is_planned_after_the_end_of_writing(campaign: Campaign) -> None:
    outcomes = at_once(campaign.plan_hits, campaign.plan_hits, campaign.begin_validating, campaign.plan_hits)
    assert campaign.status is RoundStatus.VALIDATING
    refused = [one for one in outcomes if isinstance(one, Exception)]
    assert all("HITs to create need it open" in str(error) for error in refused)
    # HITs planned before the end were given up with it; later ones were refused.
    hits = campaign.rows(Hit)
    assert [hit.status for hit in hits] == [HitStatus.REFUSED] * (3 - len(refused))
    assert not campaign.waiting()


def test_concurrent_payments_and_pauses_do_not_deadlock(campaign: Campaign) -> None:
    hits = campaign.post_hits(TOGETHER)
    for place, hit in enumerate(hits):
        page = campaign.accept_hit(hit, f"W{place}")
        campaign.write_examples(page)
        campaign.submit_hit(hit, f"W{place}", page)
    campaign.marketplace.collector.run()

    def pay() -> None:
        campaign.collect_and_pay()

    def stop_and_go() -> None:
        for step in (pause, resume) * 3:
            campaign.move_round(step)

    outcomes = at_once(pay, stop_and_go, stop_and_go, campaign.marketplace.collector.run)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    campaign.collect_and_pay()
    assert campaign.round.owed_cents == 0
