"""A home with tiny real models, in which commands and managers can train."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from ml_backend.training import train
from round_manager.database.store import open_store
from templates import load_pack
from tests.campaign.training import TASK, RoundRow, find_training, first_round_rows, small_pack
from tests.conftest import Outfox, replace_in


@dataclass(frozen=True)
class Home:
    """A home with a task whose first round is closed, and the version in that round's loop."""

    folder: Path
    pack: Path
    base: str
    database: str = ""

    def pinned(self, outfox: Outfox) -> list[str]:
        pins = json.loads(outfox("model", "pins", TASK, "--json").out)["pins"]
        return [str(version) for one in pins if one["round"] is None for version in one["versions"]]


@pytest.fixture(scope="session", name="trained_once")
def home_trained_once(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Trained once for all tests."""
    root = tmp_path_factory.mktemp("home")
    pack = small_pack(root / "packs")
    replace_in(pack.folder / "task.yaml", "base: embedded", f"base: {tiny_base}")
    # The loss of such a small network is not meaningful.
    replace_in(pack.folder / "task.yaml", "guard_points: 2.0", "guard_points: 100")
    trained = train(load_pack(pack.folder), root / "home" / "models", mode="head")
    return Home(root / "home", pack.folder, trained.manifest.version)


@pytest.fixture(name="home")
def home_of_its_own(outfox: Outfox, trained_once: Home, tmp_path: Path, home_tables: str) -> Home:
    folder = Path(shutil.copytree(trained_once.folder, tmp_path / "home", dirs_exist_ok=True))
    pack = Path(shutil.copytree(trained_once.pack, tmp_path / "packs" / TASK))
    made = Home(folder, pack, trained_once.base, home_tables)
    assert outfox("task", "create", made.pack).code == 0
    assert outfox("model", "rotate", TASK, made.base).code == 0
    with open_store(made.database) as store:
        find_training(store, load_pack(made.pack), folder / "models").add_closed_round(
            [
                *first_round_rows(),
                RoundRow("A bright day on the river.", "positive"),
                RoundRow("A day on the river.", "neutral"),
            ]
        )
    return made
