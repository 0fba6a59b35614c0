"""A quote for validation HITs counts what there is to validate."""

from datetime import timedelta

from round_manager.crowd.hit_planning import HitRequest
from round_manager.loop.quote import Quote, quote
from round_manager.models import HitKind, Round, Task
from tests.campaign import Campaign, NewCampaign
from tests.fakes.crowd import FakeCrowd


def quoted(campaign: Campaign, places: int) -> Quote:
    wish = HitRequest(HitKind.VALIDATE, 1, places, campaign.now + timedelta(hours=1))
    with campaign.store.read() as session:
        task, round = session.get_one(Task, campaign.task.id), session.get_one(Round, campaign.round_id)
        return quote(session, task, round, wish, FakeCrowd(campaign.clock.now), 10_000, now=campaign.now)


def test_places_are_needed_for_missing_votes_that_are_not_posted_yet(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    for votes in (1, 2, 3):
        campaign.add_example(wanted=votes)
    wanted = quoted(campaign, 3).votes_wanted
    assert wanted is not None
    assert (wanted.votes, wanted.places_out, wanted.places_needed) == (6, 0, 3)
    assert [quoted(campaign, places).places_too_many for places in (3, 4)] == [0, 1]
    campaign.add_hit(HitKind.VALIDATE, max_assignments=2)
    assert [quoted(campaign, places).places_too_many for places in (1, 3)] == [0, 2]
