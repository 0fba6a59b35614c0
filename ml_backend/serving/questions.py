"""What a predict call asks, read from the task pack alone: any JSON goes in, typed questions or a refusal come out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ml_backend.serving.errors import RequestRefused
from ml_backend.serving.labelling_configs import LabellingConfigs
from templates.spec import TaskSpec
from templates.written import TooLong, first_too_long, is_blank

MOST_TASKS = 10_000
MOST_CHARS = 20_000
_MOST_ID = 2**63

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """What one task of a call says: the texts that are known, and the right answer if that is known too."""

    task: int | None
    context: Mapping[str, str]
    inputs: Mapping[str, str]
    target: str | None


@dataclass(frozen=True)
class Call:
    """A predict call: from which project, whether somebody waits for it, and one question for each of its tasks."""

    project: int | None
    interactive: bool
    shows_feedback: bool
    questions: tuple[Question, ...]


class QuestionReader:
    """Reads the calls of one task."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._context = tuple(field.name for field in spec.with_role("context"))
        self._inputs = tuple(field.name for field in spec.with_role("input"))
        self._spans = tuple(field.name for field in spec.with_role("span"))
        self._given = tuple(name for name in spec.model_input if name in self._context)
        self._by_annotator = spec.target.set_by == "annotator"
        self._configs = LabellingConfigs(spec)

    def read(self, body: object) -> Call:
        """The call in a predict body; what is unknown or unfinished in it leaves its question incomplete."""
        if not isinstance(body, dict):
            raise RequestRefused(400, "the body is not a JSON object; send tasks, project, label_config and params")
        tasks = body.get("tasks")
        if not isinstance(tasks, list):
            raise RequestRefused(400, "`tasks` is missing or not a list; send the tasks to predict")
        if len(tasks) > MOST_TASKS:
            raise RequestRefused(413, f"{len(tasks):,} tasks are too many for one call; send at most {MOST_TASKS:,}")
        project = project_id(body.get("project"))
        config = self._configs.check(body.get("label_config"))
        params = body.get("params") or {}
        if not isinstance(params, dict):
            raise RequestRefused(400, "`params` is not an object; send {} or leave it out")
        context = params.get("context")
        interactive = context is not None
        if interactive and len(tasks) > 1:
            raise RequestRefused(400, f"an interactive call is about one task, not {len(tasks):,}; send one at a time")
        results = _results(context)
        questions = tuple(self._question(task, results, asked=interactive) for task in tasks)
        return Call(project, interactive, config.shows_feedback, questions)

    def check_setup(self, body: object) -> None:
        """Refuses the set-up of a project whose labelling config is not the task's; keeps nothing of the body."""
        if not isinstance(body, dict):
            raise RequestRefused(400, "the body is not a JSON object; send project and schema")
        project_id(body.get("project"))
        self._configs.check(body.get("schema") or None)

    def is_complete(self, inputs: Mapping[str, str], context: Mapping[str, str]) -> bool:
        """Whether everything is there that the model reads."""
        return not any(is_blank(inputs.get(name) or context.get(name, "")) for name in self._spec.model_input)

    def too_long(self, inputs: Mapping[str, str], target: str | None) -> TooLong | None:
        """The first of what was written or selected that could never be handed in."""
        selected = {self._spans[0]: target} if self._spans and target is not None else {}
        return first_too_long(self._spec, {**inputs, **selected})

    def _question(self, task: object, results: list[Json], *, asked: bool) -> Question:
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(task, dict) or not isinstance(data, dict):
            raise RequestRefused(400, "a task is not an object with `data`; send tasks as Label Studio does")
        number = task.get("id")
        own_id = number if type(number) is int and 0 <= number < _MOST_ID else None
        context = self._texts(data, self._context, own_id)
        if asked:
            for name in self._given:
                if not context.get(name, "").strip():
                    raise RequestRefused(422, f"task {own_id} has no text in `{name}`, which the model reads; add it")
        inputs = self._texts(data, self._inputs, own_id)
        for name in self._inputs:
            written = _written(results, name)
            if written is not None:
                inputs[name] = _short_enough(written, name, own_id)
        if self._spans:
            target = _selected(results, self._spans[0], context.get(self._given[0], ""))
        else:
            target = self._label(_written(results, "label") if self._by_annotator else data.get("target"))
        if target is None and asked and not self._by_annotator and data.get("target") is not None:
            labels = ", ".join(self._spec.label_names)
            raise RequestRefused(422, f"the target of task {own_id} is none of {labels}; correct its data")
        return Question(own_id, context, inputs, target)

    def _label(self, value: object) -> str | None:
        return value if isinstance(value, str) and value in self._spec.label_names else None

    def _texts(self, data: Json, names: tuple[str, ...], task: int | None) -> dict[str, str]:
        return {name: _short_enough(data[name], name, task) for name in names if isinstance(data.get(name), str)}


def project_id(value: object) -> int | None:
    """The number of the project that Label Studio calls `id.timestamp`; None where no project is named."""
    if value is None:
        return None
    head = str(value).partition(".")[0] if type(value) in (int, str) else ""
    if not (head.isascii() and head.isdigit() and len(head) < 19):
        raise RequestRefused(400, "`project` is not Label Studio's `id.timestamp`; send the project's own")
    return int(head)


def _results(context: object) -> list[Json]:
    results = context.get("result") if isinstance(context, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _written(results: list[Json], name: str) -> str | None:
    """What was last written or chosen in a control; None where that cannot be read."""
    for one in reversed(results):
        value = one.get("value")
        if one.get("from_name") == name and isinstance(value, dict):
            texts = value.get("text", value.get("choices"))
            if isinstance(texts, str):
                return texts
            if isinstance(texts, list) and all(isinstance(text, str) for text in texts):
                return "\n".join(texts)
    return None


def _selected(results: list[Json], name: str, passage: str) -> str | None:
    """The text that was last selected in the passage; None where the passage does not have it there."""
    for one in reversed(results):
        value = one.get("value")
        if one.get("from_name") == name and isinstance(value, dict):
            start, end, text = value.get("start"), value.get("end"), value.get("text")
            if type(start) is int and type(end) is int and 0 <= start < end:
                for found in (passage[start:end], _by_utf16(passage, start, end)):
                    if found.strip() and text in (found, None):
                        return found
    return None


def _by_utf16(passage: str, start: int, end: int) -> str:
    """The piece that a browser means, which counts an emoji as two."""
    piece = passage.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end]
    return piece.decode("utf-16-le", "surrogatepass")


def _short_enough(text: str, name: str, task: int | None) -> str:
    if len(text) > MOST_CHARS:
        raise RequestRefused(413, f"`{name}` of task {task} has {len(text):,} characters; at most {MOST_CHARS:,} fit")
    return text
