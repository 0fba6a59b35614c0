"""`outfox marketplace` and its commands."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from mturk.marketplace.market import open_market
from mturk.marketplace.tables.people import Worker
from tests.conftest import Outfox
from tests.fakes.market import MarketWorld


def call(outfox: Outfox, *arguments: object) -> Any:
    """Run a command with --json; return what it prints."""
    ran = outfox("marketplace", *arguments, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def earn(home: Path, worker_id: str, cents: int) -> None:
    """Let the worker do one task of the requester Lab, and approve it."""
    with open_market(f"sqlite:///{home / 'marketplace.db'}", SystemClock()) as market:
        world = MarketWorld(market, deposit_cents=0)
        with market.read() as session:
            worker = session.get_one(Worker, worker_id)
        world.approve(world.work(worker, world.post(cents=cents).type_id).id)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_an_account_gets_a_key_and_another_when_run_again(outfox: Outfox) -> None:
    first, second = call(outfox, "account", "Lab"), call(outfox, "account", "Lab")
    assert (first["new"], second["new"]) == (True, False)
    assert first["requester_id"] == second["requester_id"]
    assert first["access_key_id"] != second["access_key_id"]
    assert first["secret_access_key"] not in outfox("marketplace", "status").out


@pytest.mark.parametrize(
    ("amount", "cents"), [("25", 2_500), ("25.5", 2_550), ("$0.07", 7), ("1234567.89", 123_456_789)]
)
def test_deposits_are_exact_to_the_cent(outfox: Outfox, amount: str, cents: int) -> None:
    outfox("marketplace", "account", "Lab")
    assert call(outfox, "deposit", "Lab", amount)["available_cents"] == cents


@pytest.mark.parametrize("amount", ["25.505", "1e3", "nan", "", "-5", "0", "ten"])
def test_an_invalid_amount_is_not_deposited(outfox: Outfox, amount: str) -> None:
    outfox("marketplace", "account", "Lab")
    ran = outfox("marketplace", "deposit", "Lab", "--", amount)
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    assert call(outfox, "status")["money"]["deposited_cents"] == 0


def test_invitations_use_the_public_url(outfox: Outfox, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("Grace Hopper\n\n  Alan  \n", encoding="utf-8")
    made = call(outfox, "invite", "Ada", "--names", names, "--country", "GB", "--adult")
    assert [one["name"] for one in made] == ["Ada", "Grace Hopper", "Alan"]
    assert all(one["link"].startswith("http://127.0.0.1:7500/join/") for one in made)
    ran = outfox("marketplace", "--public-url", "https://crowd.example/", "invite", "Student", "--count", "2")
    assert [line.split("  ")[1] for line in ran.out.splitlines()] == ["Student 1", "Student 2"]
    assert ran.out.count("https://crowd.example/join/") == 2
    workers = call(outfox, "workers")
    assert [(one["name"], one["country"], one["adult"]) for one in workers][:2] == [
        ("Ada", "GB", True),
        ("Alan", "GB", True),
    ]


def test_an_existing_worker_gets_another_link(outfox: Outfox) -> None:
    (first,) = call(outfox, "invite", "Ada")
    (second,) = call(outfox, "invite", "--again", first["worker_id"])
    assert (second["worker_id"], second["name"]) == (first["worker_id"], "Ada")
    assert second["link"] != first["link"]
    assert len(call(outfox, "workers")) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "command"),
    [
        (("invite",), "plugin_error", None),
        (("invite", "Ada", "--country", "us"), "invalid_parameter", None),
        (("invite", "Ada", "Bob", "--count", "3"), "plugin_error", None),
        (("invite", "--names", "/nowhere/names"), "plugin_error", None),
        (("invite", "--again", "A1"), "worker_not_found", "outfox marketplace workers"),
        (("deposit", "Nobody", "5"), "account_not_found", "outfox marketplace account Nobody"),
        (("account", " "), "invalid_parameter", None),
        (("key", "No Body"), "account_not_found", "outfox marketplace account 'No Body'"),
        (("payout", "--batch", "B"), "payout_not_found", None),
        (("payout", "--out", "/nowhere/x.csv"), "plugin_error", None),
        (("--public-url", "https://x.example/path", "status"), "invalid_parameter", None),
        (("--public-url", "crowd.example", "status"), "invalid_parameter", None),
        (("--database", "mysql://x/y", "status"), "market_database_error", None),
        (("--database", "/nowhere/at/all.db", "status"), "market_database_error", None),
    ],
)
def test_a_mistake_is_reported_with_its_code_and_a_command_that_helps(
    outfox: Outfox, arguments: tuple[str, ...], code: str, command: str | None
) -> None:
    ran = outfox("marketplace", *arguments, "--json")
    error = json.loads(ran.err)
    assert (ran.code, ran.out, error["code"]) == (2, "", code)
    assert (error["hint"] or {}).get("command") == command


def test_the_database_of_another_application_is_refused(outfox: Outfox, home: Path) -> None:
    outfox("db", "upgrade")
    ran = outfox("marketplace", "--database", home / "outfox.db", "status", "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "market_database_error")


def test_a_payout_is_previewed_made_once_and_printed_again(outfox: Outfox, home: Path, tmp_path: Path) -> None:
    outfox("marketplace", "account", "Lab")
    outfox("marketplace", "deposit", "Lab", "10")
    ((ada), (bob)) = call(outfox, "invite", "=Ada", "Bob")
    earn(home, ada["worker_id"], 45)
    earn(home, bob["worker_id"], 120)
    assert "$1.65 for 2 workers" in outfox("marketplace", "payout", "--dry-run").err

    file, same = tmp_path / "out.csv", tmp_path / "same.csv"
    ran = outfox("marketplace", "payout", "--yes", "--out", file)
    assert (ran.code, ran.out) == (0, "")
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [(row["name"], row["cents"], row["dollars"]) for row in rows] == [
        ("'=Ada", "45", "0.45"),
        ("Bob", "120", "1.20"),
    ]
    batch = rows[0]["batch"]
    assert outfox("marketplace", "payout", "--batch", batch).out == file.read_text(encoding="utf-8")

    again = outfox("marketplace", "payout", "--yes", "--out", same)
    assert (again.code, again.err.strip(), same.exists()) == (0, "nothing to pay out", False)
    kept = outfox("marketplace", "payout", "--yes", "--out", file)
    assert (kept.code, kept.out) == (2, "")
    assert call(outfox, "payout", "--batch", batch)["cents"] == 165


def test_a_payout_needs_confirmation(outfox: Outfox, home: Path, tmp_path: Path) -> None:
    outfox("marketplace", "account", "Lab")
    outfox("marketplace", "deposit", "Lab", "10")
    (ada,) = call(outfox, "invite", "Ada")
    earn(home, ada["worker_id"], 45)
    ran = outfox("marketplace", "payout", "--out", tmp_path / "out.csv")
    assert (ran.code, list(tmp_path.glob("*.csv"))) == (2, [])
    assert call(outfox, "status")["money"]["workers_cents"] == 45


def test_an_account_that_differs_only_in_case_is_refused(outfox: Outfox) -> None:
    outfox("marketplace", "account", "Lab")
    ran = outfox("marketplace", "account", "LAB", "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "entity_exists")
    (lab,) = call(outfox, "status")["accounts"]
    assert len(lab["keys"]) == 1


def test_a_key_is_listed_until_it_is_revoked(outfox: Outfox) -> None:
    first, second = call(outfox, "account", "Lab"), call(outfox, "account", "Lab")
    listed = [one["access_key_id"] for one in call(outfox, "key", "Lab")["keys"]]
    assert sorted(listed) == sorted([first["access_key_id"], second["access_key_id"]])
    assert first["access_key_id"] in outfox("marketplace", "status").out
    ran = outfox("marketplace", "key", "Lab", "--revoke", first["access_key_id"])
    assert ran.code == 0
    (lab,) = call(outfox, "status")["accounts"]
    assert lab["keys"] == [second["access_key_id"]]


def test_a_key_of_another_account_is_not_revoked(outfox: Outfox) -> None:
    key = call(outfox, "account", "Lab")["access_key_id"]
    outfox("marketplace", "account", "Other")
    ran = outfox("marketplace", "key", "Other", "--revoke", key, "--json")
    assert (ran.code, json.loads(ran.err)["code"]) == (2, "access_key_not_found")
    assert len(call(outfox, "key", "Lab")["keys"]) == 1


def test_the_status_shows_where_all_the_money_is(outfox: Outfox, home: Path) -> None:
    outfox("marketplace", "account", "Lab")
    outfox("marketplace", "deposit", "Lab", "10")
    (ada,) = call(outfox, "invite", "Ada")
    earn(home, ada["worker_id"], 45)
    outfox("marketplace", "payout", "--yes")
    earn(home, ada["worker_id"], 100)
    assert call(outfox, "status")["money"] == {
        "deposited_cents": 1_000,
        "available_cents": 1_000 - 54 - 120,
        "held_cents": 0,
        "workers_cents": 100,
        "fees_cents": 9 + 20,
        "paid_out_cents": 45,
        "add_up": True,
    }
    assert (
        "$10.00 deposited = $8.26 to spend + $0.00 held + $1.00 owed to workers" in outfox("marketplace", "status").out
    )


def test_the_password_in_a_database_url_is_not_shown() -> None:
    from plugin.marketplace import marketplace_config
    from plugin.settings import Settings

    config = marketplace_config(Settings(), SystemClock(), "postgresql://owner:secret@host/market")
    assert config.safe_database == "postgresql://owner:***@host/market"
