"""Two processes do the same thing concurrently: it happens once, and both get the result."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from round_manager.database.store import Store
from round_manager.errors import RoundError, RoundManagerError
from round_manager.examples.attempts import store_attempts
from round_manager.examples.submissions import submit
from round_manager.learning.versions import find_versions, register_version
from round_manager.models import Example, Round, Source, Task, ensure_worker
from round_manager.tasks.rounds import collected, list_rounds, open_round, pinned_versions
from round_manager.tasks.tasks import create_task, find_task
from round_manager.work.validation_work import cast_vote
from templates import find_pack
from tests.campaign import MINUTE, Campaign
from tests.campaign.base import manifest_for
from tests.fakes.clock import NOON
from tests.fakes.contexts import live_contexts

TOGETHER = 6


def at_once(do: Callable[[int], Any]) -> list[Any]:
    """Return the result or our error of each thread."""
    start = threading.Barrier(TOGETHER)

    def one(number: int) -> Any:
        start.wait(10)
        try:
            return do(number)
        except RoundManagerError as error:
            return error

    with ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(one, range(TOGETHER)))


def test_a_worker_is_created_once(campaign: Campaign) -> None:
    def meet(_number: int) -> int:
        with campaign.store.write() as session:
            return ensure_worker(session, "mturk", "A1", now=NOON).id

    assert len(set(at_once(meet))) == 1


def test_a_version_is_registered_once(campaign: Campaign) -> None:
    manifest = manifest_for(campaign.spec, "at once")

    def register(_number: int) -> int:
        with campaign.store.write() as session:
            return register_version(session, campaign.task, manifest, "models/x", now=NOON).id

    assert len(set(at_once(register))) == 1


def test_a_task_is_created_once_with_all_its_contexts(store: Store) -> None:
    pack = find_pack("nli")

    def create(_number: int) -> int:
        with store.write() as session:
            return create_task(session, pack, now=NOON).id

    (task,) = set(at_once(create))
    with store.read() as session:
        assert len(live_contexts(session, task)) == len(pack.contexts)
        assert len(list_rounds(session, session.get_one(Task, task))) == 1


def test_a_round_opened_concurrently_uses_one_of_the_requested_versions(store: Store) -> None:
    spec = find_pack("nli").spec
    with store.write() as session:
        task = create_task(session, find_pack("nli"), now=NOON)
        names = [
            register_version(session, task, manifest_for(spec, str(number)), "models/x", now=NOON).name
            for number in range(TOGETHER)
        ]

    def open_it(number: int) -> str:
        with store.write() as session:
            row = find_task(session, "nli")
            open_round(session, row, find_versions(session, row, [names[number]]), now=NOON, actor="owner", reason="")
            return names[number]

    outcomes = at_once(open_it)
    (winner,) = [one for one in outcomes if isinstance(one, str)]
    assert all(isinstance(one, RoundError) for one in outcomes if one is not winner)
    with store.read() as session:
        (opened,) = list_rounds(session, task)
        assert pinned_versions(session, opened) == (winner,)


def test_the_same_text_becomes_one_example(campaign: Campaign) -> None:
    given = campaign.submission()
    verdicts = [campaign.verdict(given) for _ in range(TOGETHER)]

    def hand_in(number: int) -> Example:
        with campaign.store.write() as session:
            return submit(session, session.get_one(Round, campaign.round_id), given, verdicts[number], now=NOON)

    outcomes = at_once(hand_in)
    assert sum(isinstance(one, Example) for one in outcomes) == 1
    with campaign.store.read() as session:
        assert collected(session, campaign.round).examples == 1


def test_a_batch_delivered_on_two_routes_is_stored_once(campaign: Campaign) -> None:
    tries = [campaign.attempt_record() for _ in range(20)]

    def take(_number: int) -> int:
        with campaign.store.write() as session:
            intake = store_attempts(session, tries, now=NOON + MINUTE)
            assert not intake.refused
            return intake.stored

    assert sum(at_once(take)) == len(tries)


def test_a_validator_has_one_vote(campaign: Campaign) -> None:
    given = campaign.submission()
    with campaign.store.write() as session:
        example = submit(
            session, session.get_one(Round, campaign.round_id), given, campaign.verdict(given), now=NOON
        ).id

    def vote(_number: int) -> int:
        with campaign.store.write() as session:
            judged = session.get_one(Example, example)
            made = cast_vote(session, judged, campaign.voter, source=Source.PAGES, voted_at=NOON, label="positive")
            return made.id

    outcomes = at_once(vote)
    assert sum(isinstance(one, int) for one in outcomes) == 1
    assert all("already" in str(one) for one in outcomes if not isinstance(one, int))
