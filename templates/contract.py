"""What the two templates must contain for a task; `templates/markup.py` documents the rules."""

import re
from collections.abc import Iterable, Iterator

from common.messages import in_language
from templates.label_config import OBJECT_TAGS, TAGS, Element
from templates.spec import TaskField, TaskSpec
from templates.texts import lookalike_key, lookalikes

# The line, the code and the text of each problem.
Found = Iterator[tuple[int, str, str]]

ANSWER_LABEL = "Answer"
TARGET_KEYS = ("target", "target_title")
# Of a task that returns a refused submission: the reason, and the text to start from.
SHOWN_OUTCOME = ("reason", "sentence")
# The editor's own pattern, in which a dot or bracket after a name belongs to the name.
_VARIABLE = re.compile(r"\$([\w[\].{}]+)")


def judged_fields(spec: TaskSpec) -> list[str]:
    """Return the fields that validators judge: what the model reads and what the author wrote."""
    return [field.name for field in spec.fields if field.role == "input" or field.name in spec.model_input]


def contract_problems(spec: TaskSpec, file: str, elements: list[Element], language: str) -> Found:
    """Yield what is missing, of the wrong kind or not allowed, with its line."""
    template = _Template(spec, elements, language)
    return template.create() if file.startswith("create.") else template.validate()


