"""Every moment of a worker's time counts once, whatever pages they had open."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import update

from round_manager.crowd.fair_pay import due_top_ups, group_wages
from round_manager.database.store import Store
from round_manager.models import Assignment, CreditedSpan, Example, HitKind, Round, SessionStatus, WorkSession
from round_manager.services.work import record_active_time
from round_manager.work.active_time import LONGEST_SILENCE
from round_manager.work.validation_work import Judgement
from tests.campaign import MINUTE, Campaign, NewCampaign, start_campaign

SECOND = timedelta(seconds=1)
HOUR_MS = 3_600_000
MANY = {"hits_at_once": 100}
POSITIVE = Judgement(label="positive")


@pytest.fixture
def any_new(any_store: Store) -> NewCampaign:
    """Start a campaign on one kind of database, for tests that do not depend on the kind."""
    return partial(start_campaign, any_store)


@pytest.fixture
def any_campaign(any_new: NewCampaign) -> Campaign:
    return any_new()


def report(campaign: Campaign, page: WorkSession, active_ms: int) -> int:
    return record_active_time(campaign.services, page.public_id, active_ms)


def use(campaign: Campaign, page: WorkSession, seconds: int) -> None:
    """Let a worker use the page for some time, with the heartbeats of a real page."""
    count = campaign.reload(page).active_ms
    for passed in [*range(15, seconds, 15), seconds]:
        campaign.clock.advance(SECOND * (passed - (passed - 1) // 15 * 15))
        report(campaign, page, count + passed * 1_000)


def submitted(campaign: Campaign, page: WorkSession) -> int | None:
    """The time that is credited once the marketplace lists the page's assignment."""
    with campaign.store.write() as session:
        session.execute(
            update(WorkSession)
            .where(WorkSession.id == page.id)
            .values(status=SessionStatus.SUBMITTED, submitted_at=campaign.now)
        )
    assignment: Assignment = campaign.reload(campaign.confirm(page))
    return assignment.active_ms


def wall_ms(campaign: Campaign, since: WorkSession) -> int:
    return (campaign.now - since.started_at) // timedelta(milliseconds=1)


@pytest.mark.parametrize("reports", [1, 4])
def test_eighteen_hits_held_in_parallel_are_worth_the_wall_time_together(
    new_campaign: NewCampaign, reports: int
) -> None:
    campaign = new_campaign(work={**MANY, "repeat_context": True}, contexts=30)
    hits = campaign.post_hits(18)
    pages = [campaign.accept_hit(hit, "W1") for hit in hits]
    for _ in range(reports):
        campaign.clock.advance(400 * SECOND / reports)
        for page in pages:
            report(campaign, page, HOUR_MS)
    for hit, page in zip(hits, pages, strict=True):
        campaign.write_examples(page)
        campaign.submit_hit(hit, "W1", page)
    campaign.collect_and_pay()
    credited = [work.active_ms for work in campaign.rows(Assignment)]
    assert sum(ms or 0 for ms in credited) <= 400_000
    assert sum(example.active_ms or 0 for example in campaign.rows(Example)) <= 400_000
    with campaign.store.read() as session:
        (wage,) = group_wages(session, campaign.task, round=session.get_one(Round, campaign.round_id))
        assert wage.median_seconds < 400 / 18 + 1
        assert due_top_ups(session, session.get_one(Round, campaign.round_id)).cents == 0


def test_alternating_between_two_pages_loses_nothing(any_new: NewCampaign) -> None:
    campaign = any_new(work=MANY)
    pages = [campaign.open_page(), campaign.open_page()]
    for seconds in (40, 7, 61, 3):
        for page in pages:
            use(campaign, page, seconds)
    assert [submitted(campaign, page) for page in pages] == [111_000, 111_000]
    assert wall_ms(campaign, pages[0]) == 222_000


