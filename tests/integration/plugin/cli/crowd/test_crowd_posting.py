import io
from datetime import timedelta

import pytest

from tests.integration.plugin.cli.crowd.crowd_commands import BONUS, EACH, REWARD, REWARD_FEE, SENTIMENT, CrowdCommands

POST = ("post", SENTIMENT, "--kind", "create", "--hits")
ALL_MONEY = 1_000_000


class Terminal(io.StringIO):
    """Standard input of a user at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_dry_run_prints_every_figure_and_changes_nothing(commands: CrowdCommands) -> None:
    answer = commands.run_json(*POST, 3, "--dry-run")["quote"]
    assert (answer["reward_cents"], answer["possible_bonus_cents"]) == (REWARD, BONUS)
    assert (answer["total_cents"], answer["at_once_cents"]) == (3 * EACH, 3 * (REWARD + REWARD_FEE))
    assert (answer["account_cents"], answer["round_figures"]["budget_cents"]) == (ALL_MONEY, 60_000)
    text = commands.run_text(*POST, 3, "--dry-run")
    for figure in (
        "$0.45 each, and up to $0.60 in bonuses",
        "$3.78",
        "$1.62 at once",
        "$600.00 left",
        "$2,400.00 left",
    ):
        assert figure in text
    assert "nothing was reserved or posted" in text
    assert commands.figures().reserved_cents == 0
    assert commands.account() == ALL_MONEY
    assert commands.run_json("status")["groups"] == []


def test_posting_shows_the_cost_first_then_reserves_all_of_it(commands: CrowdCommands) -> None:
    ran = commands.run(*POST, 3, "--yes")
    assert ran.code == 0
    assert ran.err.index("$3.78") < ran.err.index("posting HITs")
    assert "3 HITs posted" in ran.out
    assert commands.figures().reserved_cents == 3 * EACH
    assert commands.account() == ALL_MONEY - 3 * (REWARD + REWARD_FEE)
    (group,) = commands.run_json("status", SENTIMENT)["groups"]
    assert (group["hits"], group["available"], group["pending"], group["undecided"]) == (3, 3, 0, 0)


def test_without_a_terminal_posting_needs_yes(commands: CrowdCommands) -> None:
    assert commands.error_code(*POST, 1) == "confirmation_required"
    assert (commands.figures().reserved_cents, commands.account()) == (0, ALL_MONEY)


@pytest.mark.parametrize(("answer", "code", "posted"), [("n\n", 130, 0), ("y\n", 0, 1)])
def test_on_a_terminal_the_user_is_asked(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, posted: int
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    ran = commands.run(*POST, 1)
    assert (ran.code, "post 1 HIT for at most $1.26?" in ran.err) == (code, True)
    assert commands.figures().reserved_cents == posted * EACH


@pytest.mark.parametrize("more", [("--yes",), ("--dry-run",)])
def test_posting_past_the_budget_fails_with_the_figures(commands: CrowdCommands, more: tuple[str, ...]) -> None:
    commands.post_hits(1)
    error = commands.error(*POST, 476, *more)
    assert (error["code"], error["hint"]["action"]) == ("budget_exceeded", "set_round_budget")
    for figure in ("$598.74", "$600.00", "$1.26", "$599.76"):
        assert figure in error["error"]
    assert commands.figures().reserved_cents == EACH


def test_ten_assignments_are_warned_about(commands: CrowdCommands) -> None:
    post = ("post", SENTIMENT, "--kind", "validate", "--hits", 1, "--dry-run", "--assignments")
    assert "40 %" in commands.run_text(*post, 10)
    assert "40 %" not in commands.run_text(*post, 9)
    ten, nine = (commands.run_json(*post, number)["quote"]["total_fee_cents"] for number in (10, 9))
    assert (ten, nine) == (200, 90)


def test_after_a_crash_the_same_command_continues_and_plans_nothing_twice(commands: CrowdCommands) -> None:
    commands.plan_hits(3)
    answer = commands.run_json("status")
    assert [(one["unsent"], one["cents"]) for one in answer["planned"]] == [(3, 3 * EACH)]
    assert "`outfox crowd post sentiment`" in commands.run_text("status")
    again = commands.post_hits(3)
    assert (again["continued"], again["planned"], again["posted"], again["waiting"]) == (True, 0, 3, 0)
    assert commands.figures().reserved_cents == 3 * EACH
    assert commands.run_json("post", SENTIMENT)["posted"] == 0


def test_after_a_crash_during_a_call_the_same_command_continues(commands: CrowdCommands) -> None:
    commands.plan_hits(3, sent_ago=timedelta())
    assert commands.run_json(*POST, 3, "--dry-run")["continued"]
    again = commands.post_hits(3)
    assert (again["continued"], again["planned"], again["reconciled"], again["posted"]) == (True, 0, 3, 0)
    assert commands.run_json("status")["groups"][0]["hits"] == 3
    assert commands.figures().reserved_cents == 3 * EACH


def test_insufficient_funds_are_reported_before_anything_is_planned(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, key = commands.market.make_requester("Poor", 100)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", key.id)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", key.secret)
    assert commands.error_code(*POST, 2, "--yes", code=3) == "insufficient_funds"
    assert commands.figures().reserved_cents == 0
    assert commands.post_hits(1)["posted"] == 1


def test_hits_last_for_the_given_lifetime_or_until_the_round_closes(commands: CrowdCommands) -> None:
    for more, days in (((), 14), (("--hours", 48), 2)):
        answer = commands.run_json(*POST, 1, "--dry-run", *more)["quote"]["expires_at"]
        assert f"{(commands.today(days)):%Y-%m-%d}" in answer


def test_mistakes_are_reported_with_their_codes(commands: CrowdCommands) -> None:
    assert commands.outfox("task", "create", "nli").code == 0
    assert commands.error_code("post", "nli", "--kind", "create", "--hits", 1, "--yes") == "round_not_open"
    assert commands.error_code("post", "nothing") == "task_not_found"
    assert commands.error_code("post", SENTIMENT, "--hits", 1) == "usage"
    assert commands.error_code("post", SENTIMENT, "--kind", "create", "--hits", -1) == "usage"
    assert commands.error_code(*POST, 1, "--assignments", 0) == "usage"


def test_posting_more_validation_places_than_examples_prints_a_warning(commands: CrowdCommands) -> None:
    validate = ("post", SENTIMENT, "--kind", "validate", "--hits", 2, "--dry-run")
    assert "warning: 2 places too many" in commands.run_text(*validate)
    answer = commands.run_json(*validate)["quote"]
    assert (answer["votes_wanted"]["votes"], answer["places_too_many"]) == (0, 2)
    assert "too many" not in commands.run_text("post", SENTIMENT, "--kind", "create", "--hits", 2, "--dry-run")
