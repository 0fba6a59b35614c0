"""Predicting: what a model version says becomes predictions in Label Studio, one for each task and version."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.clock import Clock
from ml_backend.serving.replies import FEEDBACK
from ml_backend.targets.target import LabelPrediction, Target
from ml_backend.verdict import Verdict, judge
from plugin.labelstudio.errors import LabelStudioError
from plugin.labelstudio.links import linked
from plugin.labelstudio.pushing import Progress
from plugin.labelstudio.studio import Json, ProjectSeen, Studio, TaskSeen
from round_manager.database.store import Store
from round_manager.labelstudio.tasks import submitted_on
from round_manager.models import LabelStudioLink, ProjectKind
from round_manager.specs import spec_of
from templates import TaskSpec
from templates.payloads import Span, results
from templates.xml_lines import Element, read_elements

TASKS_AT_ONCE = 100


@dataclass(frozen=True)
class Predicted:
    """What was sent; tasks that have this version's prediction already, and tasks that lack what the model reads."""

    project: int
    sent: int
    there: int
    lacking: int


@dataclass(frozen=True)
class _Question:
    fields: Mapping[str, str]
    target: str | None


def predict(
    store: Store,
    studio: Studio,
    task_name: str,
    predictor: Target,
    clock: Clock,
    *,
    project: int | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Predicted:
    """Sends a version's answers for a project's tasks; a second time sends nothing.

    Without a project: to the creation project, about the examples that were submitted there. With one: about every
    task that has all the model reads in its data. The validation project is refused, for it is blind.
    """
    task, links = linked(store, studio, task_name)
    if project == links[ProjectKind.VALIDATE].project:
        raise LabelStudioError(f"project {project} is where {task_name} is checked, and whoever checks sees no model")
    spec, own = spec_of(task), links[ProjectKind.CREATE]
    seen = studio.project(project or own.project)
    if seen is None:
        raise LabelStudioError(f"there is no project {project or own.project} in Label Studio at {studio.url}")
    elements = read_elements(seen.label_config.strip(), f"project {seen.id}")
    sent = there = lacking = done = 0
    for page, total in _pages(studio, seen):
        examples = _submitted(store, own, page) if seen.id == own.project else {}
        asked = []
        for one in page:
            question = examples.get(one.id) if seen.id == own.project else _of_data(spec, one)
            if question is None:
                lacking += 1
            elif predictor.version in one.model_versions:
                there += 1
            else:
                asked.append((one.id, question))
        if asked:
            studio.add_predictions(seen.id, _predictions(spec, predictor, elements, asked, clock))
        sent, done = sent + len(asked), done + len(page)
        progress(done, total)
    return Predicted(seen.id, sent, there, lacking)


def _pages(studio: Studio, project: ProjectSeen) -> Iterator[tuple[tuple[TaskSeen, ...], int]]:
    after, total = 0, 0
    while True:
        page = studio.all_tasks(project.id, after=after, size=TASKS_AT_ONCE)
        total = total or page.total
        if page.tasks:
            yield page.tasks, total
        if len(page.tasks) < TASKS_AT_ONCE:
            return
        after = page.tasks[-1].id


def _submitted(store: Store, link: LabelStudioLink, page: Sequence[TaskSeen]) -> dict[int, _Question]:
    with store.read() as session:
        found = submitted_on(session, link, [task.id for task in page])
    return {
        number: _Question(
            {name: str(text) for name, text in example.fields.items()},
            example.label if example.answer is None else str(example.answer["text"]),
        )
        for number, example in found.items()
    }


def _of_data(spec: TaskSpec, task: TaskSeen) -> _Question | None:
    texts = {name: task.data.get(name) for name in spec.model_input}
    if not all(isinstance(text, str) and text.strip() for text in texts.values()):
        return None
    target = task.data.get("target")
    return _Question({name: str(text) for name, text in texts.items()}, target if target in spec.label_names else None)


def _predictions(
    spec: TaskSpec,
    predictor: Target,
    elements: list[Element],
    asked: Sequence[tuple[int, _Question]],
    clock: Clock,
) -> list[Json]:
    answers = predictor.predict([question.fields for _, question in asked])
    found = []
    for (number, question), answer in zip(asked, answers, strict=True):
        verdict = judge(spec, question.fields, [(predictor.version, answer)], question.target, now=clock.now())
        place = None if isinstance(answer, LabelPrediction) else Span(answer.start, answer.text)
        said = results(elements, _values(spec, verdict, place))
        found.append({"task": number, "result": said, "score": answer.confidence, "model_version": predictor.version})
    return found


def _values(spec: TaskSpec, verdict: Verdict, place: Span | None) -> dict[str, str | Span]:
    """What can be shown, by the names of the controls that show it; a template has some of them."""
    values: dict[str, str | Span] = {FEEDBACK: verdict.sentence(spec)}
    if place is not None:
        return {**values, spec.with_role("span")[0].name: place}
    return {**values, "label": verdict.shown.prediction}
