"""Evaluations and the newest model's card in the folders of archives, which stay as they are."""

import json
import shutil
from pathlib import Path

import pytest

import outfox
from ml_backend.hashing import file_sha256
from outfox.evaluation_records import NAME
from round_manager.archive.storage import open_archives
from round_manager.learning.training_data import HeldOut
from round_manager.learning.versions import Measured, store_evaluation
from round_manager.models import ModelVersion
from round_manager.services.archives import verify_archive
from round_manager.services.context import ServiceContext
from round_manager.services.evaluation_records import record_rounds
from templates import SeedRow
from tests.campaign.campaign import Campaign

TASK = "sentiment"
SCORES = [1.0] * 15 + [0.0] * 5


def measure(campaign: Campaign, version: int = 1, sha256: str = "1" * 64) -> str:
    """Store what a training measures of a version on the round; return the version's name."""
    row = SeedRow("r", "held_out", {"text": "A day."}, "positive", None, None, {})
    with campaign.store.write() as session:
        found = session.get_one(ModelVersion, version)
        part = HeldOut("round 1", campaign.round_id, (row,) * 20, sha256)
        metrics = {"accuracy": 75.0, "macro_f1": 70.0}
        measured = Measured(metrics, SCORES, (90.0, 100.0, 120.0), 300 << 20)
        store_evaluation(session, found, part, "accuracy", measured, now=campaign.clock.now())
        return found.name


def recorded(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / NAME).read_text()))


def files_of(folder: Path) -> dict[str, str]:
    return {path.name: file_sha256(path) for path in folder.iterdir() if path.name != NAME}


@pytest.fixture
def frozen(campaign: Campaign, tmp_path: Path) -> Path:
    return Path(campaign.freeze(open_archives(str(tmp_path / "archives"))).where)


def test_what_is_measured_after_the_freeze_is_recorded_and_the_archive_stays(campaign: Campaign, frozen: Path) -> None:
    before = files_of(frozen)
    assert not (frozen / NAME).exists(), "nothing was known yet"
    version = measure(campaign)
    context = ServiceContext(campaign.store, campaign.clock)
    assert record_rounds(context, TASK) == [1]
    assert record_rounds(context, TASK) == [], "nothing is new"
    frame = outfox.open(TASK, path=frozen.parent.parent).evaluations()
    values = {(one["axis"], one["metric"]): one for one in frame.to_dict("records")}
    accuracy = values["performance", "accuracy"]
    assert (accuracy["model"], accuracy["n"], accuracy["value"]) == (version, 20, 75.0)
    assert 0 < accuracy["low"] < 75 < accuracy["high"] < 100
    speed = values["throughput", "rows_per_second"]
    assert (speed["low"], speed["value"], speed["high"]) == (90, 100, 120)
    assert values["memory", "memory_mb"]["value"] == 300
    # The archive is the same, valid, and frozen again to the same bytes.
    assert files_of(frozen) == before
    assert verify_archive(str(frozen)).result.problems == ()
    campaign.freeze(open_archives(str(frozen.parent.parent)))
    assert files_of(frozen) == before
    stored = outfox.evaluations(TASK, path=frozen.parent.parent)
    assert set(stored["axis"]) == {"performance", "throughput", "memory", "worst_round"}


def test_figures_travel_with_copies_and_with_a_freeze_elsewhere(
    campaign: Campaign, frozen: Path, tmp_path: Path
) -> None:
    version = measure(campaign)
    record_rounds(ServiceContext(campaign.store, campaign.clock), TASK)
    shutil.copytree(frozen, tmp_path / "copy" / TASK / frozen.name)
    elsewhere = Path(campaign.freeze(open_archives(str(tmp_path / "elsewhere"))).where)
    assert recorded(elsewhere) == recorded(frozen)
    frame = outfox.load(TASK, path=tmp_path / "copy")
    outfox.export(frame, form="datasets", to=tmp_path / "export")
    card = (tmp_path / "export" / "README.md").read_text()
    assert f"`{version}`" in card
    assert "75.0 (" in card


def test_the_newest_models_card_is_recorded_if_it_is_the_registered_one(
    campaign: Campaign, frozen: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "version"
    folder.mkdir()
    (folder / "README.md").write_text("# The newest model\n")
    with campaign.store.write() as session:
        newest = session.get_one(ModelVersion, 1)
        other = ModelVersion(
            **{name: getattr(newest, name) for name in ("task_id", "data", "data_sha256", "settings", "metrics")},
            name="m0123456789ab", sha256="2" * 64, code_version="test", created_at=campaign.clock.now(),
            uri=str(folder), files={"README.md": file_sha256(folder / "README.md")},
        )  # fmt: skip
        session.add(other)
    context = ServiceContext(campaign.store, campaign.clock)
    assert record_rounds(context, TASK) == [1]
    assert outfox.open(TASK, path=frozen.parent.parent).model_card() == "# The newest model\n"
    # Another text under that address is not its card; the one that is known stays.
    (folder / "README.md").write_text("# Something else\n")
    measure(campaign)
    assert record_rounds(context, TASK) == [1]
    assert outfox.open(TASK, path=frozen.parent.parent).model_card() == "# The newest model\n"


@pytest.mark.parametrize("change", ["value", "archive", "text"])
def test_a_changed_record_is_found_and_written_again(campaign: Campaign, frozen: Path, change: str) -> None:
    measure(campaign)
    context = ServiceContext(campaign.store, campaign.clock)
    record_rounds(context, TASK)
    right = (frozen / NAME).read_bytes()
    wrong = {"value": right.replace(b'"value": 75.0', b'"value": 99.0'), "text": b"[" * 100_000,
             "archive": right.replace(b'"round": 1', b'"round": 2')}[change]  # fmt: skip
    assert wrong != right
    (frozen / NAME).write_bytes(wrong)
    assert len(verify_archive(str(frozen)).result.problems) == 1
    data = outfox.open(TASK, path=frozen.parent.parent)
    with pytest.raises(outfox.DataCorrupt):
        data.evaluations()
    assert len(data.examples()) == 40, "the examples can be read"
    assert record_rounds(context, TASK) == [1]
    assert (frozen / NAME).read_bytes() == right


def test_an_archive_that_is_not_here_is_left_alone(campaign: Campaign, frozen: Path, tmp_path: Path) -> None:
    measure(campaign)
    frozen.parent.rename(tmp_path / "moved")
    assert record_rounds(ServiceContext(campaign.store, campaign.clock), TASK) == []
    assert not frozen.exists()
