import subprocess
import sys
from pathlib import Path

import pytest

from common.progress import Progress
from common.text import dollars
from round_manager.crowd.payments import PaymentResult, PaymentSender
from tests.integration.plugin.cli.crowd.shop import BONUS_FEE, EACH, REWARD, REWARD_FEE, SENTIMENT, Shop

START = 1_000_000


def test_work_is_collected_approved_and_paid_to_the_cent(shop: Shop) -> None:
    shop.post(2)
    first, second = shop.hand_in("Ann"), shop.hand_in("Bob")
    answer = shop.asked("status")
    assert [one["assignment_id"] for one in answer["undecided"]] == [first, second]
    assert answer["collected"]["works"] == 2

    would = shop.asked("approve", SENTIMENT, "--all", "--dry-run")
    assert (would["reward_cents"], would["fee_cents"]) == (2 * REWARD, 2 * REWARD_FEE)
    assert (shop.figures().owed_cents, shop.earned("Ann")) == (0, 0)

    assert shop.asked("approve", first)["paid"]["rewards"] == 1
    assert (shop.earned("Ann"), shop.earned("Bob")) == (REWARD, 0)
    assert shop.asked("approve", SENTIMENT, "--all", "--why", "good")["paid"]["cents"] == REWARD
    assert (shop.earned("Ann"), shop.earned("Bob")) == (REWARD, REWARD)

    given = shop.asked("bonus", first, "$0.60", "--reason", "Thank you!", "--yes")
    assert (given["cents"], given["fee_cents"], given["paid"]["bonuses"]) == (60, BONUS_FEE, 1)
    assert shop.earned("Ann") == REWARD + 60
    assert "nothing was owed" in shop.text("pay")

    spent = 2 * (REWARD + REWARD_FEE) + 60 + BONUS_FEE
    assert shop.account() == START - spent
    assert shop.figures().sent_cents == spent
    money = shop.asked("balance")
    assert (money["account_cents"], money["covered"], money["tasks"][0]["paid_cents"]) == (START - spent, True, spent)
    (group,) = shop.asked("status")["groups"]
    assert (group["approved"], group["undecided"], group["unfinished"], group["median_minutes"]) == (2, 0, 0, 1.0)


def test_the_statement_shows_each_day_and_says_that_it_adds_up(shop: Shop) -> None:
    shop.post(1)
    shop.hand_in()
    shop.asked("approve", "--all")
    text = shop.text("statement")
    assert text.rstrip().endswith("it adds up: reserved + owed + sent + released = budget, to the cent")
    whole, line = shop.asked("statement", SENTIMENT, "--days", 30)["lines"]  # The task was made today.
    assert (whole["round"], line["round"], line["day"]) == (None, 1, f"{shop.today():%Y-%m-%d}")
    assert (line["newly_reserved_cents"], line["newly_sent_cents"]) == (EACH, REWARD + REWARD_FEE)
    assert (line["confirmed_cents"], line["fee_cents"]) == (REWARD + REWARD_FEE, REWARD_FEE)
    yesterday = shop.asked("statement", SENTIMENT, "--day", f"{shop.today(-1):%Y-%m-%d}")
    assert [one["released_cents"] for one in yesterday["lines"]] == [240_000, 60_000]
    assert shop.refused("statement", "--day", f"{shop.today(1):%Y-%m-%d}") == "usage"


def test_a_changed_ledger_does_not_add_up(shop: Shop) -> None:
    shop.post(1)
    shop.spoil("UPDATE round SET reserved_cents = reserved_cents + 1")
    ran = shop.run("statement")
    assert (ran.code, "BY $0.01" in ran.out) == (1, True)
    assert shop.asked("statement", code=1)["drift_cents"] == 1


def test_the_same_bonus_is_given_once_unless_it_is_forced(shop: Shop) -> None:
    shop.post(1)
    work = shop.hand_in()
    shop.asked("approve", "--all")
    bonus = ("bonus", work, "1.00", "--reason", "Fast.")
    assert "would give $1.00" in shop.text(*bonus, "--dry-run")
    assert shop.refused(*bonus) == "confirmation_required"
    assert shop.earned() == REWARD
    shop.asked(*bonus, "--yes")
    assert shop.refused(*bonus, "--yes") == "bonus_already_given"
    assert shop.earned() == REWARD + 100
    shop.asked(*bonus, "--yes", "--again")
    assert shop.earned() == REWARD + 200