class _Template:
    def __init__(self, spec: TaskSpec, elements: list[Element], language: str) -> None:
        self._spec = spec
        self._language = language
        self._elements = elements
        self._last = elements[-1].line
        self._named = {element.name: element for element in elements if element.name}

    def create(self) -> Found:
        by_task = self._spec.target.set_by == "task"
        contexts = [field.name for field in self._spec.with_role("context")]
        own = {field.name for field in self._spec.fields}
        outcome = [key for key in SHOWN_OUTCOME if key not in own]
        yield from self._variables([*contexts, *(TARGET_KEYS if by_task else ()), *outcome])
        for field in self._spec.fields:
            yield from self._field(field)
        yield from self._control("feedback", "TextArea", required=False)
        feedback = self._named.get("feedback")
        if feedback is not None and feedback.attributes.get("smartOnly") == "true":
            yield feedback.line, "feedback_asks_model", "`feedback` must not ask the model; remove smartOnly"
        known = {"feedback"}
        if self._spec.kind == "classification":
            if not by_task:
                known.add("label")
                yield from self._control("label", "Choices", required=True)
                yield from self._choices("label", self._spec.label_names, "labels")
            elif "$target_title" not in " ".join(self._values()):
                fix = 'add <Header value="… $target_title"/>'
                yield self._elements[0].line, "target_not_shown", f"the target label is not shown; {fix}"
        yield from self._unknown_controls(known | own)

    def validate(self) -> Found:
        judged = judged_fields(self._spec)
        yield from self._variables(judged)
        for name in judged:
            yield from self._object(name)
        known = {"flag", "comment"}
        if self._spec.kind == "classification":
            known.add("label")
            yield from self._control("label", "Choices", required=True)
            yield from self._choices("label", self._spec.label_names, "labels")
            yield from self._titles()
            yield from self._label_is_hidden_by_flag()
        for field in self._spec.with_role("span"):
            known.add(field.name)
            yield from self._span(field)
        yield from self._control("flag", "Choices", required=False)
        yield from self._choices("flag", self._spec.validation.flag_reasons, "flag_reasons")
        flag = self._named.get("flag")
        if flag is not None and flag.attributes.get("choice", "single") != "single":
            yield flag.line, "flag_not_optional", '`flag` could not be unselected; write choice="single"'
        yield from self._control("comment", "TextArea", required=False)
        yield from self._unknown_controls(known)

    def _field(self, field: TaskField) -> Found:
        if field.role == "context":
            yield from self._object(field.name)
            return
        if field.role == "span":
            yield from self._span(field)
        elif field.choices:
            yield from self._control(field.name, "Choices", required=field.required)
            yield from self._choices(field.name, field.choices, f"choices of `{field.name}`")
        else:
            yield from self._control(field.name, "TextArea", required=field.required)
        if field.role in ("input", "span"):
            yield from self._attribute(field.name, "smartOnly", "true", "without it the model is not asked")
        if field.role == "input":
            yield from self._attribute(field.name, "maxSubmissions", "1", "the model judges one text at a time")

    def _object(self, name: str) -> Found:
        element = self._named.get(name)
        want = f'<Text name="{name}" value="${name}"/>'
        if element is None:
            yield self._last, "field_not_shown", f"field `{name}` is not shown; add {want}"
        elif element.tag not in OBJECT_TAGS:
            text = f"field `{name}` is shown to workers, who do not fill it in; write {want}"
            yield element.line, "field_not_object", text
        elif element.attributes.get("value") != f"${name}":
            yield element.line, "field_wrong_value", f'does not show the field `{name}`; write value="${name}"'

    def _control(self, name: str, tag: str, *, required: bool) -> Found:
        element = self._named.get(name)
        if element is None:
            objects = [other.name for other in self._elements if other.tag in OBJECT_TAGS]
            where = objects[0] if objects else "…"
            yield self._last, "control_missing", f'`{name}` is missing; add <{tag} name="{name}" toName="{where}" …>'
        elif element.tag != tag:
            yield element.line, "control_wrong_tag", f"`{name}` is a <{element.tag}>; make it a <{tag}>"
        elif "required" in TAGS[tag]:
            yield from _required(element, name, required=required)

    def _span(self, field: TaskField) -> Found:
        yield from self._control(field.name, "Labels", required=False)
        element = self._named.get(field.name)
        if element is None or element.tag != "Labels":
            return
        passage = self._spec.model_input[1]
        if element.attributes.get("toName") != passage:
            text = f'workers select the answer in `{passage}`; write toName="{passage}"'
            yield element.line, "span_wrong_passage", text
        labels = [child for child in self._elements if child.tag == "Label" and child.inside("Labels") is element]
        stored = [label.stored_value for label in labels]
        if stored != [ANSWER_LABEL]:
            text = f'`{field.name}` needs one label; write <Label value="{ANSWER_LABEL}"/>'
            yield element.line, "span_wrong_label", text

    def _choices(self, name: str, wanted: Iterable[str], source: str) -> Found:
        element = self._named.get(name)
        if element is None or element.tag != "Choices":
            return
        choices = [child for child in self._elements if child.tag == "Choice" and child.inside("Choices") is element]
        stored = [choice.stored_value for choice in choices]
        expected = list(wanted)
        for choice in choices:
            near = [value for value in expected if lookalike_key(value) == lookalike_key(choice.stored_value)]
            if near and choice.stored_value not in near:
                text = f"choice `{choice.stored_value}` of `{name}` looks like `{near[0]}` in task.yaml but differs"
                yield choice.line, "choice_lookalike", f"{text} (case, spaces or Unicode form); copy it from there"
            elif choice.stored_value not in expected:
                text = f"choice `{choice.stored_value}` of `{name}` is not one of the {source} in task.yaml"
                yield choice.line, "choice_unknown", f"{text}: {', '.join(expected)}"
            elif stored.count(choice.stored_value) > 1:
                text = f"choice `{choice.stored_value}` of `{name}` is listed twice; remove one"
                yield choice.line, "choice_duplicate", text
        yield from _same_looks(name, choices)
        for value in expected:
            if value not in stored:
                fix = f'add <Choice alias="{value}" value="…"/>, or remove the others: the list then comes from there'
                text = f"`{name}` has no `{value}` of task.yaml; {fix}"
                yield element.line, "choice_missing", text

    def _titles(self) -> Found:
        titles = {label.name: in_language(label.title, self._language) for label in self._spec.labels}
        label = self._named.get("label")
        for choice in self._elements:
            name = choice.attributes.get("alias", "")
            title, value = titles.get(name), choice.attributes.get("value")
            if label is not None and choice.inside("Choices") is label and title not in (None, value):
                text = f"choice `{name}` of `label` has the value `{value}`"
                yield choice.line, "choice_wrong_title", f'{text}; write the title from task.yaml, value="{title}"'

    def _label_is_hidden_by_flag(self) -> Found:
        label = self._named.get("label")
        around = label
        while around is not None:
            when, tag = around.attributes.get("visibleWhen"), around.attributes.get("whenTagName")
            if (when, tag) == ("choice-unselected", "flag"):
                return
            around = around.parent
        if label is not None:
            fix = 'add visibleWhen="choice-unselected" whenTagName="flag"'
            yield label.line, "label_not_hidden", f"an example cannot be flagged while `label` is required; {fix}"

    def _attribute(self, name: str, attribute: str, value: str, why: str) -> Found:
        element = self._named.get(name)
        if element is not None and element.attributes.get(attribute) != value:
            yield element.line, "attribute_missing", f'`{name}` needs {attribute}="{value}": {why}'

    def _variables(self, known: list[str]) -> Found:
        for element in self._elements:
            for name in _VARIABLE.findall(element.attributes.get("value", "")):
                if name in known:
                    continue
                if name.rstrip(".") in known:
                    fix = f"put a space after ${name.rstrip('.')}, or remove the dot"
                    yield element.line, "variable_with_dot", f"`${name}` includes the dot and shows nothing; {fix}"
                else:
                    shown = ", ".join(f"${other}" for other in known)
                    yield element.line, "variable_unknown", f"`${name}` is not available here; available: {shown}"

    def _unknown_controls(self, known: set[str]) -> Found:
        for element in self._elements:
            if element.name and "toName" in TAGS[element.tag] and element.tag != "Filter" and element.name not in known:
                fix = "add it to the fields of task.yaml, or remove it"
                yield element.line, "control_unknown", f"`{element.name}` would be filled in but never read; {fix}"

    def _values(self) -> list[str]:
        return [element.attributes.get("value", "") for element in self._elements]


def _same_looks(name: str, choices: list[Element]) -> Found:
    texts = [re.sub(r"<[^>]*>", " ", one.attributes.get("html") or one.attributes.get("value", "")) for one in choices]
    for place, first in lookalikes(texts):
        # A choice that is listed twice is reported as that.
        if choices[place].stored_value != choices[first].stored_value:
            text = f"the text of choice `{choices[place].stored_value}` of `{name}` looks like that of"
            text = f"{text} `{choices[first].stored_value}`; word them differently"
            yield choices[place].line, "choice_lookalike", text


def _required(element: Element, name: str, *, required: bool) -> Found:
    is_required = element.attributes.get("required") == "true"
    if required and not is_required:
        yield element.line, "required_missing", f'`{name}` must be filled in; add required="true" requiredMessage="…"'
    elif required and not element.attributes.get("requiredMessage"):
        yield element.line, "required_message_missing", f"`{name}` has no requiredMessage; add one that says what to do"
    elif is_required and not required:
        yield element.line, "required_not_allowed", f'`{name}` is optional; remove required="true"'
