import subprocess
import sys
from pathlib import Path

import pytest

from common.progress import Progress
from common.text import dollars
from round_manager.crowd.payments import PaymentResult, PaymentSender
from tests.integration.plugin.cli.crowd.crowd_commands import (
    BONUS_FEE,
    EACH,
    REWARD,
    REWARD_FEE,
    SENTIMENT,
    CrowdCommands,
)

START = 1_000_000


def test_work_is_collected_approved_and_paid_to_the_cent(commands: CrowdCommands) -> None:
    commands.post_hits(2)
    first, second = commands.submit_hit("Ann"), commands.submit_hit("Bob")
    answer = commands.run_json("status")
    assert [one["assignment_id"] for one in answer["undecided"]] == [first, second]
    assert answer["collected"]["works"] == 2

    would = commands.run_json("approve", SENTIMENT, "--all", "--dry-run")
    assert (would["reward_cents"], would["fee_cents"]) == (2 * REWARD, 2 * REWARD_FEE)
    assert (commands.figures().owed_cents, commands.earned("Ann")) == (0, 0)

    assert commands.run_json("approve", first)["paid"]["rewards"] == 1
    assert (commands.earned("Ann"), commands.earned("Bob")) == (REWARD, 0)
    assert commands.run_json("approve", SENTIMENT, "--all", "--why", "good")["paid"]["cents"] == REWARD
    assert (commands.earned("Ann"), commands.earned("Bob")) == (REWARD, REWARD)

    given = commands.run_json("bonus", first, "$0.60", "--reason", "Thank you!", "--yes")
    assert (given["cents"], given["fee_cents"], given["paid"]["bonuses"]) == (60, BONUS_FEE, 1)
    assert commands.earned("Ann") == REWARD + 60
    assert "nothing was owed" in commands.run_text("pay")

    spent = 2 * (REWARD + REWARD_FEE) + 60 + BONUS_FEE
    assert commands.account() == START - spent
    assert commands.figures().sent_cents == spent
    money = commands.run_json("balance")
    assert (money["account_cents"], money["covered"], money["tasks"][0]["paid_cents"]) == (START - spent, True, spent)
    (group,) = commands.run_json("status")["groups"]
    assert (group["approved"], group["undecided"], group["unfinished"], group["median_minutes"]) == (2, 0, 0, 1.0)