def test_the_same_command_run_twice_concurrently_gives_one_bonus(shop: Shop) -> None:
    outfox = str(Path(sys.executable).parent / "outfox")
    bonus = [outfox, "crowd", "bonus", shop.worked(), "0.20", "--reason", "A race.", "--yes"]
    racers = [subprocess.Popen(bonus, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    late, first = sorted((*racer.communicate(), racer.returncode) for racer in racers)
    assert (late[2], "already has this bonus: $0.20" in late[1]) == (2, True)
    assert (first[2], "paid $0.20: 0 rewards and 1 bonus" in first[0]) == (0, True)
    assert shop.earned() == REWARD + 20


def test_a_bonus_that_was_given_during_the_prompt_is_not_given_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = shop.worked()
    monkeypatch.setattr("plugin.cli.crowd_money.confirm", lambda *_, **__: shop.owed_bonus(work, "Both saw it."))
    assert shop.refused("bonus", work, "0.50", "--reason", "Both saw it.") == "bonus_already_given"
    assert shop.asked("pay")["paid"]["bonuses"] == 1
    assert shop.earned() == REWARD + 50


def test_a_bonus_paid_by_another_process_is_reported_as_paid(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    work, really = shop.worked(), PaymentSender.run

    def after_another(self: PaymentSender, progress: Progress | None = None) -> PaymentResult:
        really(self)
        return really(self, progress)

    monkeypatch.setattr(PaymentSender, "run", after_another)
    assert "another process" in shop.text("bonus", work, "0.50", "--reason", "Well done.", "--yes")
    assert shop.earned() == REWARD + 50


def test_an_amount_that_cannot_be_paid_is_refused(shop: Shop) -> None:
    shop.post(1)
    work = shop.hand_in()
    shop.asked("status")
    for amount, error in {"0": "usage", "1.005": "usage", "ten": "usage", "700": "budget_exceeded"}.items():
        for more in ("--dry-run", "--yes"):
            assert shop.refused("bonus", work, amount, "--reason", "Much.", more) == error
    assert (shop.figures().owed_cents, shop.earned()) == (0, 0)


def test_slow_work_is_warned_about_and_topped_up_once(shop: Shop) -> None:
    shop.post(1)
    shop.hand_in(minutes=6)
    shop.asked("approve", "--all")
    answer = shop.text("status")
    assert "$15.00" in answer
    assert "`outfox crowd pay sentiment --top-up`" in answer

    would = shop.asked("pay", SENTIMENT, "--top-up", "--dry-run")
    (group,) = would["top_ups"]
    lacking = group["cents"]
    # Six minutes, and the moments that the test itself takes, at $15.00 an hour.
    assert 150 < REWARD + lacking < 160
    assert (group["top_ups"], would["top_up_cents"]) == (1, lacking)
    assert shop.earned() == REWARD
    assert "nothing was owed" in shop.text("pay")

    shown = shop.run("pay", "--top-up", "--yes")
    assert (shown.code, f"paid {dollars(lacking)}: 0 rewards and 1 bonus" in shown.out) == (0, True)
    assert shop.earned() == REWARD + lacking
    assert shop.asked("pay", "--top-up")["top_up_cents"] == 0
    assert shop.earned() == REWARD + lacking
    assert not shop.asked("status")["groups"][0]["wage_is_low"]
    assert shop.figures().sent_cents == shop.spent()


def test_a_rejection_needs_a_reason_and_can_be_overridden(shop: Shop) -> None:
    shop.post(1)
    work = shop.hand_in()
    assert shop.refused("reject", work, "--reason", " ") == "usage"
    assert shop.refused("reject", work) == "usage"
    shop.asked("status")
    assert shop.asked("reject", work, "--reason", "No.", "--dry-run")["cents"] == REWARD + REWARD_FEE
    assert shop.figures().reserved_cents == EACH

    assert shop.asked("reject", work, "--reason", "The same text twice.")["status"] == "rejected"
    assert shop.figures().reserved_cents == 0
    assert shop.refused("approve", work) == "assignment_state"
    shop.asked("reject", work, "--reason", "A mistake.", "--override", "--dry-run")
    assert shop.earned() == 0
    assert shop.asked("reject", work, "--reason", "A mistake.", "--override")["paid"]["rewards"] == 1
    assert shop.earned() == REWARD
    assert shop.refused("reject", work, "--reason", "Again.", "--override") == "assignment_state"
    assert shop.refused("reject", work, "--reason", "After all.") == "assignment_state"
    assert shop.figures().sent_cents == REWARD + REWARD_FEE


def test_unknown_assignments_and_tasks_are_errors(shop: Shop) -> None:
    for command in (
        ("approve", "3NOTHING"),
        ("reject", "3NOTHING", "--reason", "x"),
        ("bonus", "3NOTHING", 1, "--reason", "x"),
    ):
        assert shop.refused(*command) == "assignment_not_found"
    assert shop.refused("approve") == "usage"
    for named in (("approve", "other", "--all"), ("pay", "other"), ("statement", "other"), ("status", "other")):
        assert shop.refused(*named) == "task_not_found"
