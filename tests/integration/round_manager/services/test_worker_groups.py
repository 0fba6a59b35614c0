"""Groups of workers, rounds that are theirs, names, and what each person did in a period."""

import pytest

from round_manager.crowd.workers import worker_figures
from round_manager.errors import GroupExists, GroupNotFound, NameInvalid, UnknownWorker
from round_manager.models import Worker
from round_manager.services import worker_groups as services
from round_manager.services.validation import list_validators
from round_manager.tasks.rounds import draft_round
from round_manager.work.errors import NotInGroup
from round_manager.work.offers import make_offers
from round_manager.work.validation_work import Judgement
from tests.campaign import DAY, Campaign, NewCampaign
from tests.campaign.base import MARKET

pytestmark = pytest.mark.any_database
NO_GOLD = {"gold_rate": 0.0}


def group_with(campaign: Campaign, *workers: str) -> None:
    services.create_group(campaign.services, campaign.owner, "Vendor")
    services.add_to_group(campaign.services, campaign.owner, MARKET, "Vendor", workers)


def assign(campaign: Campaign, *names: str) -> None:
    services.assign_round(campaign.services, campaign.owner, campaign.task.name, None, names)


def test_only_members_get_pages_and_offers_of_their_groups_round(campaign: Campaign) -> None:
    group_with(campaign, "W1")
    assign(campaign, "Vendor")
    hit = campaign.add_hit()
    with pytest.raises(NotInGroup):
        campaign.open_page("W2", hit=hit)
    assert campaign.open_page("W1").status == "open"
    with campaign.store.read() as session:
        offers = [make_offers(session, MARKET, one, ["H1"], [], now=campaign.now) for one in ("W1", "W2")]
    assert [one["H1"].code for one in offers] == ["", "not_in_group"]
    assign(campaign)
    assert campaign.open_page("W2", hit=hit).status == "open"


def test_the_next_round_is_for_the_same_groups(campaign: Campaign) -> None:
    group_with(campaign, "W1")
    assign(campaign, "Vendor")
    campaign.mark_closed()
    with campaign.store.write() as session:
        draft_round(session, campaign.task, now=campaign.now)
    (group,) = services.list_groups(campaign.services)
    assert (group.members, group.rounds) == (("W1",), ((campaign.task.name, 1), (campaign.task.name, 2)))


def test_what_is_not_there_or_not_valid_is_refused(campaign: Campaign) -> None:
    group_with(campaign, "W1", "W1")
    context, owner = campaign.services, campaign.owner
    with pytest.raises(GroupExists):
        services.create_group(context, owner, " Vendor ")
    with pytest.raises(NameInvalid):
        services.create_group(context, owner, "a\nb")
    with pytest.raises(GroupNotFound):
        assign(campaign, "Others")
    with pytest.raises(UnknownWorker):
        services.remove_from_group(context, owner, "Vendor", ["NOBODY"])
    services.remove_from_group(context, owner, "Vendor", ["W1"])
    assert services.list_groups(context)[0].members == ()
    assert [one.action for one in campaign.audit("removed members from")] == ["removed members from"]


def test_a_worker_is_recognised_by_id_name_and_pseudonym(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    campaign.add_example("A1")
    page = campaign.open_validation_page("V1")
    campaign.judge_all(page, Judgement(label="positive"))
    campaign.finish_page(page)
    campaign.confirm(page)
    assert services.name_workers(campaign.services, campaign.owner, MARKET, {"V1": " Ada ", "V9": "New"}) == 2
    (validator,) = list_validators(campaign.services, campaign.task.name)
    with campaign.store.read() as session:
        figures = worker_figures(session, MARKET, [campaign.task])
    (listed,) = [one for one in figures if one.worker_id == "V1"]
    assert (validator.worker_id, validator.person) == (listed.worker_id, listed.name) == ("V1", "Ada")
    assert validator.name == listed.pseudonym
    services.name_workers(campaign.services, campaign.owner, MARKET, {"V1": ""})
    assert campaign.rows(Worker, Worker.external_id == "V1")[0].name is None


def test_the_report_counts_work_and_pay_in_its_period(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=NO_GOLD)
    group_with(campaign, "V1")
    examples = campaign.confirmed_examples("W1")
    page = campaign.open_validation_page("V1")
    campaign.judge_all(page, Judgement(label=examples[0].label))
    campaign.finish_page(page)
    campaign.confirm(page)
    today = campaign.now.date()
    found = {one.worker_id: one for one in services.work_report(campaign.services, today, today).people}
    assert (found["W1"].written, found["W1"].fooling, found["W1"].validated) == (len(examples), len(examples), 0)
    assert (found["V1"].validated, found["V1"].groups) == (len(examples), ("Vendor",))
    only = services.work_report(campaign.services, today, today, task=campaign.task.name, group="Vendor")
    assert [one.worker_id for one in only.people] == ["V1"]
    before = today - DAY
    assert services.work_report(campaign.services, before, before).people == []
