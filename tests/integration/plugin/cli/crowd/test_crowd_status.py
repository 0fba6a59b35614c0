import pytest

from mturk.marketplace.errors import MarketError
from tests.integration.plugin.cli.crowd.shop import BONUS, BONUS_FEE, EACH, REWARD, SENTIMENT, Shop


def test_expired_hits_release_empty_places_and_pay_submitted_work(shop: Shop) -> None:
    shop.post(3)
    done = shop.hand_in("Ann")
    shop.take("Bob")
    would = shop.asked("expire", SENTIMENT, "--all", "--dry-run")
    assert (len(would["hits"]), would["reserved_cents"]) == (3, 3 * EACH)
    assert shop.refused("expire", SENTIMENT, "--all") == "confirmation_required"
    assert shop.asked("status")["groups"][0]["available"] == 1

    answer = shop.asked("expire", SENTIMENT, "--all", "--yes")
    assert answer["released_cents"] == EACH
    (group,) = shop.asked("status")["groups"]
    assert (group["available"], group["pending"], group["undecided"]) == (0, 1, 1)
    assert shop.figures().reserved_cents == 2 * EACH
    assert shop.asked("approve", done)["paid"]["rewards"] == 1
    assert shop.figures().reserved_cents == EACH + BONUS + BONUS_FEE
    assert shop.work_for("Cid") == 0


def test_hits_are_expired_by_name_or_kind(shop: Shop) -> None:
    shop.post(2)
    shop.asked("post", SENTIMENT, "--kind", "validate", "--hits", 1, "--yes")
    (validate,) = shop.asked("expire", SENTIMENT, "--all", "--kind", "validate", "--dry-run")["hits"]
    assert shop.asked("expire", SENTIMENT, validate, "--yes")["hits"] == [validate]
    assert shop.refused("expire", SENTIMENT, validate, "--yes") == "hit_not_found"
    assert shop.refused("expire", SENTIMENT) == "usage"
    assert shop.figures().reserved_cents == 2 * EACH
    shop.asked("expire", SENTIMENT, "--all", "--yes")
    assert "nothing to expire" in shop.text("expire", SENTIMENT, "--all", "--yes")


def test_planned_hits_that_were_never_sent_are_given_up_with_the_rest(shop: Shop) -> None:
    shop.planned_hit(2)
    would = shop.asked("expire", SENTIMENT, "--all", "--dry-run")
    assert (would["hits"], would["given_up"], would["given_up_cents"]) == ([], 2, 2 * EACH)
    assert shop.figures().reserved_cents == 2 * EACH
    assert "nothing to expire" in shop.text("expire", SENTIMENT, "--all", "--kind", "validate", "--yes")
    answer = shop.asked("expire", SENTIMENT, "--all", "--yes")
    assert (answer["given_up"], answer["released_cents"]) == (2, 2 * EACH)
    assert shop.figures().reserved_cents == 0
    assert shop.asked("post", SENTIMENT)["posted"] == 0


def test_text_output_lists_the_newest_abandoned_hits_and_json_lists_all(shop: Shop) -> None:
    shop.planned_hit(25)
    shop.asked("expire", SENTIMENT, "--all", "--yes")
    assert "… and 15 more" in shop.text("status")
    assert len({one["key"] for one in shop.asked("status")["refused"]}) == 25


def test_the_ids_of_decided_work_are_shown_for_a_bonus_or_second_thoughts(shop: Shop) -> None:
    shop.post(3)
    first, second = shop.hand_in("Ann"), shop.hand_in("Bob")
    assert shop.asked("status")["decided"] == []
    shop.asked("approve", first)
    shop.asked("reject", second, "--reason", "It is empty.")
    answer = shop.asked("status")["decided"]
    assert [(one["assignment_id"], one["status"]) for one in answer] == [(second, "rejected"), (first, "approved")]
    assert shop.asked("bonus", first, "0.10", "--reason", "Well done.", "--dry-run")["assignment"] == first
    assert shop.refused("bonus", "X1", "1", "--reason", "x") == "assignment_not_found"