def test_pages_that_are_used_side_by_side_share_the_time(any_new: NewCampaign) -> None:
    campaign = any_new(work=MANY)
    first, second = campaign.open_page(), campaign.open_page()
    for passed in range(15, 61, 15):
        campaign.clock.advance(15 * SECOND)
        report(campaign, first, passed * 1_000)
        report(campaign, second, passed * 1_000)
    campaign.clock.advance(15 * SECOND)
    report(campaign, second, 75_000)
    assert (submitted(campaign, first), submitted(campaign, second)) == (60_000, 15_000)


def test_time_is_shared_between_tasks(any_new: NewCampaign) -> None:
    campaign, other = any_new(), any_new("nli")
    other.numbers = campaign.numbers
    pages = [(campaign, campaign.open_page()), (other, other.open_page())]
    for one in (campaign, other):
        one.clock.advance(MINUTE)
    for one, page in pages:
        report(one, page, 60_000)
    assert [submitted(one, page) for one, page in pages] == [60_000, 0]


def test_pages_that_strangers_open_in_a_workers_name_take_no_time(any_new: NewCampaign) -> None:
    campaign = any_new(work=MANY)
    forged = [campaign.open_page("W1", assignment=f"FORGED{number}") for number in range(3)]
    page = campaign.open_page("W1")
    campaign.clock.advance(MINUTE)
    for one in (*forged, page):
        report(campaign, one, 60_000)
    campaign.confirm(forged[0], worker="W2")
    assert submitted(campaign, page) == 60_000


def test_a_worker_has_their_own_time_beside_others(any_campaign: Campaign) -> None:
    pages = [any_campaign.open_page(worker) for worker in ("W1", "W2")]
    any_campaign.clock.advance(MINUTE)
    for page in pages:
        report(any_campaign, page, 60_000)
    assert [submitted(any_campaign, page) for page in pages] == [60_000, 60_000]


def test_pages_that_report_nothing_share_the_time_that_they_were_open(any_new: NewCampaign) -> None:
    campaign = any_new(work=MANY)
    pages = [campaign.open_page() for _ in range(3)]
    campaign.clock.advance(MINUTE)
    assert [submitted(campaign, page) for page in pages] == [60_000, 0, 0]


def test_work_without_a_page_of_ours_has_the_time_since_the_submission_before(any_campaign: Campaign) -> None:
    hits = any_campaign.post_hits(3)
    for hit in hits:
        any_campaign.crowd.accept(str(hit.external_id), "W1")
    for hit in reversed(hits):
        any_campaign.clock.advance(5 * MINUTE)
        any_campaign.crowd.submit(str(hit.external_id), "W1")
    any_campaign.marketplace.collector.run()
    assert [work.active_ms for work in any_campaign.rows(Assignment)] == [300_000] * 3


def test_a_reload_and_a_second_browser_add_nothing(any_campaign: Campaign) -> None:
    hit = any_campaign.add_hit()
    page = any_campaign.open_page(hit=hit)
    use(any_campaign, page, 60)
    again = any_campaign.open_page(hit=hit)
    assert again.id == page.id
    for browser in (page, again):
        any_campaign.clock.advance(10 * SECOND)
        report(any_campaign, browser, 80_000)
    assert submitted(any_campaign, page) == 80_000 == wall_ms(any_campaign, page)


