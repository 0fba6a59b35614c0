"""Work that the marketplace never confirmed is counted in an archive's manifest, and is in none of its files."""

import json
from pathlib import Path

import pytest

import outfox
from round_manager.archive.round_rows import ArchiveRules
from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.database.store import Store
from round_manager.models import Example, WorkSession
from round_manager.services import archives
from round_manager.services.archives import verify_round
from tests.campaign import DAY, Campaign, start_campaign
from tests.fakes.clock import NOON

FORGED = "a forged text "


@pytest.fixture
def written(store: Store) -> tuple[Campaign, WorkSession]:
    """A closed round with the work of a worker, and with that of a page that nobody accepted a HIT for."""
    campaign = start_campaign(store, contexts=8)
    honest, forged = campaign.open_page("W1"), campaign.open_page("FORGED")
    campaign.write_examples(honest)
    campaign.write_examples(forged, FORGED)
    campaign.confirm(honest)
    campaign.mark_closed(at=NOON + 90 * DAY)
    return campaign, forged


def contents(folder: Path) -> str:
    return "".join(path.read_text("utf-8") for path in folder.glob("*.jsonl"))


def test_neither_examples_nor_attempts_of_unconfirmed_pages_are_archived(
    written: tuple[Campaign, WorkSession], tmp_path: Path
) -> None:
    campaign, forged = written
    frozen = campaign.freeze(open_archives(str(tmp_path)))
    folder = Path(frozen.where)
    unconfirmed = len(campaign.rows(Example, Example.session_id == forged.id))
    assert unconfirmed > 0
    assert FORGED not in contents(folder)
    assert frozen.rows["examples"] == frozen.rows["attempts"] == len(campaign.rows(Example)) - unconfirmed
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["examples"]["unconfirmed"] == unconfirmed
    assert set(outfox.load(campaign.spec.name, path=tmp_path)["status"]) == {"pending"}


def test_such_an_archive_is_valid_alone_and_against_the_database(
    written: tuple[Campaign, WorkSession], tmp_path: Path
) -> None:
    campaign, _ = written
    folder = Path(campaign.freeze(open_archives(str(tmp_path))).where)
    assert verify(folder).problems == ()
    assert verify_round(campaign.services, campaign.spec.name).result.problems == ()


def test_a_confirmation_after_the_freeze_changes_nothing(written: tuple[Campaign, WorkSession], tmp_path: Path) -> None:
    campaign, forged = written
    first = campaign.freeze(open_archives(str(tmp_path / "one")))
    campaign.confirm(forged)
    again = campaign.freeze(open_archives(str(tmp_path / "two")))
    assert again.sha256 == first.sha256
    assert verify_round(campaign.services, campaign.spec.name).result.problems == ()


def test_a_round_that_was_frozen_with_unconfirmed_rows_keeps_its_archive(
    written: tuple[Campaign, WorkSession], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign, _ = written
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(archives, "_archive_rules", lambda *_: ArchiveRules(1_000, None))
        first = campaign.freeze(open_archives(str(tmp_path / "one")))
    again = campaign.freeze(open_archives(str(tmp_path / "two")))
    assert FORGED in contents(Path(first.where))
    assert again.sha256 == first.sha256
    assert verify_round(campaign.services, campaign.spec.name).result.problems == ()
    assert "unconfirmed" in set(outfox.load(campaign.spec.name, path=tmp_path / "one")["status"])
