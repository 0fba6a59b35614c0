"""Predictions: a model version's answers are stored in Label Studio, one for each task and version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from common.clock import Clock
from ml_backend.serving.replies import FEEDBACK
from ml_backend.targets.target import LabelPrediction, Target
from ml_backend.verdict import Verdict, judge
from round_manager.database.store import Store
from round_manager.labelstudio.port import Json, LabelStudio, LabelStudioError, ProjectNotFound, ProjectTask, id_pages
from round_manager.labelstudio.projects import linked_projects
from round_manager.labelstudio.push import Progress
from round_manager.labelstudio.tasks import submitted_on
from round_manager.models import LabelStudioLink, ProjectKind, spec_of
from templates import TaskSpec
from templates.label_config import Element, read_elements
from templates.payloads import Span, results

TASKS_AT_ONCE = 100


class BlindProject(LabelStudioError):
    """Validators must not see a model's answer, so their project gets no predictions."""

    code = "label_studio_project_blind"


@dataclass(frozen=True)
class PredictionResult:
    """How many predictions were sent, existed already, and could not be made because a task lacks the model's input."""

    project: int
    sent: int
    there: int
    lacking: int


@dataclass(frozen=True)
class _Question:
    fields: Mapping[str, str]
    target: str | None


def predict_tasks(
    store: Store,
    label_studio: LabelStudio,
    task_name: str,
    target: Target,
    clock: Clock,
    *,
    project: int | None = None,
    progress: Progress = lambda _done, _total: None,
) -> PredictionResult:
    """Store a version's answers for a project's tasks; repeating the call sends nothing.

    Without a project: in the creation project, for the examples that were submitted there. With one: for every task
    whose data has the model's whole input. The validation project is refused.
    """
    task, links = linked_projects(store, label_studio.url, task_name)
    if project == links[ProjectKind.VALIDATE].project:
        raise BlindProject(f"project {project} is the validation project of {task_name}; it gets no predictions")
    spec, own = spec_of(task), links[ProjectKind.CREATE]
    found = label_studio.project(project or own.project)
    if found is None:
        raise ProjectNotFound(f"project {project or own.project} does not exist in Label Studio at {label_studio.url}")
    elements = read_elements(found.label_config.strip(), f"project {found.id}")
    sent = there = lacking = done = total = 0
    for page in id_pages(partial(label_studio.tasks_after, found.id), TASKS_AT_ONCE):
        total = total or page.total
        examples = _submitted(store, own, page.tasks) if found.id == own.project else {}
        asked = []
        for one in page.tasks:
            question = examples.get(one.id) if found.id == own.project else _from_data(spec, one)
            if question is None:
                lacking += 1
            elif target.version in one.model_versions:
                there += 1
            else:
                asked.append((one.id, question))
        if asked:
            label_studio.add_predictions(found.id, _predictions(spec, target, elements, asked, clock))
        sent, done = sent + len(asked), done + len(page.tasks)
        progress(done, total)
    return PredictionResult(found.id, sent, there, lacking)


def _submitted(store: Store, link: LabelStudioLink, page: Sequence[ProjectTask]) -> dict[int, _Question]:
    with store.read() as session:
        found = submitted_on(session, link, [task.id for task in page])
    return {
        number: _Question(
            {name: str(text) for name, text in example.fields.items()},
            example.label if example.answer is None else str(example.answer["text"]),
        )
        for number, example in found.items()
    }


def _from_data(spec: TaskSpec, task: ProjectTask) -> _Question | None:
    texts = {name: task.data.get(name) for name in spec.model_input}
    if not all(isinstance(text, str) and text.strip() for text in texts.values()):
        return None
    target = task.data.get("target")
    return _Question({name: str(text) for name, text in texts.items()}, target if target in spec.label_names else None)


def _predictions(
    spec: TaskSpec,
    target: Target,
    elements: list[Element],
    asked: Sequence[tuple[int, _Question]],
    clock: Clock,
) -> list[Json]:
    answers = target.predict([question.fields for _, question in asked])
    found = []
    for (number, question), answer in zip(asked, answers, strict=True):
        verdict = judge(spec, question.fields, [(target.version, answer)], question.target, now=clock.now())
        place = None if isinstance(answer, LabelPrediction) else Span(answer.start, answer.text)
        said = results(elements, _values(spec, verdict, place))
        found.append({"task": number, "result": said, "score": answer.confidence, "model_version": target.version})
    return found


def _values(spec: TaskSpec, verdict: Verdict, place: Span | None) -> dict[str, str | Span]:
    """Return the values to show by the names of their controls; a template has some of them."""
    values: dict[str, str | Span] = {FEEDBACK: verdict.sentence(spec)}
    if place is not None:
        return {**values, spec.with_role("span")[0].name: place}
    return {**values, "label": verdict.shown.prediction}
