"""Predictions: about what was submitted, or about tasks that have all the model reads; once for each version."""

import pytest

from round_manager.labelstudio.port import ProjectNotFound
from round_manager.labelstudio.predictions import TASKS_AT_ONCE, BlindProject, PredictionResult, predict_tasks
from round_manager.models import ProjectKind
from tests.fakes.label_studio import Killed
from tests.fakes.target import FakeTarget
from tests.unit.round_manager.labelstudio.conftest import World, Worlds


def asked(world: World, version: str = "v1", project: int | None = None) -> PredictionResult:
    predictor = FakeTarget(world.pack.spec, version)
    return predict_tasks(world.store, world.studio, world.name, predictor, world.clock, project=project)


def test_a_submitted_example_gets_one_prediction_per_version(worlds: Worlds) -> None:
    world = worlds()
    numbers = world.examples(["positive one", "positive two"])
    project, rest = world.link().project, len(world.tasks()) - 2
    assert asked(world) == PredictionResult(project, sent=2, there=0, lacking=rest)
    assert asked(world) == PredictionResult(project, sent=0, there=2, lacking=rest)
    assert asked(world, "v2") == PredictionResult(project, sent=2, there=0, lacking=rest)
    assert sorted({one["task"] for one in world.studio.predictions}) == sorted(numbers)
    first = world.studio.predictions[0]
    assert (first["score"], first["model_version"]) == (0.75, "v1")
    assert "You fooled the model!" in first["result"][0]["value"]["text"][0]


def test_tasks_of_another_project_are_predicted_from_their_data(worlds: Worlds) -> None:
    world = worlds()
    project = world.studio.create_project({"title": "any", "label_config": world.pack.validate_xml}).id
    full = [{"data": {"text": f"neutral {number}"}} for number in range(TASKS_AT_ONCE + 5)]
    world.studio.add_tasks(project, [*full, {"data": {"text": "  "}}, {"data": {"other": "x"}}])
    assert asked(world, project=project) == PredictionResult(project, sent=len(full), there=0, lacking=2)
    assert world.studio.predictions[0]["result"][0]["value"] == {"choices": ["neutral"]}


def test_an_interrupted_run_sends_no_prediction_twice(worlds: Worlds) -> None:
    world = worlds()
    world.examples(["positive one", "positive two"])
    world.studio.after["add_predictions"] = Killed()
    with pytest.raises(Killed):
        asked(world)
    assert asked(world).there == 2
    assert len(world.studio.predictions) == 2


def test_the_validation_project_gets_no_predictions(worlds: Worlds) -> None:
    world = worlds()
    with pytest.raises(BlindProject):
        asked(world, project=world.link(ProjectKind.VALIDATE).project)


def test_an_unknown_project_is_reported(worlds: Worlds) -> None:
    with pytest.raises(ProjectNotFound):
        asked(worlds(), project=77)
