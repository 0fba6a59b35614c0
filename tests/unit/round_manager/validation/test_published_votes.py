"""Real votes, aggregated by the named policies, give the gold labels that were published with them."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from round_manager.policies import Settled, Wants, find_policy, replay
from templates.sections import Validation

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"
DYNASENT = {
    "dynasent-v1.1-round01-yelp-dev.jsonl": 3_600,
    "dynasent-v1.1-round01-yelp-test.jsonl": 3_600,
    "dynasent-v1.1-round02-dynabench-dev.jsonl": 720,
}
ANLI = "anli-verifier-votes.jsonl"


def rows(name: str) -> Iterator[dict[str, Any]]:
    file = DATA / name
    if not file.is_file():
        pytest.skip(f"NOT PROVED: {name} is not in ../shared/data, so published votes could not be aggregated")
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@pytest.mark.parametrize("name", DYNASENT)
def test_dynasents_votes_give_the_published_gold_label_of_every_row(name: str) -> None:
    policy, settings = find_policy("dynasent"), Validation(policy="dynasent", first_votes=5)
    proved = 0
    for row in rows(name):
        votes = [label for label, workers in row["label_distribution"].items() for _ in workers]
        assert replay(policy, settings, votes, "") == Settled(row["gold_label"]), row["text_id"]
        proved += 1
    assert proved == DYNASENT[name]


def test_anlis_votes_decide_all_but_a_few_examples_under_its_policy(record_property: Any) -> None:
    policy, settings = find_policy("anli"), Validation(policy="anli", max_votes=3)
    outcomes: Counter[str] = Counter()
    for row in rows(ANLI):
        votes = row["verifier labels"]
        ruling = replay(policy, settings, votes, "")
        if isinstance(ruling, Wants):
            # Two verifiers disagreed, and no third is on record: the policy asks for one and names no label.
            assert (ruling.votes, len(votes)) == (3, 2)
            outcomes["two-vote disagreements"] += 1
        elif ruling.gold is None:
            assert len(set(votes)) == 3
            outcomes["three labels"] += 1
        else:
            assert votes.count(ruling.gold) >= 2
            outcomes[f"agreed after {len(votes)}"] += 1
    for what, count in sorted(outcomes.items()):
        record_property(what, count)
        print(f"ANLI: {count:,} {what}")
    assert outcomes == {
        "agreed after 2": 20_830,
        "agreed after 3": 8_942,
        "three labels": 9,
        "two-vote disagreements": 22,
    }
