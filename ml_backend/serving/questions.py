"""Predict calls: any JSON is parsed into typed questions by the task's pack, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ml_backend.errors import InvalidRequest, InvalidTaskData, LabellingConfigMismatch, RequestTooLarge
from templates.errors import PackError
from templates.label_config import MAX_CHARS, read_elements
from templates.spec import TaskSpec
from templates.texts import first_too_long, is_blank

MAX_TASKS = 10_000
MAX_TEXT_CHARS = 20_000
_MAX_ID = 2**63
# One per project that asks this process, plus room for changed ones; each has at most MAX_CHARS characters.
_MAX_CONFIGS = 64

Json = Mapping[str, Any]


@dataclass(frozen=True)
class PredictQuestion:
    """One task of a call: its known texts, and the right answer if it is known; `emptied` if a text was deleted."""

    task: int | None
    context: Mapping[str, str]
    inputs: Mapping[str, str]
    target: str | None
    emptied: bool = False


@dataclass(frozen=True)
class PredictCall:
    """A predict call: its project, whether an annotator waits for it, and one question per task."""

    project: int | None
    interactive: bool
    shows_feedback: bool
    questions: tuple[PredictQuestion, ...]


@dataclass(frozen=True)
class LabellingConfig:
    """How a labelling config fits a task: why it does not (None if it does), and whether it can show verdicts.

    A validation project cannot, and must not: validators judge without knowing the model's answer.
    """

    misfit: str | None
    shows_feedback: bool


class QuestionReader:
    """Parses the calls of one task."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._context = tuple(field.name for field in spec.with_role("context"))
        self._inputs = tuple(field.name for field in spec.with_role("input"))
        self._spans = tuple(field.name for field in spec.with_role("span"))
        self._given = tuple(name for name in spec.model_input if name in self._context)
        self._by_annotator = spec.target.set_by == "annotator"
        # A request can afford a lookup but not to parse XML.
        self._read_config = lru_cache(_MAX_CONFIGS)(self._parse_config)

    def read(self, body: object) -> PredictCall:
        """Parse a predict body; unknown or unfinished parts leave a question incomplete."""
        if not isinstance(body, dict):
            raise InvalidRequest("the body is not a JSON object; send tasks, project, label_config and params")
        tasks = body.get("tasks")
        if not isinstance(tasks, list):
            raise InvalidRequest("`tasks` is missing or not a list; send the tasks to predict")
        if len(tasks) > MAX_TASKS:
            raise RequestTooLarge(f"{len(tasks):,} tasks are too many for one call; send at most {MAX_TASKS:,}")
        project = project_id(body.get("project"))
        config = self._check_config(body.get("label_config"))
        params = body.get("params") or {}
        if not isinstance(params, dict):
            raise InvalidRequest("`params` is not an object; send {} or leave it out")
        context = params.get("context")
        interactive = context is not None
        if interactive and len(tasks) > 1:
            raise InvalidRequest(f"an interactive call is about one task, not {len(tasks):,}; send one at a time")
        results = _results(context)
        questions = tuple(self._question(task, results, asked=interactive) for task in tasks)
        return PredictCall(project, interactive, config.shows_feedback, questions)

    def check_setup(self, body: object) -> None:
        """Refuse a project whose labelling config is not one of the task; nothing of the body is kept."""
        if not isinstance(body, dict):
            raise InvalidRequest("the body is not a JSON object; send project and schema")
        project_id(body.get("project"))
        self._check_config(body.get("schema") or None)

    def is_complete(self, inputs: Mapping[str, str], context: Mapping[str, str]) -> bool:
        """Return whether every field that the model reads is filled in."""
        return not any(is_blank(inputs.get(name) or context.get(name, "")) for name in self._spec.model_input)

    def refusal(self, inputs: Mapping[str, str], target: str | None, *, emptied: bool) -> str | None:
        """Return why the written or selected texts could not be submitted, in the task's language; None if they can."""
        if emptied:
            return self._spec.messages.emptied
        selected = {self._spans[0]: target} if self._spans and target is not None else {}
        long = first_too_long(self._spec, {**inputs, **selected})
        return None if long is None else long.sentence(self._spec)

    def _check_config(self, xml: object) -> LabellingConfig:
        """Return how the config fits the task; raise LabellingConfigMismatch if it does not."""
        if xml is None:
            return LabellingConfig(None, True)
        if not isinstance(xml, str) or len(xml) > MAX_CHARS:
            raise LabellingConfigMismatch("the labelling config is not a string, or too long; send the project's own")
        config = self._read_config(xml)
        if config.misfit is not None:
            raise LabellingConfigMismatch(config.misfit)
        return config

    def _parse_config(self, xml: str) -> LabellingConfig:
        try:
            names = {element.name for element in read_elements(xml, "the labelling config")}
        except PackError as error:
            return LabellingConfig(str(error.problems[0]), False)
        for name in self._spec.model_input:
            if name not in names:
                text = f"this project does not belong to task `{self._spec.name}`: its labelling config has no `{name}`"
                return LabellingConfig(f"{text}; use the pack's create.xml or the URL of another task", False)
        return LabellingConfig(None, "feedback" in names)

    def _question(self, task: object, results: list[Json], *, asked: bool) -> PredictQuestion:
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(task, dict) or not isinstance(data, dict):
            raise InvalidRequest("a task is not an object with `data`; send tasks as Label Studio does")
        number = task.get("id")
        own_id = number if type(number) is int and 0 <= number < _MAX_ID else None
        context = self._texts(data, self._context, own_id)
        if asked:
            for name in self._given:
                if not context.get(name, "").strip():
                    raise InvalidTaskData(f"task {own_id} has no text in `{name}`, which the model reads; add it")
        inputs, emptied = self._texts(data, self._inputs, own_id), False
        for name in self._inputs:
            written = _written(results, name)
            if written is not None:
                inputs[name] = _check_length(written, name, own_id)
                emptied = emptied or is_blank(written)
        if self._spans:
            target = _selected(results, self._spans[0], context.get(self._given[0], ""))
        else:
            target = self._label(_written(results, "label") if self._by_annotator else data.get("target"))
        if target is None and asked and not self._by_annotator and data.get("target") is not None:
            labels = ", ".join(self._spec.label_names)
            raise InvalidTaskData(f"the target of task {own_id} is not one of {labels}; correct its data")
        return PredictQuestion(own_id, context, inputs, target, emptied)

    def _label(self, value: object) -> str | None:
        return value if isinstance(value, str) and value in self._spec.label_names else None

    def _texts(self, data: Json, names: tuple[str, ...], task: int | None) -> dict[str, str]:
        return {name: _check_length(data[name], name, task) for name in names if isinstance(data.get(name), str)}


