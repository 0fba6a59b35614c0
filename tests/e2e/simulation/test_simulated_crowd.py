"""The simulated crowd on a real marketplace and real pages, with the owner's side done by hand."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from plugin.simulation.crowd import SimulatedCrowd
from plugin.simulation.line import Line
from plugin.simulation.notebook import Notebook
from plugin.simulation.people import make_people
from plugin.simulation.worker import SimulatedWorker
from round_manager.models import HitKind
from templates import Pack
from tests.e2e.taught import Teach
from tests.e2e.work.books import votes
from tests.e2e.work.stage import WorkStage, work_stage

SEED = "tests"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, teach: Teach) -> Iterator[tuple[WorkStage, Pack]]:
    with work_stage(tmp_path_factory.mktemp("simulation")) as stage:
        work = {"tries": 4, "tries_before_skip": 1, "validations_per_hit": 3}
        pack = stage.open_task("sentiment", model=teach("sentiment"), work=work, validation={"sample_non_fooling": 1.0})
        yield stage, pack


@pytest.fixture
def notebook(tmp_path: Path, opened: tuple[WorkStage, Pack]) -> Notebook:
    return Notebook(tmp_path / "notes.jsonl", opened[1])


def test_it_writes_and_checks_as_people_do(opened: tuple[WorkStage, Pack], notebook: Notebook) -> None:
    stage, pack = opened
    people = make_people(4, SEED)
    crowd = SimulatedCrowd(people, pack.spec, stage.market.url, notebook, threading.Event())
    crowd.come(stage.invite)
    stage.post("sentiment", HitKind.CREATE, hits=4)
    assert crowd.once()
    stage.collect()
    examples = stage.examples()
    assert crowd.tally.written == len(examples) == 4
    assert crowd.tally.tries == len(stage.tries())
    assert all(one.active_ms is not None for one in examples)
    assert [person.honest for person in people] == [True, True, True, False]
    meant = [one for one in examples if notebook.reading(one.fields["text"]) == one.label]
    assert len(meant) == 3, "the honest ones wrote what was asked for, and nobody else did"

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


def test_a_worker_who_was_killed_finishes_what_is_in_their_hands(
    opened: tuple[WorkStage, Pack], notebook: Notebook
) -> None:
    stage, pack = opened
    (person,) = make_people(1, "another")
    stop = threading.Event()
    stage.post("sentiment", HitKind.CREATE)
    before = len(stage.examples())
    link = stage.worker(person.name)

    gone = SimulatedWorker(person, pack.spec, Line(stop), stage.market.url, notebook)
    gone.sign_in(stage.invite(link))
    taken = gone.take()
    assert taken is not None

    back = SimulatedWorker(person, pack.spec, Line(stop), stage.market.url, notebook)
    back.sign_in(stage.invite(link))
    assert back.work().kind == "create"
    stage.collect()
    assert len(stage.examples()) == before + 1
    assert taken.assignment in notebook.seconds
