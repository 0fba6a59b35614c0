"""All services of docker-compose.yml start, become healthy, work together and stop."""

import json
import secrets
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.campaign.training import small_pack
from tests.e2e.deploy.compose import EXAMPLE, services, variables_of
from tests.e2e.deploy.machine import PATIENCE, Machine
from tests.e2e.plugin.labelstudio.conftest import Studio

SIGTERM = -15
SECONDS_BETWEEN_LOOKS = 2.0
DATABASE = "label_studio.sqlite3"


def _filled_in(studio: Studio) -> dict[str, str]:
    """An .env file with the values that .env.example leaves empty."""
    filled = {name: value or secrets.token_hex(32) for name, value in variables_of(EXAMPLE).items()}
    owner = {
        "LABEL_STUDIO_EMAIL": studio.server.email,
        "LABEL_STUDIO_PASSWORD": studio.server.password,
        "LABEL_STUDIO_TOKEN": studio.server.token,
        # The PostgreSQL that tests can bring has no pg_trgm, which Label Studio asks its own database for.
        "LABEL_STUDIO_DB": "sqlite",
    }
    return {**filled, **owner, "CROWD_KEY_ID": "", "CROWD_KEY_SECRET": ""}


def _give_tables(studio: Studio, folder: Path) -> None:
    """A volume as an earlier start left it: making Label Studio's tables takes half a minute."""
    with (
        closing(sqlite3.connect(studio.server.data_dir / DATABASE)) as old,
        closing(sqlite3.connect(folder / DATABASE)) as new,
    ):
        old.backup(new)


def _open_account(machine: Machine) -> dict[str, str]:
    """A requester with money on the crowd's own marketplace; what the owner writes into .env."""
    made = json.loads(machine.run("marketplace", "outfox", "marketplace", "account", "Lab", "--json"))
    machine.run("marketplace", "outfox", "marketplace", "deposit", "Lab", "500")
    return {"CROWD_KEY_ID": made["access_key_id"], "CROWD_KEY_SECRET": made["secret_access_key"]}


def _market_with_work(machine: Machine) -> Any:
    """What the marketplace says as soon as it holds money."""
    end = time.monotonic() + PATIENCE
    while not (told := _market(machine))["money"]["held_cents"]:
        assert time.monotonic() < end, f"nothing was ever posted:\n{machine.log('manager')}"
        # Polling is slow, and takes processor time from the manager.
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return told


def _market(machine: Machine) -> Any:
    return json.loads(machine.run("marketplace", "outfox", "marketplace", "status", "--json"))


def test_every_service_becomes_healthy_works_and_stops(studio: Studio, tmp_path: Path) -> None:
    values = _filled_in(studio)
    with Machine(services(values), tmp_path) as machine:
        _give_tables(studio, machine.folder("/var/lib/label-studio"))
        small_pack(machine.folder("/var/lib/outfox") / "templates")
        order = machine.in_order()
        for name in order:
            machine.start(name)
        machine.run("manager", "outfox", "task", "create", "sentiment")
        machine.run("manager", "outfox", "model", "train", "sentiment", "--mode", "head")
        machine.run("manager", "outfox", "round", "open", "sentiment", "--yes")
        for name in (one for one in order if one != "migrate"):
            machine.wait_until_well(name)
        machine.run("manager", "outfox", "labelstudio", "connect", "sentiment")

        machine.start_again(services({**values, **_open_account(machine)}), "web", "manager")
        # Money is held for the HITs that the manager has posted.
        market = _market_with_work(machine)
        assert [one["name"] for one in market["accounts"]] == ["Lab"]
        assert market["database"].startswith("postgresql://marketplace:***@")
        (task,) = json.loads(machine.run("manager", "outfox", "status", "--json"))["tasks"]
        assert (task["status"], task["task_money"]["reserved_cents"] > 0) == ("open", True)
        for name in ("web", "manager"):
            machine.wait_until_well(name)

        codes = machine.stop()
        # Django's server, which Label Studio starts, has no other end than its signal.
        assert codes.pop("label-studio") in (0, SIGTERM)
        assert codes == dict.fromkeys(codes, 0)
        assert [name for name in codes if machine.left_over(name)] == []
        assert not any(machine.is_well(name) for name in ("label-studio", "web", "ml-backend", "marketplace"))
