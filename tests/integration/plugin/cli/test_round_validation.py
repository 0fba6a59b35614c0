"""The owner's commands on votes, flags and metrics."""

import json
from collections.abc import Iterator

import pytest

from round_manager.database.store import open_store
from round_manager.models import ExampleStatus
from tests.campaign import Campaign, start_campaign
from tests.campaign.base import built_in_pack
from tests.conftest import Outfox
from tests.fakes.gold import update_gold
from tests.integration.round_manager.validation.test_late_flags import flagging, judged

FLAG = "It names a person"


@pytest.fixture
def campaign(home_tables: str) -> Iterator[Campaign]:
    """A campaign in the home that the commands work on."""
    with open_store(home_tables) as store:
        yield start_campaign(store)


def test_votes_decide_examples_and_the_owner_sees_what_needs_attention(outfox: Outfox, campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples()
    flagged = campaign.add_example()
    campaign.vote(example, None, None)
    campaign.vote(flagged, flag=FLAG)
    ran = outfox("round", "decide", "sentiment", "--json")
    assert ran.code == 0, ran.err
    counted = json.loads(ran.out)
    assert (counted["verified"], counted["bonuses"], counted["flagged"]) == (1, 1, 1)
    text = " ".join(outfox("round", "decide", "sentiment").out.split())
    assert "0 verified" in text
    assert "outfox round flags sentiment" in text


def test_a_flagged_example_is_listed_and_decided(outfox: Outfox, campaign: Campaign) -> None:
    example, other = campaign.add_example(), campaign.add_example()
    for one in (example, other):
        campaign.vote(one)
        campaign.vote(one, flag=FLAG)
    text = outfox("round", "flags", "sentiment").out
    assert all(word in text for word in (str(example.public_id), FLAG, str(example.fields["text"]).split()[0]))
    listed = json.loads(outfox("round", "flags", "sentiment", "--json").out)
    assert [one["example"] for one in listed["flagged"]] == [str(example.public_id), str(other.public_id)]

    ran = outfox("round", "decide", "sentiment", example.public_id, "--keep", "--why", "no", "--json")
    assert (ran.code, json.loads(ran.out)["status"]) == (0, "pending")
    assert outfox("round", "decide", "sentiment", other.public_id, "--withdraw", "--why", "it does").code == 0
    assert campaign.status_of(other) is ExampleStatus.WITHDRAWN
    assert json.loads(outfox("round", "flags", "sentiment", "--json").out)["flagged"] == []


def test_late_flags_are_listed_with_their_kind(outfox: Outfox, campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, None, None)
    campaign.decide()
    campaign.vote(example, flag=FLAG)
    assert json.loads(outfox("round", "decide", "sentiment", "--json").out)["flagged_late"] == 1
    text = outfox("round", "flags", "sentiment").out
    assert "verified, round 1" in text
    ran = outfox("round", "decide", "sentiment", example.public_id, "--keep", "--why", "no", "--json")
    assert (ran.code, json.loads(ran.out)["status"]) == (0, "verified")
    assert json.loads(outfox("round", "flags", "sentiment", "--json").out)["flagged"] == []


def test_a_flagged_gold_item_is_listed_with_the_row_to_correct(outfox: Outfox, home_tables: str) -> None:
    (row,) = built_in_pack("sentiment").seed[:1]
    with open_store(home_tables) as store:
        campaign = start_campaign(store, validation={"gold_rate": 0.5}, work={"validations_per_hit": 2})
        with store.write() as session:
            update_gold(session, campaign.task, [row], now=campaign.now)
        judged(campaign, flagging(campaign))
    text = outfox("round", "flags", "sentiment").out
    assert all(word in text for word in (row.id, "two at once", "outfox task gold sentiment"))
    (gold,) = json.loads(outfox("round", "flags", "sentiment", "--json").out)["gold"]
    assert (gold["row"], gold["flags"][0]["comment"]) == (row.id, "two at once")


def test_control_characters_in_workers_texts_are_escaped(outfox: Outfox, campaign: Campaign) -> None:
    example = campaign.add_example()
    campaign.vote(example, flag="\x1b[31mred\x9b2J \u202eturned")
    text = outfox("round", "flags", "sentiment").out
    assert not set("\x1b\x9b\u202e") & set(text)
    assert "\\u001b[31mred" in text
    as_json = outfox("round", "flags", "sentiment", "--json").out
    assert not set("\x1b\x9b\u202e") & set(as_json)
    assert json.loads(as_json)["flagged"][0]["votes"][0]["flag"] == "\x1b[31mred\x9b2J \u202eturned"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["0197c0de-0000-7000-8000-000000000000", "--keep", "--why", "x"], "outfox round flags sentiment"),
        (["0197c0de-0000-7000-8000-000000000000", "--keep"], "--why"),
        (["0197c0de-0000-7000-8000-000000000000"], "--keep or --withdraw"),
        (["--withdraw"], "EXAMPLE"),
        (["--round", "7"], "outfox round list sentiment"),
    ],
)
def test_a_wrong_argument_is_reported_with_a_hint(
    outfox: Outfox, campaign: Campaign, arguments: list[str], named: str
) -> None:
    ran = outfox("round", "decide", campaign.spec.name, *arguments)
    assert (ran.code, named in ran.err) == (2, True)


