import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from crowd.errors import CrowdBusy, CrowdError, CrowdUnavailable
from plugin.cli.crowd_context import AnnouncedRetries
from tests.fakes.marketplace_proxy import Outcome, proxy_of
from tests.integration.plugin.cli.crowd.crowd_commands import EACH, REWARD, REWARD_FEE, SENTIMENT, CrowdCommands

POST = ("post", SENTIMENT, "--kind", "create", "--hits", 1, "--yes")
LONG_AGO = timedelta(hours=25)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable retries: do not wait for an unavailable marketplace."""
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_TO_WAIT", 0.0)


def test_with_wrong_keys_nothing_is_planned_and_debts_stay_owed(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.post_hits(2)
    commands.submit_hit()
    commands.run_json("status")
    commands.owe_rewards()
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", "x" * 40)
    for command in (
        ("balance",),
        ("status",),
        POST,
        ("approve", "--all"),
        ("pay",),
        ("expire", SENTIMENT, "--all", "--yes"),
    ):
        assert commands.error_code(*command) == "crowd_access_denied"
    assert (commands.figures().reserved_cents, commands.figures().owed_cents) == (2 * EACH - REWARD - REWARD_FEE, 54)
    monkeypatch.setenv("OUTFOX_CROWD_KEY_SECRET", commands.market.key.secret)
    assert commands.run_json("pay")["paid"]["rewards"] == 1
    assert commands.earned() == REWARD


def test_an_unavailable_marketplace_can_be_retried(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.post_hits(1)
    monkeypatch.setenv("OUTFOX_CROWD_URL", "http://127.0.0.1:9")
    for command in (
        ("balance",),
        ("status",),
        POST,
        ("pay",),
        ("approve", "--all"),
        ("expire", SENTIMENT, "--all", "--yes"),
    ):
        assert commands.error_code(*command, code=3) == "crowd_unavailable"
    assert commands.figures().reserved_cents == EACH
    assert commands.error("balance", code=3)["retry"]


def test_a_bonus_whose_response_is_lost_is_in_doubt_and_then_found(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    bonus = ("bonus", commands.paid_hit(), "0.50", "--reason", "Thanks.", "--yes")
    with proxy_of(commands.market.url) as proxy:
        monkeypatch.setenv("OUTFOX_CROWD_URL", proxy.url)
        # The balance and whether the account is ours, for the command; both again before bonuses are sent.
        proxy.next(*[Outcome.PASSED] * 4, Outcome.DROPPED_AFTER)
        ran = commands.run(*bonus, "--json")
        assert (ran.failure, json.loads(ran.out)["paid"]["in_doubt"]) == ((3, "crowd_unavailable"), 1)
        assert commands.earned() == REWARD + 50
        assert commands.error_code(*bonus) == "bonus_already_given"
        assert commands.run_json("pay")["reconciled"]["found"] == 1
        assert proxy.calls("SendBonus") == 1
    assert commands.earned() == REWARD + 50
    assert commands.figures().sent_cents == commands.spent()


def test_a_hit_whose_response_is_lost_is_posted_once(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.worker()  # The qualification is there, so that the third call posts.
    with proxy_of(commands.market.url) as proxy:
        monkeypatch.setenv("OUTFOX_CROWD_URL", proxy.url)
        proxy.next(Outcome.PASSED, Outcome.PASSED, Outcome.DROPPED_AFTER)
        ran = commands.run(*POST, "--json")
        assert (ran.code, json.loads(ran.out)["in_doubt"]) == (3, 1)
        again = commands.run_json(*POST)
    assert (again["continued"], again["reconciled"], again["posted"]) == (True, 1, 0)
    assert commands.spent() == REWARD + REWARD_FEE
    assert commands.figures().reserved_cents == EACH


def test_without_keys_the_settings_are_named(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTFOX_CROWD_KEY_ID")
    error = commands.error("balance")
    assert (error["code"], "OUTFOX_CROWD_KEY_ID" in error["error"]) == ("settings_error", True)


def test_a_payment_in_doubt_is_looked_up_and_made_once(commands: CrowdCommands) -> None:
    key = commands.owe_bonus(commands.paid_hit())
    commands.mark_sent(key)
    doubt = commands.run_json("status")["in_doubt"]
    assert [(one["key"], one["what"], one["cents"]) for one in doubt] == [(key, "extra", 60)]
    assert "0 HITs and 1 payment, $0.60 in all" in commands.run_text("reconcile", "--dry-run")
    assert commands.earned() == REWARD
    assert commands.run_json("reconcile")["sent_again"] == 1
    assert commands.earned() == REWARD + 50
    assert "nothing is in doubt" in commands.run_text("reconcile", "--dry-run")
    assert commands.run_json("pay")["paid"]["bonuses"] == 0
    assert commands.figures().sent_cents == commands.spent()


def test_a_held_payment_waits_for_a_persons_decision(commands: CrowdCommands) -> None:
    work = commands.paid_hit()
    first, second = commands.owe_bonus(work), commands.owe_bonus(work, "Again.")
    for key in (first, second):
        commands.mark_sent(key, ago=LONG_AGO)
    assert commands.run_json("reconcile")["held"] == 2
    assert f"outfox crowd reconcile --paid {first}" in commands.run_text("status")
    assert commands.error_code("reconcile", "--paid", first, "--unpaid", first) == "usage"
    assert commands.error_code("reconcile", "--not-posted", first, "--dry-run") == "nothing_held"
    assert commands.run_json("reconcile", "--unpaid", first, "--dry-run")["dry_run"]
    assert commands.run_json("pay")["paid"]["bonuses"] == 0

    commands.run_json("reconcile", "--paid", first, "--why", "The worker has it.")
    new = commands.run_json("reconcile", "--unpaid", second)["counts"]
    assert new != second
    assert commands.run_json("pay")["paid"]["bonuses"] == 1
    assert commands.earned() == REWARD + 50
    assert commands.run_json("status")["held"] == []
    assert commands.error_code("reconcile", "--paid", first) == "nothing_held"


def test_a_person_releases_a_held_hit(commands: CrowdCommands) -> None:
    key = commands.plan_hits(sent_ago=LONG_AGO)
    assert commands.run_json("reconcile")["held"] == 1
    assert f"outfox crowd reconcile --not-posted {key}" in commands.run_text("status")
    assert commands.figures().reserved_cents == EACH
    commands.run_json("reconcile", "--not-posted", key, "--why", "It is not listed there.")
    assert commands.figures().reserved_cents == 0
    assert [one["key"] for one in commands.run_json("status")["refused"]] == [key]


def test_a_waiting_command_says_so_once_and_gives_up_early_if_nothing_listens(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_TO_WAIT", 600.0)
    monkeypatch.setattr("plugin.cli.crowd_context.SECONDS_WHERE_NOTHING_LISTENS", 0.3)
    monkeypatch.setenv("OUTFOX_CROWD_URL", "http://127.0.0.1:9")
    ran = commands.run("balance")
    first, last = ran.err.splitlines()
    assert (ran.code, first) == (3, "the marketplace does not answer; retrying for 1 more second")
    assert "did not answer GetAccountBalance" in last
    # A program that reads standard error gets the error alone.
    assert json.loads(commands.run("balance", "--json").err)["error"] == last.removeprefix("outfox: ")


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


def test_a_hit_unknown_to_the_marketplace_keeps_its_money_and_is_listed(commands: CrowdCommands) -> None:
    commands.post_hits(2)
    lost = commands.lose_hit()
    found = commands.run_json("status")
    assert (found["collected"]["unknown"], [one["hit_id"] for one in found["astray"]]) == (1, [lost])
    assert commands.figures().reserved_cents == 2 * EACH
    assert lost in commands.run_text("status")
    assert commands.run_json("approve", "--all")["collected"]["unknown"] == 1


def test_with_another_accounts_key_nothing_is_done(commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.post_hits(2)
    work = commands.submit_hit()
    commands.run_json("status")
    commands.plan_hits(sent_ago=timedelta())
    before = commands.figures()
    _, key = commands.market.make_requester("Another lab")
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
        assert commands.error_code(*command) == "wrong_crowd_account"
    assert commands.figures() == before


def test_a_bonus_for_work_unknown_to_the_marketplace_is_held_for_a_manual_decision(commands: CrowdCommands) -> None:
    work = commands.paid_hit()
    commands.post_hits(1)
    commands.lose_hit()
    ran = commands.run("bonus", work, "0.50", "--reason", "Thanks.", "--yes", "--json")
    assert (ran.failure, json.loads(ran.out)["paid"]["held"]) == ((2, "crowd_refused"), 1)
    assert "outfox crowd reconcile --paid x-" in commands.run_text("status")


def test_uncovered_work_is_reported_and_does_not_delay_the_rest(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.extend_hit()
    commands.execute_sql("UPDATE round SET budget_cents = reserved_cents + owed_cents + sent_cents")
    for name in ("Ann", "Bob"):
        commands.submit_hit(name)
    ran = commands.run("approve", "--all", "--json")
    done = json.loads(ran.out)
    assert (ran.code, done["approved"], done["uncovered"], done["paid"]["rewards"]) == (2, 1, 1, 1), ran
    assert commands.earned("Ann") + commands.earned("Bob") == REWARD
