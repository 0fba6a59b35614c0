import csv
import io
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from mturk.marketplace import money, worker_actions
from mturk.marketplace.errors import PayoutNotFound
from mturk.marketplace.services import earnings
from mturk.marketplace.services.earnings import PayoutBatch, PayoutShare
from mturk.marketplace.tables.people import Movement, Worker
from tests.fakes.clock import NOON
from tests.unit.marketplace_site.stage import Stage, accepted


def hand_in(stage: Stage, worker: Worker, cents: int, title: str = "Is this review positive?") -> str:
    assignment = accepted(stage.signed_in(worker), stage.group_of(stage.post(title, cents=cents)))
    with stage.market.write() as session:
        worker_actions.submit(session, assignment, {"text": "x"}, stage.clock.now())
    return assignment


def test_earnings_tell_what_was_approved_rejected_and_is_in_review_with_reasons_and_sums(stage: Stage) -> None:
    ada = stage.worker("Ada")
    good, bad = hand_in(stage, ada, 100, "A good one"), hand_in(stage, ada, 30, "A bad one")
    hand_in(stage, ada, 7, "A new one")
    stage.approve(good, "Nice & clear")
    stage.bonus(good, 250, "You fooled the <model>")
    stage.reject(bad, "Copied from the instructions")
    page = stage.signed_in(ada).get("/earnings").text
    figures = page.partition("</dl>")[0]
    for sum_of in ("$3.50", "$2.50 of it as bonuses", "$0.07", "1 task", "$0.00"):
        assert sum_of in figures
    for told in ("Nice &amp; clear", "You fooled the &lt;model&gt;", "Copied from the instructions", "In review"):
        assert told in page


def test_a_long_record_comes_in_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mturk.marketplace.site.earnings.PAGE_SIZE", 2)
    ada = stage.worker()
    for title in ("First", "Second", "Third"):
        hand_in(stage, ada, 5, title)
        stage.clock.advance(timedelta(days=1))
    browser = stage.signed_in(ada)
    newest, older = browser.get("/earnings").text, browser.get("/earnings?page=2").text
    assert "Third" in newest
    assert "Second" in newest
    assert "First" not in newest
    assert "First" in older
    assert "Third" not in older
    assert [browser.get(f"/earnings?page={page}").status_code for page in ("0", "-1", "x", "99")] == [200] * 4


def test_messages_are_new_until_they_are_read(stage: Stage) -> None:
    ada = stage.worker()
    stage.write_to(ada, "Round 2 <soon>", "It opens\non Monday")
    stage.write_to(stage.worker("Bob"), "For Bob", "only")
    browser = stage.signed_in(ada)
    assert '1<span class="hidden"> waiting' in browser.get("/").text
    page = browser.get("/messages").text
    assert "Round 2 &lt;soon&gt;" in page
    assert "It opens\non Monday" in page
    assert "For Bob" not in page
    assert "card pad new" in page
    assert "card pad new" not in browser.get("/messages").text
    assert "waiting" not in browser.get("/").text


def test_a_payout_takes_each_balance_once_and_shows_as_paid_out(stage: Stage) -> None:
    ada, bob = stage.worker("Ada"), stage.worker("Bob")
    stage.approve(hand_in(stage, ada, 100))
    stage.approve(hand_in(stage, ada, 25))
    stage.approve(hand_in(stage, bob, 40, "Another"))
    hand_in(stage, bob, 99, "Not decided")
    stage.clock.advance(timedelta(days=1))
    first, second = earnings.make_payout(stage.market), earnings.make_payout(stage.market)
    assert [(share.name, share.cents) for share in first.shares] == [("Ada", 125), ("Bob", 40)]
    assert (second.shares, second.id) == ((), "")
    figures = stage.signed_in(ada).get("/earnings").text.partition("</dl>")[0]
    paid_out, to_be_paid = figures.split('class="figure')[-2:]
    assert "$1.25" in paid_out
    assert "$0.00" in to_be_paid
    with stage.market.read() as session:
        assert money.balance(session, money.PAYOUTS) == 165
        assert money.summary(session).is_balanced


def test_a_payout_can_be_printed_again_and_the_next_begins_where_it_ended(stage: Stage) -> None:
    ada = stage.worker("Ada")
    stage.approve(hand_in(stage, ada, 100))
    first = earnings.make_payout(stage.market)
    stage.clock.advance(timedelta(days=7))
    stage.approve(hand_in(stage, ada, 50, "Another"))
    second = earnings.make_payout(stage.market)
    assert earnings.find_payout(stage.market, first.id) == first
    assert earnings.find_payout(stage.market, second.id) == second
    assert (first.since, first.until, second.since) == (None, NOON, NOON)
    assert earnings.payout_csv(second).splitlines()[1] == (
        f"{ada.id},Ada,50,0.50,{second.id},2027-03-01T12:00:00Z,2027-03-08T12:00:00Z"
    )


def test_what_would_be_paid_out_changes_nothing(stage: Stage) -> None:
    stage.approve(hand_in(stage, stage.worker(), 100))
    movements = select(func.count()).select_from(Movement)
    with stage.market.read() as session:
        before = session.scalar(movements)
    assert earnings.preview_payout(stage.market).cents == 100
    with stage.market.read() as session:
        assert session.scalar(movements) == before


def test_a_payout_that_was_never_made_is_named_with_those_that_were(stage: Stage) -> None:
    with pytest.raises(PayoutNotFound):
        earnings.find_payout(stage.market, "X")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x")', "a,b", 'a"b'])
def test_no_name_becomes_a_formula_or_another_cell(name: str) -> None:
    written = earnings.payout_csv(PayoutBatch("B", None, NOON, (PayoutShare("A1", name, 5),)))
    _, row = csv.reader(io.StringIO(written))
    assert row[1] == (f"'{name}" if name[0] in "=+-@" else name)
    assert row[2:4] == ["5", "0.05"]
