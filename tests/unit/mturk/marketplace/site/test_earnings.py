from datetime import timedelta

import pytest

from mturk.marketplace.services import earnings
from mturk.marketplace.tables.people import Worker
from tests.fakes.market import StillWorld


def submit_work(world: StillWorld, worker: Worker, cents: int, title: str) -> str:
    return world.work(worker, world.post(title, cents=cents).type_id).id


def test_earnings_show_decisions_reasons_and_sums(world: StillWorld) -> None:
    ada = world.make_worker("Ada")
    good, bad = submit_work(world, ada, 100, "A good one"), submit_work(world, ada, 30, "A bad one")
    submit_work(world, ada, 7, "A new one")
    world.approve(good, "Nice & clear")
    world.bonus(good, 250, "You fooled the <model>")
    world.reject(bad, "Copied from the instructions")
    page = world.sign_in(ada).get("/earnings").text
    figures = page.partition("</dl>")[0]
    for figure in ("$3.50", "$2.50", "$0.07", "1 task", "$0.00"):
        assert figure in figures
    for text in ("Nice &amp; clear", "You fooled the &lt;model&gt;", "Copied from the instructions", "In review"):
        assert text in page


def test_paid_out_money_is_shown_as_paid_out(world: StillWorld) -> None:
    ada = world.make_worker("Ada")
    world.approve(submit_work(world, ada, 125, "A good one"))
    earnings.make_payout(world.market)
    figures = world.sign_in(ada).get("/earnings").text.partition("</dl>")[0]
    paid_out, to_be_paid = figures.split('class="figure')[-2:]
    assert "$1.25" in paid_out
    assert "$0.00" in to_be_paid


def test_long_earnings_are_split_into_pages(world: StillWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mturk.marketplace.site.earnings.PAGE_SIZE", 2)
    ada = world.make_worker()
    for title in ("First", "Second", "Third"):
        submit_work(world, ada, 5, title)
        world.clock.advance(timedelta(days=1))
    browser = world.sign_in(ada)
    pages = [browser.get("/earnings").text, browser.get("/earnings?page=2").text]
    assert [[title in page for title in ("First", "Second", "Third")] for page in pages] == [
        [False, True, True],
        [True, False, False],
    ]
    assert [browser.get(f"/earnings?page={page}").status_code for page in ("0", "-1", "x", "99")] == [200] * 4


def test_messages_are_new_until_they_are_read(world: StillWorld) -> None:
    ada = world.make_worker()
    world.message(ada, "Round 2 <soon>", "It opens\non Monday")
    world.message(world.make_worker("Bob"), "For Bob", "only")
    browser = world.sign_in(ada)
    assert '1<span class="hidden"> waiting' in browser.get("/").text
    page = browser.get("/messages").text
    assert "Round 2 &lt;soon&gt;" in page
    assert "It opens\non Monday" in page
    assert "For Bob" not in page
    assert "card pad new" in page
    assert "card pad new" not in browser.get("/messages").text
    assert "waiting" not in browser.get("/").text
