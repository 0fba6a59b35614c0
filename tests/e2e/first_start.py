"""A first start of Label Studio, once for all tests of a run, because its migrations take half a minute."""

import fcntl
import json
import secrets
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from plugin.labelstudio.server import LabelStudioServer
from plugin.server_process import free_port
from tests.e2e.run_folder import folder_of_run

DATABASE = "label_studio.sqlite3"
# The tables that hold the owner after a start; all other rows are the same in every installation.
OWNERS = ("authtoken_token", "jwt_auth_jwtsettings", "organizations_organizationmember", "organization", "htx_user")


@dataclass(frozen=True)
class FirstStart:
    """The progress of the start, and the database without users."""

    told: tuple[str, ...]
    database: Path

    def give_tables(self, folder: Path) -> None:
        """Copy the database to a folder, so that Label Studio starts there without migrations."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(self.database, folder / DATABASE)


@pytest.fixture(scope="session")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> FirstStart:
    """Return the first start, which one process of the run does for all."""
    folder = folder_of_run(tmp_path_factory, "first-start")
    with (folder / "told.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (known := file.read()):
            known = json.dumps(_start(folder / "data"))
            _without_owner(folder / "data" / DATABASE)
            file.write(known)
    return FirstStart(tuple(json.loads(known)), folder / "data" / DATABASE)


def _start(folder: Path) -> list[str]:
    """Start Label Studio on a new folder, and stop it."""
    told: list[str] = []
    token = secrets.token_hex(20)
    with LabelStudioServer(folder, free_port(), "first@example.com", secrets.token_urlsafe(12), token) as server:
        server.start(lambda what, _seconds: told.append(what))
    return told


def _without_owner(database: Path) -> None:
    with closing(sqlite3.connect(database)) as tables, tables:
        for name in OWNERS:
            tables.execute(f"DELETE FROM {name}")
            # Ids restart at 1, too.
            tables.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        left = tables.execute("PRAGMA foreign_key_check").fetchall()
        assert left == [], "this Label Studio keeps something else about its owner"
