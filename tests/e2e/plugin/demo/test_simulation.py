"""The simulated crowd on a real marketplace and real pages."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugin.demo.simulation import SimulatedCrowd
from plugin.simulation.browser import Browser
from plugin.simulation.sentences import SimulationRecord
from plugin.simulation.worker import SimulatedWorker, make_profiles
from round_manager.models import HitKind
from templates import Pack
from tests.e2e.plugin.web.work.books import votes
from tests.e2e.plugin.web.work.stage import WorkStage, work_stage
from tests.e2e.taught import Teach

SEED = "tests"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[tuple[WorkStage, Pack]]:
    with work_stage(tmp_path_factory.mktemp("simulation")) as stage:
        work = {"tries": 4, "tries_before_skip": 1, "validations_per_hit": 3}
        pack = stage.open_task("sentiment", model=teach("sentiment"), work=work, validation={"sample_non_fooling": 1.0})
        yield stage, pack


@pytest.fixture
def record(tmp_path: Path, opened: tuple[WorkStage, Pack]) -> SimulationRecord:
    return SimulationRecord(tmp_path / "record.jsonl", opened[1])


def test_workers_write_and_check(opened: tuple[WorkStage, Pack], record: SimulationRecord) -> None:
    stage, pack = opened
    profiles = make_profiles(4, SEED)
    crowd = SimulatedCrowd(profiles, pack.spec, stage.market.url, record, threading.Event())
    crowd.sign_in(stage.invite)
    stage.post("sentiment", HitKind.CREATE, hits=4)
    assert crowd.once()
    stage.collect()
    examples = stage.examples()
    assert crowd.done["create"] == len(examples) == 4
    assert crowd.done["attempts"] == len(stage.tries())
    assert all(one.active_ms is not None for one in examples)
    assert [profile.honest for profile in profiles] == [True, True, True, False]
    meant = [one for one in examples if record.reading(one.fields["text"]) == one.label]
    assert len(meant) == 3, "only the honest workers write the requested label"

    stage.post("sentiment", HitKind.VALIDATE, hits=2, assignments=2)
    crowd.once()
    crowd.once()
    stage.collect()
    cast = votes(stage)
    authors = {one.id: one.author_id for one in examples}
    assert cast
    assert all(one.worker_id != authors[one.example_id] for one in cast)
    assert all(one.active_ms is not None for one in cast)
    crowd.close()


def test_a_restarted_worker_finishes_the_accepted_hit(opened: tuple[WorkStage, Pack], record: SimulationRecord) -> None:
    stage, pack = opened
    (profile,) = make_profiles(1, "another")
    stop = threading.Event()
    stage.post("sentiment", HitKind.CREATE)
    before = len(stage.examples())
    link = stage.worker(profile.name)

    gone = SimulatedWorker(profile, pack.spec, Browser(stop), stage.market.url, record)
    gone.sign_in(stage.invite(link))
    taken = gone.accept()
    assert taken is not None

    back = SimulatedWorker(profile, pack.spec, Browser(stop), stage.market.url, record)
    back.sign_in(stage.invite(link))
    assert back.work().kind == "create"
    stage.collect()
    assert len(stage.examples()) == before + 1
    assert taken.assignment in record.seconds
