import pytest

from mturk.marketplace.errors import MarketError
from tests.integration.plugin.cli.crowd.crowd_commands import BONUS, BONUS_FEE, EACH, REWARD, SENTIMENT, CrowdCommands


def test_expired_hits_release_empty_places_and_pay_submitted_work(commands: CrowdCommands) -> None:
    commands.post_hits(3)
    done = commands.submit_hit("Ann")
    commands.accept_hit("Bob")
    would = commands.run_json("expire", SENTIMENT, "--all", "--dry-run")
    assert (len(would["hits"]), would["reserved_cents"]) == (3, 3 * EACH)
    assert commands.error_code("expire", SENTIMENT, "--all") == "confirmation_required"
    assert commands.run_json("status")["groups"][0]["available"] == 1

    answer = commands.run_json("expire", SENTIMENT, "--all", "--yes")
    assert answer["released_cents"] == EACH
    (group,) = commands.run_json("status")["groups"]
    assert (group["available"], group["pending"], group["undecided"]) == (0, 1, 1)
    assert commands.figures().reserved_cents == 2 * EACH
    assert commands.run_json("approve", done)["paid"]["rewards"] == 1
    assert commands.figures().reserved_cents == EACH + BONUS + BONUS_FEE
    assert commands.available_hits("Cid") == 0


def test_hits_are_expired_by_name_or_kind(commands: CrowdCommands) -> None:
    commands.post_hits(2)
    commands.run_json("post", SENTIMENT, "--kind", "validate", "--hits", 1, "--yes")
    (validate,) = commands.run_json("expire", SENTIMENT, "--all", "--kind", "validate", "--dry-run")["hits"]
    assert commands.run_json("expire", SENTIMENT, validate, "--yes")["hits"] == [validate]
    assert commands.error_code("expire", SENTIMENT, validate, "--yes") == "hit_not_found"
    assert commands.error_code("expire", SENTIMENT) == "usage"
    assert commands.figures().reserved_cents == 2 * EACH
    commands.run_json("expire", SENTIMENT, "--all", "--yes")
    assert "nothing to expire" in commands.run_text("expire", SENTIMENT, "--all", "--yes")


def test_planned_hits_that_were_never_sent_are_given_up_with_the_rest(commands: CrowdCommands) -> None:
    commands.plan_hits(2)
    would = commands.run_json("expire", SENTIMENT, "--all", "--dry-run")
    assert (would["hits"], would["given_up"], would["given_up_cents"]) == ([], 2, 2 * EACH)
    assert commands.figures().reserved_cents == 2 * EACH
    assert "nothing to expire" in commands.run_text("expire", SENTIMENT, "--all", "--kind", "validate", "--yes")
    answer = commands.run_json("expire", SENTIMENT, "--all", "--yes")
    assert (answer["given_up"], answer["released_cents"]) == (2, 2 * EACH)
    assert commands.figures().reserved_cents == 0
    assert commands.run_json("post", SENTIMENT)["posted"] == 0


def test_text_output_lists_the_newest_abandoned_hits_and_json_lists_all(commands: CrowdCommands) -> None:
    commands.plan_hits(25)
    commands.run_json("expire", SENTIMENT, "--all", "--yes")
    assert "… and 15 more" in commands.run_text("status")
    assert len({one["key"] for one in commands.run_json("status")["refused"]}) == 25


def test_the_ids_of_decided_work_are_shown_for_a_bonus_or_second_thoughts(commands: CrowdCommands) -> None:
    commands.post_hits(3)
    first, second = commands.submit_hit("Ann"), commands.submit_hit("Bob")
    assert commands.run_json("status")["decided"] == []
    commands.run_json("approve", first)
    commands.run_json("reject", second, "--reason", "It is empty.")
    answer = commands.run_json("status")["decided"]
    assert [(one["assignment_id"], one["status"]) for one in answer] == [(second, "rejected"), (first, "approved")]
    assert commands.run_json("bonus", first, "0.10", "--reason", "Well done.", "--dry-run")["assignment"] == first
    assert commands.error_code("bonus", "X1", "1", "--reason", "x") == "assignment_not_found"