def test_a_page_that_crashed_loses_only_what_it_did_not_report(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    use(any_campaign, page, 60)
    any_campaign.clock.advance(10 * MINUTE)
    use(any_campaign, page, 30)
    assert submitted(any_campaign, page) == 90_000


def test_a_page_that_was_silent_for_long_counts_as_closed(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    any_campaign.clock.advance(15 * MINUTE)
    assert report(any_campaign, page, HOUR_MS) == LONGEST_SILENCE // timedelta(milliseconds=1)


def test_repeated_and_reordered_reports_add_nothing(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    any_campaign.clock.advance(MINUTE)
    assert [report(any_campaign, page, ms) for ms in (40_000, 40_000, 20_000, 45_000, 40_000)] == [
        40_000, 40_000, 40_000, 45_000, 45_000,
    ]  # fmt: skip
    any_campaign.clock.advance(MINUTE)
    assert report(any_campaign, page, 45_000) == 45_000
    assert submitted(any_campaign, page) == 45_000


def test_a_clock_that_jumps_creates_no_time(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    use(any_campaign, page, 60)
    any_campaign.clock.advance(-timedelta(hours=1))
    assert report(any_campaign, page, HOUR_MS) == 60_000
    any_campaign.clock.advance(timedelta(hours=1))
    assert report(any_campaign, page, HOUR_MS) == 60_000
    any_campaign.clock.advance(-30 * SECOND)
    any_campaign.clock.advance(45 * SECOND)
    assert report(any_campaign, page, 75_000) == 75_000
    assert submitted(any_campaign, page) == 75_000


def test_the_times_of_examples_and_votes_follow_the_credited_time(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={**MANY, "examples_per_hit": 2}, validation={"gold_rate": 0.0})
    pages = [campaign.open_page(), campaign.open_page()]
    for item, passed in ((0, 60), (1, 120)):
        campaign.clock.advance(MINUTE)
        for page in pages:
            text = campaign.page_text(page, item)
            campaign.ask_target(page, text, item)
            campaign.submit_example(page, text, item, active_ms=passed * 1_000)
    for page in pages:
        campaign.confirm(campaign.finish_page(page))
    assert [example.active_ms for example in campaign.rows(Example)] == [60_000, 0, 60_000, 0]
    checking = campaign.open_page("V1", kind=HitKind.VALIDATE)
    idle = campaign.open_page("V1")
    campaign.clock.advance(MINUTE)
    report(campaign, idle, 30_000)
    report(campaign, checking, 60_000)
    campaign.judge_all(checking, POSITIVE)
    submitted(campaign, idle)
    campaign.confirm(campaign.finish_page(checking))
    assert sum(vote.active_ms or 0 for vote in campaign.votes()) == 30_000


def test_confirming_again_credits_nothing_more(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    use(any_campaign, page, 60)
    submitted(any_campaign, page)
    spans = [(one.starts_at, one.ends_at) for one in any_campaign.rows(CreditedSpan)]
    assert any_campaign.reload(any_campaign.confirm(page)).active_ms == 60_000
    assert [(one.starts_at, one.ends_at) for one in any_campaign.rows(CreditedSpan)] == spans
    assert len(spans) == 1


def test_reports_and_confirmations_at_the_same_time_count_no_moment_twice(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(work={**MANY, "repeat_context": True}, contexts=30)
    pages = [campaign.open_page() for _ in range(4)]
    campaign.clock.advance(MINUTE)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda page: report(campaign, page, HOUR_MS), [page for page in pages for _ in range(2)]))
        assert {campaign.reload(page).active_ms for page in pages} == {60_000}
        credited = list(threads.map(lambda page: submitted(campaign, page), pages))
    assert sum(ms or 0 for ms in credited) == 60_000


def test_a_session_from_before_the_upgrade_keeps_its_time(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    any_campaign.clock.advance(2 * MINUTE)
    with any_campaign.store.write() as session:
        session.execute(update(WorkSession).values(active_ms=50_000, active_spans=None))
    assert report(any_campaign, page, 80_000) == 80_000
    assert submitted(any_campaign, page) == 80_000


def test_a_long_page_has_few_spans(any_campaign: Campaign) -> None:
    page = any_campaign.open_page()
    for number in range(1, 41):
        any_campaign.clock.advance(15_020 * timedelta(milliseconds=1))
        report(any_campaign, page, number * 15_000)
    (span,) = any_campaign.reload(page).active_spans or []
    assert span[1] - span[0] == 40 * 15_000