def test_metrics_are_shown_for_people_and_for_programs(outfox: Outfox, campaign: Campaign) -> None:
    (example,) = campaign.confirmed_examples("W1")
    campaign.confirmed_examples("W2")
    campaign.vote(example, None, None)
    ran = outfox("round", "metrics", "sentiment")
    assert ran.code == 0, ran.err
    assert "50.0%" in ran.out
    (found,) = json.loads(outfox("round", "metrics", "sentiment", "--json").out)
    assert (found["vmer"]["count"], found["vmer"]["of"], found["tries"]) == (1, 2, 2)
    assert found["undecided_fooling"] == 1
    assert found["vmer"]["low"] == pytest.approx(0.0945, abs=0.0001)
    for by in ("worker", "label", "context"):
        parts = json.loads(outfox("round", "metrics", "sentiment", "--by", by, "--json").out)
        assert sum(part["collected"] for part in parts) == 2
        assert all(part[by] for part in parts)
    voters = json.loads(outfox("round", "metrics", "sentiment", "--by", "validator", "--json").out)
    assert [one["agreed"]["share"] for one in voters] == [1.0, 1.0]
    assert "W1" not in outfox("round", "metrics", "sentiment", "--by", "worker").out


def test_undecided_fooling_examples_of_a_closed_round_are_reported(outfox: Outfox, campaign: Campaign) -> None:
    campaign.confirmed_examples("W1")
    campaign.mark_closed()
    (found,) = json.loads(outfox("round", "metrics", "sentiment", "--json").out)
    assert (found["undecided_fooling"], found["closed"]) == (1, True)


@pytest.mark.usefixtures("home_tables")
def test_a_draft_has_no_metrics_yet(outfox: Outfox) -> None:
    assert outfox("task", "create", "sentiment").code == 0
    ran = outfox("round", "metrics", "sentiment", "--json")
    assert (ran.code, ran.error["hint"]["action"]) == (2, "open_round")


def test_an_aggregation_is_shown_and_settles_only_with_a_reason(outfox: Outfox, campaign: Campaign) -> None:
    for label in campaign.spec.label_names:
        campaign.vote(campaign.add_example(label=label), None, None, voters=["Ann", "Bob"])
    found = json.loads(outfox("round", "aggregate", "sentiment", "--json").out)
    assert (found["examples"], found["same"], found["settled"]) == (3, 3, None)
    assert outfox("round", "aggregate", "sentiment", "--settle").code == 2
    ran = outfox("round", "aggregate", "sentiment", "--settle", "--why", "a test", "--json")
    assert (ran.code, json.loads(ran.out)["settled"]["verified"]) == (0, 0)
