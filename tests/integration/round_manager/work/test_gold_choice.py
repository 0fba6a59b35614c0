"""Gold that workers cannot look up: where it comes from, how often it is shown, and when it is retired."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from round_manager.archive.storage import open_archives
from round_manager.archive.verification import verify
from round_manager.database.store import Store
from round_manager.errors import RefusedError
from round_manager.models import Example, ExampleStatus, GoldExample, GoldItem, GoldShowing, HitKind, WorkItem
from round_manager.services.archives import verify_round
from round_manager.services.gold import retired_rows, show_gold, upload_gold
from templates import PackError, SeedRow
from templates.rows import GoldRow
from tests.campaign import DAY, MINUTE, Campaign, NewCampaign, start_campaign
from tests.campaign.base import built_in_pack
from tests.fakes.clock import NOON
from tests.fakes.gold import update_gold

TWO_ITEMS = {"validations_per_hit": 2}
GOLD = {"gold_rate": 0.5, "gold_withheld": 1.0, "sample_non_fooling": 0.0}


def private(number: int, text: str = "") -> SeedRow:
    fields = {"text": text or f"A private sentence, number {number}."}
    return replace(built_in_pack("sentiment").seed[0], id=f"g{number}", fields=fields, label="positive")


def add_private(campaign: Campaign, number: int) -> None:
    with campaign.store.write() as session:
        update_gold(session, campaign.task, [private(one) for one in range(number)], now=campaign.now)


def known(campaign: Campaign, author: str = "A1") -> Example:
    """An example that people agreed on."""
    terms: dict[str, Any] = {"gold_label": "positive", "decided_at": campaign.now, "votes_wanted": 0}
    return campaign.add_example(author, status=ExampleStatus.VERIFIED, **terms)


def gold_on_pages(campaign: Campaign) -> list[int]:
    return [row.gold_id or row.example_id for row in campaign.rows(WorkItem, WorkItem.expected_label.is_not(None))]


def test_no_gold_can_be_looked_up_in_the_pack(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(seeds=True, validation={"gold_rate": 0.5}, work=TWO_ITEMS)
    campaign.add_example(wanted=9)
    campaign.open_validation_page("V1")
    assert gold_on_pages(campaign) == []


@pytest.fixture
def filled(store: Store) -> Campaign:
    """A round with examples, of which the first verified one serves as gold."""
    campaign = start_campaign(store, models=("first", "second"), label_studio=True).fill()
    serve_as_gold(campaign, verified(campaign))
    return campaign


def serve_as_gold(campaign: Campaign, example: Example) -> None:
    with campaign.store.write() as session:
        task, round = example.task_id, example.round_id
        session.add(GoldExample(example_id=example.id, task_id=task, round_id=round, created_at=campaign.now))


def verified(campaign: Campaign) -> Example:
    found: Example = campaign.rows(Example, Example.status == ExampleStatus.VERIFIED)[0]
    return found


def frozen(campaign: Campaign, folder: Path) -> Path:
    campaign.mark_closed(at=NOON + 90 * DAY)
    return Path(campaign.freeze(open_archives(str(folder))).where)


def ids_in(folder: Path) -> set[UUID]:
    return {UUID(json.loads(line)["id"]) for line in (folder / "examples.jsonl").read_text("utf-8").splitlines()}


def test_no_live_gold_can_be_looked_up_in_an_archive(filled: Campaign, tmp_path: Path) -> None:
    folder, hidden = frozen(filled, tmp_path), verified(filled)
    assert ids_in(folder) == {one.public_id for one in filled.rows(Example)} - {hidden.public_id}
    texts = "".join((folder / f"{table}.jsonl").read_text("utf-8") for table in ("examples", "attempts", "votes"))
    assert hidden.fields["text"] not in texts
    assert hidden.public_id.hex not in texts.replace("-", "")
    assert hidden.split is None
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["withheld"] == 1
    assert verify(folder).problems == ()
    assert verify_round(filled.services, "sentiment").result.problems == ()


def test_an_archive_stays_the_same_when_its_withheld_example_is_retired(filled: Campaign, tmp_path: Path) -> None:
    folder = frozen(filled, tmp_path)
    before, hidden = ids_in(folder), verified(filled)
    assert retired_rows(filled.services, "sentiment", 1) == []
    with filled.store.write() as session:
        session.get_one(GoldExample, hidden.id).retired_at = NOON + 91 * DAY
    assert filled.freeze(open_archives(str(tmp_path))).already
    assert ids_in(folder) == before
    (line,) = retired_rows(filled.services, "sentiment", 1)
    assert (UUID(json.loads(line)["id"]), json.loads(line)["split"]) == (hidden.public_id, None)
    (counted,) = show_gold(filled.services, "sentiment").withheld
    assert (counted.examples, counted.live) == (1, 0)


def test_gold_that_was_retired_before_the_round_closed_is_published(filled: Campaign, tmp_path: Path) -> None:
    hidden = verified(filled)
    with filled.store.write() as session:
        session.get_one(GoldExample, hidden.id).retired_at = NOON
    folder = frozen(filled, tmp_path)
    assert hidden.public_id in ids_in(folder)
    assert "withheld" not in json.loads((folder / "manifest.json").read_text("utf-8"))


def test_no_example_of_a_closed_round_becomes_gold(filled: Campaign) -> None:
    filled.mark_closed(at=NOON + 90 * DAY)
    example = filled.rows(Example, Example.status == ExampleStatus.VERIFIED)[1]
    with pytest.raises(RefusedError):
        serve_as_gold(filled, example)


def test_no_more_examples_become_gold_than_the_task_withholds(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={**GOLD, "gold_withheld": 0.25}, work=TWO_ITEMS)
    for number in range(7):
        known(campaign, f"A{number}")
    campaign.add_example("A9", wanted=9)
    for number in range(4):
        campaign.open_validation_page(f"V{number}")
    chosen = gold_on_pages(campaign)
    assert len(chosen) == 4
    assert len(set(chosen)) == 1


def test_an_example_whose_text_occurs_twice_does_not_become_gold(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation=GOLD, work=TWO_ITEMS)
    twice = known(campaign)
    campaign.add_example("A2", fields=dict(twice.fields), wanted=3)
    campaign.open_validation_page("V1")
    assert gold_on_pages(campaign) == []


def test_an_item_is_retired_after_its_last_showing(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5, "gold_showings": 2}, work=TWO_ITEMS)
    add_private(campaign, 1)
    campaign.add_example(wanted=9)
    for number in range(4):
        campaign.open_validation_page(f"V{number}")
    (item,) = campaign.rows(GoldItem)
    assert gold_on_pages(campaign) == [item.id] * 2
    assert item.retired_at == campaign.now
    add_private(campaign, 1)
    assert campaign.reload(item).retired_at is not None


def test_a_worker_who_lets_pages_expire_sees_no_item_on_two_pages(new_campaign: NewCampaign) -> None:
    campaign = new_campaign(validation={"gold_rate": 0.5}, work=TWO_ITEMS)
    add_private(campaign, 2)
    campaign.add_example(wanted=9)
    hit = campaign.add_hit(HitKind.VALIDATE)
    seen = []
    for _ in range(2):
        page = campaign.open_page("V1", hit=hit)
        seen.append([row.gold_id for row in campaign.rows(WorkItem, WorkItem.session_id == page.id) if row.gold_id])
        campaign.clock.advance(21 * MINUTE)
    assert seen[0] == seen[1]
    for _ in range(2):
        campaign.open_validation_page("V1")
        campaign.clock.advance(21 * MINUTE)
    assert len(campaign.rows(GoldShowing)) == 2
    last = campaign.rows(WorkItem)[-1].session_id
    assert [row.gold_id for row in campaign.rows(WorkItem, WorkItem.session_id == last)] == [None]


def test_rows_that_can_be_looked_up_are_refused_with_their_lines(new_campaign: NewCampaign) -> None:
    campaign = new_campaign()
    pack, example = built_in_pack("sentiment"), campaign.add_example()
    shown = next(iter(campaign.context.fields.values()))
    texts = ["Mine alone.", pack.seed[0].fields["text"].upper(), example.fields["text"], shown]
    rows = [GoldRow(number, private(number, text)) for number, text in enumerate(texts, 1)]
    with pytest.raises(PackError) as caught:
        upload_gold(campaign.services, campaign.owner, "sentiment", lambda _: rows, file="gold.jsonl", seed=pack.seed)
    assert [(one.line, one.code) for one in caught.value.problems] == [(line, "gold_published") for line in (2, 3, 4)]
    assert campaign.rows(GoldItem) == []
    done = upload_gold(
        campaign.services, campaign.owner, "sentiment", lambda _: rows[:1], file="gold.jsonl", seed=pack.seed
    )
    assert (done.added, done.live) == (1, 1)
