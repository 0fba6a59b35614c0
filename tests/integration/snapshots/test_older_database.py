"""A database that an earlier version left behind still upgrades, adds up and gives the same figures.

`stored/older-database.sql` was dumped by version 0.1.0 at revision 0024. It has two closed rounds with votes, payments
and HITs; the first of them is frozen. Keep it when tables change, because upgrading it is what this test is about. To
replace it, delete it and run this test with OUTFOX_UPDATE_SNAPSHOTS=1.
"""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from round_manager.database.store import open_store
from templates import BUILT_IN
from tests.conftest import Outfox
from tests.integration.plugin.manager.managed_campaign import start_managed
from tests.integration.snapshots import snapshot

DUMP = snapshot.STORED / "older-database.sql"
FIGURES = "older-database.json"
pytestmark = pytest.mark.sqlite("the dump is one of SQLite")
LEDGER = """
    SELECT round.number || ' ' || entry.kind || ' ' || entry.state, COUNT(*), SUM(entry.cents), SUM(entry.fee_cents)
    FROM ledger_entry AS entry JOIN round ON round.id = entry.round_id GROUP BY 1 ORDER BY 1
"""


@pytest.fixture
def database(tmp_path: Path, home_url: str) -> Path:
    """The older database, in the home that the commands work on."""
    assert home_url
    if snapshot.UPDATE and not DUMP.exists():
        make_dump(tmp_path)
    path = tmp_path / "home" / "outfox.db"
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text(encoding="utf-8"))
    return path


def test_an_older_database_upgrades_and_keeps_its_figures(outfox: Outfox, database: Path, tmp_path: Path) -> None:
    def answer(*command: object) -> Any:
        ran = outfox(*command, "--json")
        assert ran.code == 0, ran
        return json.loads(ran.out)

    tables = row_counts(database)
    answer("db", "upgrade")
    after = row_counts(database)
    lost = {name: (count, after.get(name)) for name, count in tables.items() if after.get(name) != count}
    assert not {name for name in lost if name != "alembic_version"}, lost
    (task,) = answer("status")["tasks"]
    metrics = answer("round", "metrics", "sentiment")
    frozen = answer("round", "freeze", "sentiment", "--round", 2, "--to", tmp_path / "archives")
    proved = answer("round", "verify", "sentiment", "--round", 2)
    lines = sorted(Path(frozen["archive"]).glob("*.jsonl"))
    figures = {
        "rows": {name: count for name, count in tables.items() if count},
        "ledger": ledger(database),
        "metrics": metrics,
        "rounds": [one["status"] for one in answer("round", "list", "sentiment")],
        "money": {name: task[name] for name in ("round_money", "task_money")},
        "archive": {name: frozen[name] for name in ("rows", "splits")},
        "archived": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in lines},
        "problems": proved["problems"],
    }
    snapshot.compare(FIGURES, figures)


def row_counts(database: Path) -> dict[str, int]:
    with closing(sqlite3.connect(database)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        count = {name: connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in names}
    return {name: number for name, number in count.items() if not name.startswith("sqlite_")}


def ledger(database: Path) -> dict[str, list[int]]:
    """Return the entries of each round, kind and state: how many, their cents, and their fees."""
    with closing(sqlite3.connect(database)) as connection:
        return {name: numbers for name, *numbers in connection.execute(LEDGER)}


def make_dump(folder: Path) -> None:
    """Play a round to its end, close the next one halfway, and dump the database."""
    path = folder / "played.db"
    with open_store(f"sqlite:///{path}", upgrade=True) as store:
        campaign = start_managed(store, folder)
        campaign.qualify_workers()
        campaign.play(lambda: len(campaign.rounds()) == 2)
        campaign.write_hits(2)
        campaign.settle()
        campaign.check_hits(1)
        campaign.settle()
        campaign.round_id = campaign.rounds()[1].id
        campaign.mark_closed()
    with closing(sqlite3.connect(path)) as connection:
        text = "\n".join(connection.iterdump()) + "\n"
    # Leave out the folders of the machine that made the dump.
    text = text.replace(str(folder), "/srv/outfox").replace(str(BUILT_IN), "/srv/outfox/templates")
    DUMP.write_text(text, encoding="utf-8")