def test_the_statement_shows_each_day_and_says_that_it_adds_up(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.submit_hit()
    commands.run_json("approve", "--all")
    text = commands.run_text("statement")
    assert text.rstrip().endswith("it adds up: reserved + owed + sent + released = budget, to the cent")
    whole, line = commands.run_json("statement", SENTIMENT, "--days", 30)["lines"]  # The task was made today.
    assert (whole["round"], line["round"], line["day"]) == (None, 1, f"{commands.today():%Y-%m-%d}")
    assert (line["newly_reserved_cents"], line["newly_sent_cents"]) == (EACH, REWARD + REWARD_FEE)
    assert (line["confirmed_cents"], line["fee_cents"]) == (REWARD + REWARD_FEE, REWARD_FEE)
    yesterday = commands.run_json("statement", SENTIMENT, "--day", f"{commands.today(-1):%Y-%m-%d}")
    assert [one["released_cents"] for one in yesterday["lines"]] == [240_000, 60_000]
    assert commands.error_code("statement", "--day", f"{commands.today(1):%Y-%m-%d}") == "usage"


def test_a_changed_ledger_does_not_add_up(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.execute_sql("UPDATE round SET reserved_cents = reserved_cents + 1")
    ran = commands.run("statement")
    assert (ran.code, "BY $0.01" in ran.out) == (1, True)
    assert commands.run_json("statement", code=1)["drift_cents"] == 1


def test_the_same_bonus_is_given_once_unless_it_is_forced(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    work = commands.submit_hit()
    commands.run_json("approve", "--all")
    bonus = ("bonus", work, "1.00", "--reason", "Fast.")
    assert "would give $1.00" in commands.run_text(*bonus, "--dry-run")
    assert commands.error_code(*bonus) == "confirmation_required"
    assert commands.earned() == REWARD
    commands.run_json(*bonus, "--yes")
    assert commands.error_code(*bonus, "--yes") == "bonus_already_given"
    assert commands.earned() == REWARD + 100
    commands.run_json(*bonus, "--yes", "--again")
    assert commands.earned() == REWARD + 200


def test_the_same_command_run_twice_concurrently_gives_one_bonus(commands: CrowdCommands) -> None:
    outfox = str(Path(sys.executable).parent / "outfox")
    bonus = [outfox, "crowd", "bonus", commands.paid_hit(), "0.20", "--reason", "A race.", "--yes"]
    racers = [subprocess.Popen(bonus, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    late, first = sorted((*racer.communicate(), racer.returncode) for racer in racers)
    assert (late[2], "already has this bonus: $0.20" in late[1]) == (2, True)
    assert (first[2], "paid $0.20: 0 rewards and 1 bonus" in first[0]) == (0, True)
    assert commands.earned() == REWARD + 20


def test_a_bonus_that_was_given_during_the_prompt_is_not_given_again(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = commands.paid_hit()
    monkeypatch.setattr("plugin.cli.crowd_money.confirm", lambda *_, **__: commands.owe_bonus(work, "Both saw it."))
    assert commands.error_code("bonus", work, "0.50", "--reason", "Both saw it.") == "bonus_already_given"
    assert commands.run_json("pay")["paid"]["bonuses"] == 1
    assert commands.earned() == REWARD + 50


def test_a_bonus_paid_by_another_process_is_reported_as_paid(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, really = commands.paid_hit(), PaymentSender.run

    def after_another(self: PaymentSender, progress: Progress | None = None) -> PaymentResult:
        really(self)
        return really(self, progress)

    monkeypatch.setattr(PaymentSender, "run", after_another)
    assert "another process" in commands.run_text("bonus", work, "0.50", "--reason", "Well done.", "--yes")
    assert commands.earned() == REWARD + 50


def test_an_amount_that_cannot_be_paid_is_refused(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    work = commands.submit_hit()
    commands.run_json("status")
    for amount, error in {"0": "usage", "1.005": "usage", "ten": "usage", "700": "budget_exceeded"}.items():
        for more in ("--dry-run", "--yes"):
            assert commands.error_code("bonus", work, amount, "--reason", "Much.", more) == error
    assert (commands.figures().owed_cents, commands.earned()) == (0, 0)


def test_slow_work_is_warned_about_and_topped_up_once(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.submit_hit(minutes=6)
    commands.run_json("approve", "--all")
    answer = commands.run_text("status")
    assert "$15.00" in answer
    assert "`outfox crowd pay sentiment --top-up`" in answer

    would = commands.run_json("pay", SENTIMENT, "--top-up", "--dry-run")
    (group,) = would["top_ups"]
    lacking = group["cents"]
    # Six minutes, and the moments that the test itself takes, at $15.00 an hour.
    assert 150 < REWARD + lacking < 160
    assert (group["top_ups"], would["top_up_cents"]) == (1, lacking)
    assert commands.earned() == REWARD
    assert "nothing was owed" in commands.run_text("pay")

    shown = commands.run("pay", "--top-up", "--yes")
    assert (shown.code, f"paid {dollars(lacking)}: 0 rewards and 1 bonus" in shown.out) == (0, True)
    assert commands.earned() == REWARD + lacking
    assert commands.run_json("pay", "--top-up")["top_up_cents"] == 0
    assert commands.earned() == REWARD + lacking
    assert not commands.run_json("status")["groups"][0]["wage_is_low"]
    assert commands.figures().sent_cents == commands.spent()


def test_a_rejection_needs_a_reason_and_can_be_overridden(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    work = commands.submit_hit()
    assert commands.error_code("reject", work, "--reason", " ") == "usage"
    assert commands.error_code("reject", work) == "usage"
    commands.run_json("status")
    assert commands.run_json("reject", work, "--reason", "No.", "--dry-run")["cents"] == REWARD + REWARD_FEE
    assert commands.figures().reserved_cents == EACH

    assert commands.run_json("reject", work, "--reason", "The same text twice.")["status"] == "rejected"
    assert commands.figures().reserved_cents == 0
    assert commands.error_code("approve", work) == "assignment_state"
    commands.run_json("reject", work, "--reason", "A mistake.", "--override", "--dry-run")
    assert commands.earned() == 0
    assert commands.run_json("reject", work, "--reason", "A mistake.", "--override")["paid"]["rewards"] == 1
    assert commands.earned() == REWARD
    assert commands.error_code("reject", work, "--reason", "Again.", "--override") == "assignment_state"
    assert commands.error_code("reject", work, "--reason", "After all.") == "assignment_state"
    assert commands.figures().sent_cents == REWARD + REWARD_FEE


def test_unknown_assignments_and_tasks_are_errors(commands: CrowdCommands) -> None:
    for command in (
        ("approve", "3NOTHING"),
        ("reject", "3NOTHING", "--reason", "x"),
        ("bonus", "3NOTHING", 1, "--reason", "x"),
    ):
        assert commands.error_code(*command) == "assignment_not_found"
    assert commands.error_code("approve") == "usage"
    for named in (("approve", "other", "--all"), ("pay", "other"), ("statement", "other"), ("status", "other")):
        assert commands.error_code(*named) == "task_not_found"