def project_id(value: object) -> int | None:
    """Return the project's number from Label Studio's `id.timestamp`; None if no project is named."""
    if value is None:
        return None
    head = str(value).partition(".")[0] if type(value) in (int, str) else ""
    if not (head.isascii() and head.isdigit() and len(head) < 19):
        raise InvalidRequest("`project` is not Label Studio's `id.timestamp`; send the project's own")
    return int(head)


def _results(context: object) -> list[Json]:
    results = context.get("result") if isinstance(context, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _written(results: list[Json], name: str) -> str | None:
    """Return what was last written or chosen in a control; None if that cannot be read."""
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
    """Return the text last selected in the passage; None if it is not at that position."""
    for one in reversed(results):
        value = one.get("value")
        if one.get("from_name") == name and isinstance(value, dict):
            start, end, text = value.get("start"), value.get("end"), value.get("text")
            if type(start) is int and type(end) is int and 0 <= start < end:
                for found in (passage[start:end], _utf16_slice(passage, start, end)):
                    if found.strip() and text in (found, None):
                        return found
    return None


def _utf16_slice(passage: str, start: int, end: int) -> str:
    """Return the selection by UTF-16 offsets, in which browsers count: an emoji counts twice."""
    piece = passage.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end]
    return piece.decode("utf-16-le", "surrogatepass")


def _check_length(text: str, name: str, task: int | None) -> str:
    if len(text) > MAX_TEXT_CHARS:
        raise RequestTooLarge(
            f"`{name}` of task {task} has {len(text):,} characters; at most {MAX_TEXT_CHARS:,} are allowed"
        )
    return text
