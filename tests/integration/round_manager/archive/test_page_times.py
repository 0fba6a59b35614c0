"""The time of work on workers' pages, from the page to the researcher."""

from pathlib import Path

import pytest

import outfox
from round_manager.archive.freeze import freeze
from round_manager.archive.storage import open_archives
from round_manager.database.store import Store
from round_manager.models import Example, HitKind
from round_manager.validation.metrics import round_metrics
from round_manager.work.validation_work import Judgement, judge_item
from tests.integration.round_manager.validation.panel import Panel, seat_panel
from tests.integration.round_manager.work.floor import MINUTE, judged_items


def written(panel: Panel, worker: str, *counts: int | None) -> None:
    """Examples that fooled the model, each finished at that count of its page."""
    floor = panel.floor
    page = floor.open(worker, hit=panel.hit())
    floor.clock.advance(5 * MINUTE)
    for item, count in enumerate(counts):
        text = floor.fooling(page, item)
        floor.ask(page, text, item)
        floor.hand_in(page, text, item, active_ms=count)
    floor.finish(page)
    floor.confirm(page)


def judged(panel: Panel, worker: str, *counts: int | None) -> None:
    """Votes for what the authors say, each given at that count of its page."""
    floor = panel.floor
    page = floor.open(worker, kind=HitKind.VALIDATE)
    floor.clock.advance(5 * MINUTE)
    meant = {one.fields["text"]: one.label for one in floor.rows(Example)}
    with floor.write() as session:
        for one, count in zip(judged_items(session, page), counts, strict=True):
            said = Judgement(label=meant[one.fields["text"]])
            judge_item(session, page, one.item, said, now=floor.now, active_ms=count)
    floor.finish(page)
    floor.confirm(page)


def frozen(panel: Panel, folder: Path) -> dict[str, bytes]:
    """The files of the round's archive."""
    round_id, clock, places = panel.floor.round.id, panel.floor.clock, open_archives(str(folder))
    made = freeze(panel.store, round_id, places, clock, actor="ada", reason="a test")
    return {path.name: path.read_bytes() for path in Path(made.where).iterdir()}


def test_a_researcher_has_the_time_of_every_example_and_vote(store: Store, tmp_path: Path) -> None:
    panel = seat_panel(store, work={"examples_per_hit": 2, "validations_per_hit": 2}, validation={"gold_rate": 0.0})
    written(panel, "W1", 60_000, 100_000)
    judged(panel, "V1", 5_000, 20_000)
    judged(panel, "V2", 7_000, 14_000)
    panel.decide()
    panel.close()
    first = frozen(panel, tmp_path / "first")
    assert frozen(panel, tmp_path / "again") == first
    assert sorted(outfox.load("sentiment", path=tmp_path / "first")["active_ms"]) == [40_000, 60_000]
    votes = outfox.votes("sentiment", path=tmp_path / "first")["active_ms"]
    assert sorted(votes) == [5_000, 7_000, 7_000, 15_000]
    row = outfox.metrics("sentiment", path=tmp_path / "first").iloc[0]
    assert row["author_seconds_per_verified"] == 50
    with store.read() as session:
        whole = round_metrics(session, panel.round).counts
    assert whole.seconds_per_verified == pytest.approx(row["author_seconds_per_verified"] + votes.sum() / 1_000 / 2)
