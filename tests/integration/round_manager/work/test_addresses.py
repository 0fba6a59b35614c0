"""Addresses of worker pages: kept as keyed hashes for 30 days, as evidence that accounts belong together."""

from pathlib import Path

import pytest

from round_manager.archive.storage import open_archives
from round_manager.models import PageAddress, WorkSession
from round_manager.services.validation import list_suspects
from round_manager.services.work import admit_browser, forget_addresses
from round_manager.validation.suspects import Suspects
from round_manager.work.addresses import KEPT_FOR, MOST_PER_PAGE, MOST_SHARING, AddressHasher
from round_manager.work.browsers import QUIET, SEEN_EVERY, PageBrowser
from round_manager.work.validation_work import Judgement
from tests.campaign import MINUTE, Campaign, NewCampaign

HASHER = AddressHasher("a secret of the server")
HOME, OFFICE = "203.0.113.7", "2001:db8:1:2::1"


def use_page(campaign: Campaign, work: WorkSession, address: str, browser: str = "own") -> bool:
    """Call for a page from an address; return whether the browser is a guest."""
    campaign.clock.advance(SEEN_EVERY)
    return admit_browser(campaign.services, work.public_id, PageBrowser(browser, None, HASHER.hash(address)))


def write(campaign: Campaign, worker: str, *addresses: str, confirm: bool = True) -> WorkSession:
    """Let a worker write a page from these addresses."""
    work = campaign.write_page(worker)
    for address in addresses:
        use_page(campaign, work, address)
    if confirm:
        campaign.confirm(work)
    return work


def stored(campaign: Campaign) -> int:
    return len(campaign.rows(PageAddress))


def suspects(campaign: Campaign) -> Suspects:
    return list_suspects(campaign.services, campaign.spec.name)


def test_an_address_is_stored_once_for_a_page_and_a_page_has_a_limited_number(campaign: Campaign) -> None:
    work = campaign.open_page("W1")
    for address in (HOME, HOME, OFFICE, "127.0.0.1", "unknown"):
        use_page(campaign, work, address)
    assert {row.address for row in campaign.rows(PageAddress)} == {HASHER.hash(HOME), HASHER.hash(OFFICE)}
    for number in range(20):
        use_page(campaign, work, f"198.51.100.{number}")
    assert stored(campaign) == MOST_PER_PAGE


def test_the_address_of_a_guest_is_not_stored(campaign: Campaign) -> None:
    work = campaign.open_page("W1")
    use_page(campaign, work, HOME)
    campaign.clock.advance(QUIET)
    assert use_page(campaign, work, OFFICE, "another")
    assert stored(campaign) == 1


def test_addresses_are_deleted_after_30_days_and_repeating_it_changes_nothing(campaign: Campaign) -> None:
    use_page(campaign, campaign.open_page("W1"), HOME)
    campaign.clock.advance(KEPT_FOR - MINUTE)
    use_page(campaign, campaign.open_page("W2"), HOME)
    assert (forget_addresses(campaign.services), stored(campaign)) == (0, 2)
    campaign.clock.advance(MINUTE)
    assert (forget_addresses(campaign.services), stored(campaign)) == (1, 1)
    assert (forget_addresses(campaign.services), stored(campaign)) == (0, 1)


def test_accounts_that_share_an_address_are_reported_with_their_meetings(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.0})
    write(campaign, "W1", HOME, OFFICE)
    write(campaign, "W3", "198.51.100.1")
    page = campaign.open_validation_page("W2")
    use_page(campaign, page, HOME)
    campaign.judge_all(page, Judgement(label="positive"))
    campaign.finish_page(page)
    campaign.confirm(page)
    (pair,) = suspects(campaign).sharing
    assert (pair.addresses, pair.meetings) == (1, 1)
    assert pair.expected > 0
    assert {pair.one, pair.other}.isdisjoint({"W1", "W2"})
    campaign.clock.advance(KEPT_FOR)
    forget_addresses(campaign.services)
    assert suspects(campaign).sharing == ()


@pytest.mark.parametrize(("people", "pairs"), [(2, 1), (MOST_SHARING + 1, 0)])
def test_an_address_of_many_accounts_says_nothing(campaign: Campaign, people: int, pairs: int) -> None:
    for number in range(people):
        write(campaign, f"W{number}", HOME)
    assert len(suspects(campaign).sharing) == pairs


def test_a_page_that_was_opened_in_another_workers_name_is_no_evidence(campaign: Campaign) -> None:
    write(campaign, "W1", HOME)
    write(campaign, "W2", HOME, confirm=False)
    assert suspects(campaign).sharing == ()


def test_an_archive_has_no_trace_of_addresses(campaign: Campaign, tmp_path: Path) -> None:
    write(campaign, "W1", HOME)
    campaign.mark_closed(at=campaign.now)
    archive = Path(campaign.freeze(open_archives(str(tmp_path))).where)
    texts = [file.read_text(encoding="utf-8") for file in archive.rglob("*.json*")]
    assert texts
    (found,) = campaign.rows(PageAddress)
    assert not [one for one in texts if HOME in one or found.address in one or "address" in one]