def test_the_next_command_is_suggested_when_nothing_is_posted(shop: Shop) -> None:
    assert "`outfox crowd post sentiment --kind create --hits 10 --dry-run`" in shop.text("status")
    assert "`outfox crowd status` reads the marketplace" in shop.text("workers")
    assert shop.outfox("task", "create", "nli").code == 0
    assert "`outfox round open nli`" in shop.text("status", "nli")


def test_known_figures_are_shown_without_the_marketplace(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.post(2)
    shop.hand_in()
    monkeypatch.setenv("OUTFOX_CROWD_KEY_ID", "")
    assert "at most 2" in shop.text("status", "--no-collect")
    (group,) = shop.asked("status", "--no-collect")["groups"]
    assert (group["unfilled"], group["undecided"], group["available"]) == (2, 0, None)
    assert shop.asked("statement")["adds_up"]
    assert shop.refused("status") == "settings_error"


def test_workers_are_listed_with_what_they_earned_the_latest_first(shop: Shop) -> None:
    shop.post(2)
    shop.hand_in("Ann", minutes=2)
    shop.hand_in("Bob", minutes=1)
    shop.asked("approve", "--all")
    shop.worker("Cid")
    bob, ann, cid = shop.asked("workers", SENTIMENT)
    assert [one["worker_id"] for one in (ann, bob, cid)] == [shop.worker(name).id for name in ("Ann", "Bob", "Cid")]
    assert (ann["approved"], ann["earned_cents"], ann["owed_cents"], cid["approved"]) == (1, REWARD, 0, 0)
    assert bob["median_hourly_cents"] > 1.9 * ann["median_hourly_cents"]
    assert cid["qualified_for"] == [SENTIMENT]
    assert shop.worker("Bob").id in shop.text("workers")


def test_a_worker_who_lost_the_qualification_is_still_paid_for_past_work(shop: Shop) -> None:
    shop.post(2)
    shop.hand_in()
    worker = shop.worker().id
    assert shop.asked("workers", "withdraw", SENTIMENT, worker, "--reason", "x", "--dry-run")["dry_run"]
    assert shop.refused("workers", "withdraw", SENTIMENT, worker) == "usage"
    shop.asked("workers", "withdraw", SENTIMENT, worker, "--reason", "Copied texts.")
    with pytest.raises(MarketError):
        shop.take()
    assert shop.asked("approve", "--all")["paid"]["rewards"] == 1
    assert shop.asked("workers")[0]["qualified_for"] == []
    assert shop.asked("workers", "grant", SENTIMENT, worker, "--dry-run")["dry_run"]
    shop.asked("workers", "grant", SENTIMENT, worker)
    shop.take()


def test_a_block_lasts_until_it_is_lifted(shop: Shop) -> None:
    shop.post(1)
    worker = shop.worker().id
    assert shop.refused("block", worker) == "usage"
    assert shop.asked("block", worker, "--reason", "Spam.", "--dry-run")["dry_run"]
    assert shop.asked("block", worker, "--reason", "Spam.")["before"] is False
    assert shop.asked("block", worker, "--reason", "Spam.")["before"] is True
    assert shop.asked("workers")[0]["blocked"] == "Spam."
    with pytest.raises(MarketError):
        shop.take()
    assert shop.asked("block", worker, "--lift")["blocked"] is False
    shop.take()
    assert shop.refused("block", "ANOBODY0000000", "--reason", "Who?") == "not_on_crowd"


def test_workers_can_be_sent_a_message(shop: Shop) -> None:
    shop.post(1)
    shop.hand_in()
    shop.asked("status")
    write = ("workers", "message", "--subject", "Round 2", "--text", "It opens on Monday.")
    assert shop.refused(*write, "--yes") == "usage"
    assert shop.asked(*write, "--task", SENTIMENT, "--dry-run")["workers"] == [shop.worker().id]
    answer = shop.asked(*write, "--task", SENTIMENT, "--yes")
    assert (answer["workers"], answer["undelivered"]) == ([shop.worker().id], [])
    missed = shop.asked(*write, shop.worker().id, "ANOBODY0000000", "--yes")["undelivered"]
    assert [one["worker_id"] for one in missed] == ["ANOBODY0000000"]
    assert shop.refused(*write[:3], "x" * 201, *write[4:], "--task", SENTIMENT, "--yes") == "crowd_work_error"
