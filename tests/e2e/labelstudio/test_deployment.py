"""Everything that docker-compose.yml starts, started: until all of it is well and works together, and ended again."""

import json
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.deploy.compose import EXAMPLE, services, variables_of
from tests.e2e.deploy.machine import Machine
from tests.e2e.labelstudio.conftest import Studio
from tests.integration.learning.school import small_pack

pytestmark = pytest.mark.xdist_group("labelstudio")

SIGTERM = -15
DATABASE = "label_studio.sqlite3"


def _filled_in(studio: Studio) -> dict[str, str]:
    """An .env in which somebody has written what .env.example leaves empty."""
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


def test_every_service_becomes_well_works_with_the_others_and_ends_when_told(studio: Studio, tmp_path: Path) -> None:
    with Machine(services(_filled_in(studio)), tmp_path) as machine:
        _give_tables(studio, machine.folder("/var/lib/label-studio"))
        small_pack(machine.folder("/var/lib/outfox") / "templates")
        order = machine.in_order()
        # The backend has nothing to serve before an owner has trained a first model.
        for name in (one for one in order if one != "ml-backend"):
            machine.start(name)
        machine.run("manager", "outfox", "task", "create", "sentiment")
        machine.run("manager", "outfox", "model", "train", "sentiment", "--mode", "head")
        machine.start("ml-backend")
        machine.run("manager", "outfox", "round", "open", "sentiment")
        for name in (one for one in order if one != "migrate"):
            machine.wait_until_well(name)

        machine.run("manager", "outfox", "labelstudio", "connect", "sentiment")
        machine.run("marketplace", "outfox", "marketplace", "account", "Lab")
        market = json.loads(machine.run("marketplace", "outfox", "marketplace", "status", "--json"))
        assert [one["name"] for one in market["accounts"]] == ["Lab"]
        assert market["database"].startswith("postgresql://marketplace:***@")

        codes = machine.stop()
        # Django's server, which Label Studio starts, has no other end than its signal.
        assert codes.pop("label-studio") in (0, SIGTERM)
        assert codes == dict.fromkeys(codes, 0)
        assert [name for name in codes if machine.left_over(name)] == []
        assert not any(machine.is_well(name) for name in ("label-studio", "web", "ml-backend", "marketplace"))
