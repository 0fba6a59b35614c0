import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from crowd.errors import CrowdBusy, CrowdError, CrowdUnavailable
from plugin.cli.crowd_context import AnnouncedRetries
from tests.fakes.marketplace_proxy import Outcome, proxy_of
from tests.integration.plugin.cli.crowd.shop import EACH, REWARD, REWARD_FEE, SENTIMENT, Shop

POST = ("post", SENTIMENT, "--kind", "create", "--hits", 1, "--yes")
LONG_AGO = timedelta(hours=25)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable retries: do not wait for an unavailable marketplace."""
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_TO_WAIT", 0.0)


def test_with_wrong_keys_nothing_is_planned_and_debts_stay_owed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.post(2)
    shop.hand_in()
    shop.asked("status")
    shop.owe_all()
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", "x" * 40)
    for command in (
        ("balance",),
        ("status",),
        POST,
        ("approve", "--all"),
        ("pay",),
        ("expire", SENTIMENT, "--all", "--yes"),
    ):
        assert shop.refused(*command) == "crowd_access_denied"
    assert (shop.figures().reserved_cents, shop.figures().owed_cents) == (2 * EACH - REWARD - REWARD_FEE, 54)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", shop.market.key.secret)
    assert shop.asked("pay")["paid"]["rewards"] == 1
    assert shop.earned() == REWARD


def test_an_unavailable_marketplace_can_be_retried(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.post(1)
    monkeypatch.setenv("OUTFOX_CROWD_URL", "http://127.0.0.1:9")
    for command in (
        ("balance",),
        ("status",),
        POST,
        ("pay",),
        ("approve", "--all"),
        ("expire", SENTIMENT, "--all", "--yes"),
    ):
        assert shop.refused(*command, code=3) == "crowd_unavailable"
    assert shop.figures().reserved_cents == EACH
    assert shop.error("balance", code=3)["retry"]


def test_a_bonus_whose_response_is_lost_is_in_doubt_and_then_found(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    bonus = ("bonus", shop.worked(), "0.50", "--reason", "Thanks.", "--yes")
    with proxy_of(shop.market.url) as proxy:
        monkeypatch.setenv("OUTFOX_CROWD_URL", proxy.url)
        # The balance and whether the account is ours, for the command; both again before bonuses are sent.
        proxy.next(*[Outcome.PASSED] * 4, Outcome.DROPPED_AFTER)
        ran = shop.run(*bonus, "--json")
        assert (ran.failure, json.loads(ran.out)["paid"]["in_doubt"]) == ((3, "crowd_unavailable"), 1)
        assert shop.earned() == REWARD + 50
        assert shop.refused(*bonus) == "bonus_already_given"
        assert shop.asked("pay")["reconciled"]["found"] == 1
        assert proxy.calls("SendBonus") == 1
    assert shop.earned() == REWARD + 50
    assert shop.figures().sent_cents == shop.spent()


def test_a_hit_whose_response_is_lost_is_posted_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.worker()  # The qualification is there, so that the third call posts.
    with proxy_of(shop.market.url) as proxy:
        monkeypatch.setenv("OUTFOX_CROWD_URL", proxy.url)
        proxy.next(Outcome.PASSED, Outcome.PASSED, Outcome.DROPPED_AFTER)
        ran = shop.run(*POST, "--json")
        assert (ran.code, json.loads(ran.out)["in_doubt"]) == (3, 1)
        again = shop.asked(*POST)
    assert (again["continued"], again["reconciled"], again["posted"]) == (True, 1, 0)
    assert shop.spent() == REWARD + REWARD_FEE
    assert shop.figures().reserved_cents == EACH


def test_without_keys_the_settings_are_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTFOX_CROWD_KEY_ID")
    error = shop.error("balance")
    assert (error["code"], "OUTFOX_CROWD_KEY_ID" in error["error"]) == ("settings_error", True)


def test_a_payment_in_doubt_is_looked_up_and_made_once(shop: Shop) -> None:
    key = shop.owed_bonus(shop.worked())
    shop.cut_off(key)
    doubt = shop.asked("status")["in_doubt"]
    assert [(one["key"], one["what"], one["cents"]) for one in doubt] == [(key, "extra", 60)]
    assert "0 HITs and 1 payment, $0.60 in all" in shop.text("reconcile", "--dry-run")
    assert shop.earned() == REWARD
    assert shop.asked("reconcile")["sent_again"] == 1
    assert shop.earned() == REWARD + 50
    assert "nothing is in doubt" in shop.text("reconcile", "--dry-run")
    assert shop.asked("pay")["paid"]["bonuses"] == 0
    assert shop.figures().sent_cents == shop.spent()


def test_a_held_payment_waits_for_a_persons_decision(shop: Shop) -> None:
    work = shop.worked()
    first, second = shop.owed_bonus(work), shop.owed_bonus(work, "Again.")
    for key in (first, second):
        shop.cut_off(key, ago=LONG_AGO)
    assert shop.asked("reconcile")["held"] == 2
    assert f"outfox crowd reconcile --paid {first}" in shop.text("status")
    assert shop.refused("reconcile", "--paid", first, "--unpaid", first) == "usage"
    assert shop.refused("reconcile", "--not-posted", first, "--dry-run") == "nothing_held"
    assert shop.asked("reconcile", "--unpaid", first, "--dry-run")["dry_run"]
    assert shop.asked("pay")["paid"]["bonuses"] == 0

    shop.asked("reconcile", "--paid", first, "--why", "The worker has it.")
    new = shop.asked("reconcile", "--unpaid", second)["counts"]
    assert new != second
    assert shop.asked("pay")["paid"]["bonuses"] == 1
    assert shop.earned() == REWARD + 50
    assert shop.asked("status")["held"] == []
    assert shop.refused("reconcile", "--paid", first) == "nothing_held"


def test_a_person_releases_a_held_hit(shop: Shop) -> None:
    key = shop.planned_hit(sent_ago=LONG_AGO)
    assert shop.asked("reconcile")["held"] == 1
    assert f"outfox crowd reconcile --not-posted {key}" in shop.text("status")
    assert shop.figures().reserved_cents == EACH
    shop.asked("reconcile", "--not-posted", key, "--why", "It is not listed there.")
    assert shop.figures().reserved_cents == 0
    assert [one["key"] for one in shop.asked("status")["refused"]] == [key]


def test_a_waiting_command_says_so_once_and_gives_up_early_if_nothing_listens(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_TO_WAIT", 600.0)
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_WHERE_NOTHING_LISTENS", 0.3)
    monkeypatch.setenv("OUTFOX_CROWD_URL", "http://127.0.0.1:9")
    ran = shop.run("balance")
    first, last = ran.err.splitlines()
    assert (ran.code, first) == (3, "the marketplace does not answer; retrying for 1 more second")
    assert "did not answer GetAccountBalance" in last
    # A program that reads standard error gets the error alone.
    assert json.loads(shop.run("balance", "--json").err)["error"] == last.removeprefix("outfox: ")


def test_a_failing_marketplace_is_retried_for_the_whole_budget(capsys: pytest.CaptureFixture[str]) -> None:
    waited: list[float] = []
    retries = AnnouncedRetries(20.0, clock=lambda: sum(waited), sleep=waited.append, spread=lambda: 1.0)

    def fails(error: CrowdError) -> Callable[[], None]:
        def call() -> None:
            raise error

        return call

    with pytest.raises(CrowdBusy):
        retries.run(fails(CrowdBusy("slow down")))
    assert capsys.readouterr().err == ""
    for _ in range(2):
        waited.clear()
        with pytest.raises(CrowdUnavailable):
            retries.run(fails(CrowdUnavailable("HTTP 500")))
        assert 18 < sum(waited) < 20
    # Announced once, with the time.
    (line,) = capsys.readouterr().err.splitlines()
    assert " 20 " in line


def test_a_hit_unknown_to_the_marketplace_keeps_its_money_and_is_listed(shop: Shop) -> None:
    shop.post(2)
    lost = shop.lose_a_hit()
    found = shop.asked("status")
    assert (found["collected"]["unknown"], [one["hit_id"] for one in found["astray"]]) == (1, [lost])
    assert shop.figures().reserved_cents == 2 * EACH
    assert lost in shop.text("status")
    assert shop.asked("approve", "--all")["collected"]["unknown"] == 1


def test_with_another_accounts_key_nothing_is_done(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.post(2)
    work = shop.hand_in()
    shop.asked("status")
    shop.planned_hit(sent_ago=timedelta())
    before = shop.figures()
    _, key = shop.market.make_requester("Another lab")
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", key.id)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", key.secret)
    for command in (
        ("balance",),
        ("status",),
        POST,
        ("approve", "--all"),
        ("bonus", work, 1, "--reason", "Thanks.", "--yes"),
        ("pay",),
        ("reconcile",),
        ("expire", SENTIMENT, "--all", "--yes"),
    ):
        assert shop.refused(*command) == "wrong_crowd_account"
    assert shop.figures() == before


def test_a_bonus_for_work_unknown_to_the_marketplace_is_held_for_a_manual_decision(shop: Shop) -> None:
    work = shop.worked()
    shop.post(1)
    shop.lose_a_hit()
    ran = shop.run("bonus", work, "0.50", "--reason", "Thanks.", "--yes", "--json")
    assert (ran.failure, json.loads(ran.out)["paid"]["held"]) == ((2, "crowd_refused"), 1)
    assert "outfox crowd reconcile --paid x-" in shop.text("status")


def test_uncovered_work_is_reported_and_does_not_delay_the_rest(shop: Shop) -> None:
    shop.post(1)
    shop.grow_a_hit()
    shop.spoil("UPDATE round SET budget_cents = reserved_cents + owed_cents + sent_cents")
    for name in ("Ann", "Bob"):
        shop.hand_in(name)
    ran = shop.run("approve", "--all", "--json")
    done = json.loads(ran.out)
    assert (ran.code, done["approved"], done["uncovered"], done["paid"]["rewards"]) == (2, 1, 1, 1), ran
    assert shop.earned("Ann") + shop.earned("Bob") == REWARD
