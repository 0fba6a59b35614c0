"""The owner reads workers' reports, with pseudonyms for the workers."""

import json

import pytest

from round_manager.models import Worker
from round_manager.pseudonyms import pseudonym
from round_manager.work.reports import report
from tests.campaign import MINUTE, Campaign
from tests.conftest import Outfox


@pytest.fixture
def owner(outfox: Outfox, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> Outfox:
    """The command, on the campaign's own database."""
    monkeypatch.setenv("OUTFOX_DATABASE_URL", campaign.store.engine.url.render_as_string(hide_password=False))
    return outfox


def test_reports_are_listed_newest_first_without_worker_ids(owner: Outfox, campaign: Campaign) -> None:
    assert owner("crowd", "reports", "sentiment").out == "there are no reports about sentiment\n"
    first, second = campaign.open_page("WORKER1"), campaign.open_page("WORKER2")
    with campaign.store.write() as session:
        report(session, first, 0, "The text is\nin French.", now=campaign.now)
    campaign.clock.advance(MINUTE)
    with campaign.store.write() as session:
        report(session, second, None, "The button is [bold]hidden[/bold].", now=campaign.now)
    campaign.write_examples(first)
    campaign.confirm(first)

    ran = owner("crowd", "reports", "sentiment", "--json")
    told = json.loads(ran.out)
    names = {one.external_id: pseudonym(campaign.task, one) for one in campaign.rows(Worker)}
    assert [(one["worker"], one["confirmed"], one["item"], one["text"]) for one in told] == [
        (names["WORKER2"], False, None, "The button is [bold]hidden[/bold]."),
        (names["WORKER1"], True, 1, "The text is\nin French."),
    ]
    assert [one["hit_id"] for one in told] == ["H2", "H1"]
    text = owner("crowd", "reports", "sentiment").out
    assert "The text is in French." in text
    assert "[bold]hidden[/bold]" in text
    assert "WORKER1" not in ran.out + text


@pytest.mark.any_database
def test_reports_of_a_missing_task_are_refused(owner: Outfox) -> None:
    ran = owner("crowd", "reports", "nothing", "--json")
    assert (ran.code, ran.out, json.loads(ran.err)["code"]) == (2, "", "task_not_found")
