"""Quiz HITs: for unqualified workers, and paid whether they pass or not."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from mturk.marketplace import worker_actions
from mturk.marketplace.errors import NotQualified
from mturk.marketplace.tables.people import Worker
from round_manager.learning.versions import register_version
from round_manager.tasks.rounds import open_round
from round_manager.tasks.tasks import create_task
from templates import find_pack
from tests.campaign.base import manifest_for
from tests.integration.plugin.cli.crowd.crowd_commands import REWARD, SENTIMENT, CrowdCommands

QUIZ, QUIZ_FEE = 60, 12
POST = ("post", SENTIMENT, "--kind", "quiz", "--hits")


def _offered(commands: CrowdCommands, worker: Worker, title: str) -> list[str]:
    """Return the HIT groups shown to the worker whose titles begin like this."""
    with commands.market.market.read() as session:
        groups = worker_actions.list_groups(session, worker, commands.market.market.now())
        return [one.group_id for one in groups if one.title.startswith(title)]


def _take(commands: CrowdCommands, worker: Worker, title: str) -> str:
    """Let the worker accept a HIT whose title begins like this; return the assignment's id."""
    (group,) = _offered(commands, worker, title)
    with commands.market.market.write() as session:
        return worker_actions.accept(session, worker, group, commands.market.market.now()).id


def _hand_in(commands: CrowdCommands, worker: Worker, assignment: str) -> None:
    with commands.market.market.write() as session:
        worker_actions.submit(session, assignment, {"session": "x"}, commands.market.market.now(), worker_id=worker.id)


def test_a_quiz_costs_its_reward_and_has_no_bonus(commands: CrowdCommands) -> None:
    answer = commands.run_json(*POST, 1, "--assignments", 5, "--dry-run")["quote"]
    assert (answer["reward_cents"], answer["possible_bonus_cents"], answer["total_bonus_cents"]) == (QUIZ, 0, 0)
    assert answer["total_cents"] == answer["at_once_cents"] == 5 * (QUIZ + QUIZ_FEE)
    text = commands.run_text(*POST, 1, "--assignments", 5, "--dry-run")
    for words in ("1 HIT of 5 assignments for the quiz", "only workers without the qualification of sentiment"):
        assert words in text
    assert "one place for a worker" not in text
    several = commands.run_text(*POST, 3, "--dry-run")
    assert "each HIT has one place for a worker, who may take the quiz 2 times in all" in several
    assert commands.figures().reserved_cents == 0


def test_an_unqualified_worker_can_take_only_the_quiz_and_is_paid(commands: CrowdCommands) -> None:
    commands.post_hits(1)
    assert commands.run_json(*POST, 1, "--assignments", 2, "--yes")["posted"] == 1
    new, held = commands.market.make_worker("New"), commands.worker("Ann")
    for worker, title in ((new, "Fool"), (held, "Paid quiz: ")):
        with pytest.raises(NotQualified):
            _take(commands, worker, title)
    _hand_in(commands, new, _take(commands, new, "Paid quiz: "))
    assert not _offered(commands, new, "Paid quiz: "), "of the other place"
    before = commands.figures()
    paid = commands.run_json("approve", SENTIMENT, "--all")["paid"]
    assert (paid["rewards"], paid["cents"]) == (1, QUIZ)
    after = commands.figures()
    assert after.sent_cents - before.sent_cents == QUIZ + QUIZ_FEE
    commands.run_json("workers", "grant", SENTIMENT, new.id)
    _take(commands, new, "Fool")
    groups = {one["kind"]: one for one in commands.run_json("status", SENTIMENT)["groups"]}
    assert (groups["quiz"]["reward_cents"], groups["create"]["reward_cents"]) == (QUIZ, REWARD)
    assert (
        commands.run_json("expire", SENTIMENT, "--all", "--kind", "quiz", "--yes")["released_cents"] == QUIZ + QUIZ_FEE
    )


@pytest.mark.parametrize(
    "part",
    [{"quiz": None}, {"pay": {"quiz_cents": 0}}],
)
def test_a_round_without_a_paid_quiz_takes_no_quiz_hits(commands: CrowdCommands, part: dict[str, Any]) -> None:
    pack, now = find_pack(SENTIMENT), datetime.now(UTC)
    changed = {name: value and getattr(pack.spec, name).model_copy(update=value) for name, value in part.items()}
    plain = replace(pack, spec=pack.spec.model_copy(update={"name": "plain", **changed}))
    with commands.store() as store, store.write() as session:
        task = create_task(session, plain, now=now)
        version = register_version(session, task, manifest_for(plain.spec), "models/x", now=now)
        open_round(session, task, [version], now=now, actor="owner", reason="a test")
    for more in ("--dry-run", "--yes"):
        error = commands.error("post", "plain", "--kind", "quiz", "--hits", 1, more)
        assert (error["code"], error["hint"]["action"]) == ("hits_not_allowed", "apply_task_yaml")
