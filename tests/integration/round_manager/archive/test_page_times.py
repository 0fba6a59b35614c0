"""The time of work on workers' pages, from the page to the researcher."""

from pathlib import Path

import pytest

import outfox
from round_manager.archive.storage import open_archives
from round_manager.database.store import Store
from round_manager.models import Example, HitKind
from round_manager.services.archives import freeze_round
from round_manager.services.context import Actor, ServiceContext
from round_manager.validation.metrics import round_metrics
from round_manager.work.validation_work import Judgement, judge_item
from tests.campaign import MINUTE, Campaign, start_campaign
from tests.campaign.pages import items_to_judge


def written(campaign: Campaign, worker: str, *counts: int | None) -> None:
    """Examples that fooled the model, each finished at that count of its page."""
    page = campaign.open_page(worker, hit=campaign.add_paid_hit())
    campaign.clock.advance(5 * MINUTE)
    for item, count in enumerate(counts):
        text = campaign.page_text(page, item)
        campaign.ask_target(page, text, item)
        campaign.submit_example(page, text, item, active_ms=count)
    campaign.finish_page(page)
    campaign.confirm(page)


def judged(campaign: Campaign, worker: str, *counts: int | None) -> None:
    """Votes for what the authors say, each given at that count of its page."""
    page = campaign.open_page(worker, kind=HitKind.VALIDATE)
    campaign.clock.advance(5 * MINUTE)
    meant = {one.fields["text"]: one.label for one in campaign.rows(Example)}
    with campaign.store.write() as session:
        for one, count in zip(items_to_judge(session, page), counts, strict=True):
            said = Judgement(label=meant[one.fields["text"]])
            judge_item(session, page, one.item, said, now=campaign.now, active_ms=count)
    campaign.finish_page(page)
    campaign.confirm(page)


def frozen(campaign: Campaign, folder: Path) -> dict[str, bytes]:
    """The files of the round's archive."""
    context, places = ServiceContext(campaign.store, campaign.clock), open_archives(str(folder))
    made = freeze_round(context, Actor("ada"), campaign.task.name, places, reason="a test")
    return {path.name: path.read_bytes() for path in Path(made.where).iterdir()}


@pytest.mark.any_database
def test_a_researcher_has_the_time_of_every_example_and_vote(store: Store, tmp_path: Path) -> None:
    campaign = start_campaign(
        store, work={"examples_per_hit": 2, "validations_per_hit": 2}, validation={"gold_rate": 0.0}
    )
    written(campaign, "W1", 60_000, 100_000)
    judged(campaign, "V1", 5_000, 20_000)
    judged(campaign, "V2", 7_000, 14_000)
    campaign.decide()
    campaign.mark_closed()
    first = frozen(campaign, tmp_path / "first")
    assert frozen(campaign, tmp_path / "again") == first
    assert sorted(outfox.load("sentiment", path=tmp_path / "first")["active_ms"]) == [40_000, 60_000]
    votes = outfox.votes("sentiment", path=tmp_path / "first")["active_ms"]
    assert sorted(votes) == [5_000, 7_000, 7_000, 15_000]
    row = outfox.metrics("sentiment", path=tmp_path / "first").iloc[0]
    assert row["author_seconds_per_verified"] == 50
    with store.read() as session:
        whole = round_metrics(session, campaign.round).counts
    assert whole.seconds_per_verified == pytest.approx(row["author_seconds_per_verified"] + votes.sum() / 1_000 / 2)