def test_the_next_command_is_suggested_when_nothing_is_posted(commands: CrowdCommands) -> None:
    assert "`outfox crowd post sentiment --kind create --hits 10 --dry-run`" in commands.run_text("status")
    assert "`outfox crowd status` reads the marketplace" in commands.run_text("workers")
    assert commands.outfox("task", "create", "nli").code == 0
    assert "`outfox round open nli`" in commands.run_text("status", "nli")


def test_known_figures_are_shown_without_the_marketplace(
    commands: CrowdCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.post_hits(2)
    commands.submit_hit()
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", "")
    assert "at most 2" in commands.run_text("status", "--no-collect")
    (group,) = commands.run_json("status", "--no-collect")["groups"]
    assert (group["unfilled"], group["undecided"], group["available"]) == (2, 0, None)
    assert commands.run_json("statement")["adds_up"]
    assert commands.error_code("status") == "settings_error"


def test_workers_are_listed_with_what_they_earned_the_latest_first(commands: CrowdCommands) -> None:
    commands.post_hits(2)
    commands.submit_hit("Ann", minutes=2)
    commands.submit_hit("Bob", minutes=1)
    commands.run_json("approve", "--all")
    commands.worker("Cid")
    bob, ann, cid = commands.run_json("workers", SENTIMENT)
    assert [one["worker_id"] for one in (ann, bob, cid)] == [commands.worker(name).id for name in ("Ann", "Bob", "Cid")]
    assert (ann["approved"], ann["earned_cents"], ann["owed_cents"], cid["approved"]) == (1, REWARD, 0, 0)
    assert bob["median_hourly_cents"] > 1.9 * ann["median_hourly_cents"]
    assert cid["qualified_for"] == [SENTIMENT]
    assert commands.worker("Bob").id in commands.run_text("workers")


def test_a_worker_who_lost_the_qualification_is_still_paid_for_past_work(commands: CrowdCommands) -> None:
    commands.post_hits(2)
    commands.submit_hit()
    worker = commands.worker().id
    assert commands.run_json("workers", "withdraw", SENTIMENT, worker, "--reason", "x", "--dry-run")["dry_run"]
    assert commands.error_code("workers", "withdraw", SENTIMENT, worker) == "usage"
    commands.run_json("workers", "withdraw", SENTIMENT, worker, "--reason", "Copied texts.")
    with pytest.raises(MarketError):
        commands.accept_hit()
    assert commands.run_json("approve", "--all")["paid"]["rewards"] == 1
    assert commands.run_json("workers")[0]["qualified_for"] == []
    assert commands.run_json("workers", "grant", SENTIMENT, worker, "--dry-run")["dry_run"]
    commands.run_json("workers", "grant", SENTIMENT, worker)
    commands.accept_hit()


def test_a_block_lasts_until_it_is_lifted(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    worker = commands.worker().id
    assert commands.error_code("block", worker) == "usage"
    assert commands.run_json("block", worker, "--reason", "Spam.", "--dry-run")["dry_run"]
    assert commands.run_json("block", worker, "--reason", "Spam.")["before"] is False
    assert commands.run_json("block", worker, "--reason", "Spam.")["before"] is True
    assert commands.run_json("workers")[0]["blocked"] == "Spam."
    with pytest.raises(MarketError):
        commands.accept_hit()
    assert commands.run_json("block", worker, "--lift")["blocked"] is False
    commands.accept_hit()
    assert commands.error_code("block", "ANOBODY0000000", "--reason", "Who?") == "not_on_crowd"


def test_workers_can_be_sent_a_message(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    commands.submit_hit()
    commands.run_json("status")
    write = ("workers", "message", "--subject", "Round 2", "--text", "It opens on Monday.")
    assert commands.error_code(*write, "--yes") == "usage"
    assert commands.run_json(*write, "--task", SENTIMENT, "--dry-run")["workers"] == [commands.worker().id]
    answer = commands.run_json(*write, "--task", SENTIMENT, "--yes")
    assert (answer["workers"], answer["undelivered"]) == ([commands.worker().id], [])
    missed = commands.run_json(*write, commands.worker().id, "ANOBODY0000000", "--yes")["undelivered"]
    assert [one["worker_id"] for one in missed] == ["ANOBODY0000000"]
    assert commands.error_code(*write[:3], "x" * 201, *write[4:], "--task", SENTIMENT, "--yes") == "crowd_work_error"
