"""The owner's commands on gold, and on validators to look at."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugin.demo.gold import gold_file, readings
from round_manager.database.store import open_store
from round_manager.models import Source
from tests.campaign import Campaign, start_campaign
from tests.campaign.base import built_in_pack
from tests.conftest import Outfox


@pytest.fixture
def campaign(home_tables: str) -> Iterator[Campaign]:
    """A campaign in the home that the commands work on."""
    with open_store(home_tables) as store:
        yield start_campaign(store)


def gold(folder: Path, *rows: dict[str, str]) -> Path:
    file = folder / "gold.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_gold_is_uploaded_and_until_then_the_owner_is_told_that_checks_are_off(
    outfox: Outfox, campaign: Campaign, tmp_path: Path
) -> None:
    campaign.add_hit()
    (warning,) = json.loads(outfox("round", "show", "sentiment", "--json").out)["warnings"]
    assert warning["hint"]["command"] == "outfox task gold sentiment FILE"
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    assert task["warnings"] == [warning]
    file = gold(tmp_path, *({"text": f"My own words, {number}.", "label": "positive"} for number in range(5)))
    ran = outfox("task", "gold", "sentiment", file, "--json")
    assert (ran.code, json.loads(ran.out)["live"]) == (0, 5)
    assert json.loads(outfox("round", "show", "sentiment", "--json").out)["warnings"] == []
    assert json.loads(outfox("task", "gold", "sentiment", "--json").out)["items"] == 5


def test_the_owner_reads_that_examples_wait_for_an_established_validator(outfox: Outfox, home_tables: str) -> None:
    with open_store(home_tables) as store:
        campaign = start_campaign(store, validation={"established_votes": 1})
        campaign.vote(campaign.add_example(), None, source=Source.PAGES)
    round = json.loads(outfox("round", "show", "sentiment", "--json").out)
    (task,) = json.loads(outfox("status", "--json").out)["tasks"]
    for shown in (round, task):
        assert [text for text in shown["waits_for"] if "20 votes and 80% of at least 5 gold items right" in text]
        assert "outfox task gold sentiment FILE" in [hint["command"] for hint in shown["hints"] if hint]


def test_mistakes_in_a_gold_file_are_listed_with_their_lines(
    outfox: Outfox, campaign: Campaign, tmp_path: Path
) -> None:
    seed = built_in_pack("sentiment").seed[0]
    good = {"text": "My own words.", "label": "positive"}
    for row, line in (
        ({"text": "Mine.", "label": "great"}, 2),
        ({"text": seed.fields["text"], "label": "positive"}, 2),
    ):
        ran = outfox("task", "gold", "sentiment", gold(tmp_path, good, row))
        assert ran.code != 0
        assert f"gold.jsonl:{line}:" in ran.err


def test_withheld_examples_and_suspects_are_listed_as_json(outfox: Outfox, campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    assert json.loads(outfox("round", "withheld", "sentiment", "--json").out)["rounds"] == []
    found = json.loads(outfox("round", "suspects", "sentiment", "--json").out)
    assert (found["validators"], found["compared_pairs"], found["pairs"], found["gold_only"]) == (2, 2, [], [])
    assert found["sharing"] == []


def test_each_demo_writes_its_own_gold(tmp_path: Path) -> None:
    pack = built_in_pack("sentiment")
    seeds = {row.fields["text"] for row in pack.seed}
    texts = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        file = gold_file(tmp_path / name, pack)
        assert gold_file(tmp_path / name, pack).read_bytes() == file.read_bytes()
        texts.append({text for text, _ in readings(file, pack)})
    assert len(texts[0]) == len(texts[1]) == 60
    assert texts[0] != texts[1]
    assert not seeds & texts[0]
