"""A task's specification: the frozen, typed form of a pack's `task.yaml`.

Every field's description is also its documentation (docs/task-yaml.md is generated from it) and the suggestion in error
messages, so each one says what to write.
"""

from collections.abc import Iterator
from string import Formatter
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from common.messages import LocalText, versions
from templates.sections import (
    Budget,
    Duplicates,
    Line,
    Name,
    Pay,
    Quiz,
    RoundPolicy,
    Section,
    Sentence,
    SettingConflict,
    SettingPath,
    Share,
    Text,
    Validation,
    Work,
)

# Keys that rows and Label Studio tasks have besides the pack's own fields.
RESERVED_FIELDS = frozenset(
    {"id", "label", "answer", "answer_start", "split", "target", "target_title", "feedback", "flag", "comment"}
)
# The columns that every archive has. A task's field with such a name is written as `field_…`.
COLUMNS = frozenset(
    {
        "id", "round", "context", "author", "status", "split", "label", "answer", "answer_start", "gold_label",
        "gold_answer", "gold_answer_start", "model", "prediction", "confidence", "fooled", "verdicts", "judged_at",
        "votes", "tries", "active_ms", "source", "submitted_at", "decided_at", "example", "worker", "flag",
        "comment", "voted_at", "number", "latency_us", "asked_at",
    }
)  # fmt: skip
# Without a cap on top-ups: this many hours at the minimum for one worker, and this part of a round's budget unapproved.
CAP_HOURS = 4
REVIEWED_PART = 10
# The placeholders in a pack's messages.
MESSAGE_SLOTS = frozenset({"prediction", "confidence", "target"})
LENGTH_SLOTS = frozenset({"title", "length", "most"})
ATTEMPT_SLOTS = frozenset({"number", "most"})


class Label(Section):
    """One class of a classification task."""

    name: Name = Field(description="a short lower-case name, as seed rows write it, for example `positive`")
    title: Sentence = Field(description="the label as people read it, for example `Positive`")
    hint: Text = Field("", description="one sentence that says when the label is right")


class TaskField(Section):
    """One thing that a worker sees or fills in; its name is the control's name in the templates."""

    name: Name = Field(description="a short lower-case name; the templates' controls and the data use it")
    title: Sentence = Field(description="the field as people read it")
    role: Literal["context", "input", "span", "reason", "extra"] = Field(
        description="one of: context (shown), input (written, read by the model), span (the answer selected in the "
        "context, QA only), reason (why the label is right or the model wrong), extra (anything else to record)"
    )
    required: bool = Field(True, description="true or false: whether a worker has to fill it in")
    choices: tuple[Name, ...] = Field((), description="the allowed values, for an extra field with a fixed list")
    max_chars: int = Field(2_000, ge=1, le=20_000, description="the longest text that is accepted, 1 to 20000")


class TargetLabel(Section):
    """Who sets the right answer."""

    set_by: Literal["task", "annotator"] = Field(
        description="`task` (each task names the label to write for) or `annotator` (the worker chooses)"
    )


class FooledRule(Section):
    """When the model counts as fooled."""

    rule: Name = Field(description="`label_differs` for classification, `squad_f1` for QA, or a registered rule's name")
    below: Share = Field(0.4, description="for squad_f1: fooled when the F1 is below this share, from 0 to 1")
    ensemble: Literal["any", "all", "majority"] = Field(
        "any", description="`any`, `all` or `majority`: with several models, how many of them have to be fooled"
    )


class ModelSettings(Section):
    """The model in the loop."""

    base: Line = Field(
        "embedded", description="`embedded`, a directory (relative to the pack, or absolute) or a hub id"
    )
    max_length: int = Field(64, ge=8, le=512, description="longest input in tokens, 8 to 512")
    doc_stride: int = Field(64, ge=1, le=256, description="for QA: overlap in tokens of windows over a long passage")


DEFAULT_THREADS = 2


class TrainingSettings(Section):
    """How the model is trained."""

    mode: Literal["full", "head"] = Field("full", description="`full` (fine-tune all) or `head` (seconds, weaker)")
    epochs: int = Field(4, ge=1, le=100, description="most passes over the data, 1 to 100")
    learning_rate: float = Field(2e-4, gt=0, lt=1, description="the peak learning rate, for example 0.0002")
    batch_size: int = Field(32, ge=1, le=512, description="rows per step, 1 to 512")
    patience: int = Field(2, ge=1, le=100, description="epochs without progress on the held-out part before stopping")
    class_weights: bool = Field(
        True, description="true or false: whether rare labels count more, so that all count the same"
    )
    seed: int = Field(13, ge=0, le=2**31 - 1, description="the random seed; the same seed gives the same model")
    # Left out where it is the default: the hashes of tasks and versions that are older than the setting stay the same.
    threads: int = Field(
        DEFAULT_THREADS,
        ge=1,
        le=256,
        exclude_if=lambda threads: threads == DEFAULT_THREADS,
        description="processor threads of a training, 1 to 256; another number rounds differently and makes another "
        "version, so it does not follow the machine",
    )


class TextChecks(Section):
    """What annotators are advised about before a verdict. The checks can be wrong, so nothing is refused."""

    words: bool = Field(True, description="true or false: whether a text without words is pointed out")
    language: bool = Field(
        True, description="true or false: whether a text that seems to be in none of the `languages` is pointed out"
    )


class Messages(Section):
    """What an annotator reads after an attempt, in the task's language.

    The placeholders are `{prediction}`, `{confidence}`, `{target}`; in `too_long` `{title}`, `{length}`, `{most}`; in
    `attempt` `{number}`, `{most}`.
    """

    fooled: Sentence = Field(description="the sentence if the model was fooled")
    not_fooled: Sentence = Field(description="the sentence if it was not")
    answered: Sentence = Field(description="the sentence if the model answered but the target is not known yet")
    too_long: Sentence = Field(
        "Too long: {title} has {length} characters, and at most {most} are accepted. Shorten it, then try again.",
        description="the sentence instead of a verdict if a text is longer than its field's `max_chars`",
    )
    attempt: Sentence = Field(
        "attempt {number} of {most}", description="the attempt's number, as Label Studio shows it after a verdict"
    )
    emptied: Sentence = Field(
        "There is no text any more, so there is nothing to submit. Write one, then ask the model.",
        description="the sentence instead of a verdict if a text was deleted",
    )
    no_words: Sentence = Field(
        "Please check your text: it has no words.", description="the advice if a text has no words"
    )
    other_language: Sentence = Field(
        "Please check your text: it seems to be in another language than this task's.",
        description="the advice if a text seems to be in another language",
    )

    @model_validator(mode="after")
    def _slots_are_known(self) -> Self:
        slots_of: dict[str, frozenset[str]] = {
            **dict.fromkeys(("fooled", "not_fooled", "answered"), MESSAGE_SLOTS),
            "too_long": LENGTH_SLOTS,
            "attempt": ATTEMPT_SLOTS,
        }
        written = [(name, one) for name in type(self).model_fields for one in versions(getattr(self, name))]
        for name, text in written:
            allowed = slots_of.get(name, frozenset())
            try:
                slots = [(slot, spec, how) for _, slot, spec, how in Formatter().parse(text) if slot is not None]
            except ValueError as error:
                fix = "write {{ and }} for braces that people should see"
                raise SettingConflict(f"has an unmatched brace; {fix}", (name,)) from error
            # Plain names only: {prediction.__class__} would expose the program's objects.
            for slot, spec, how in slots:
                if slot not in allowed or spec or how:
                    known = ", ".join(f"{{{slot}}}" for slot in sorted(allowed)) or "none"
                    raise SettingConflict(f"has an unknown placeholder {{{slot}}}; use only {known}", (name,))
        return self


class TaskSpec(Section):
    """One task: everything in task.yaml, checked."""

    name: Name = Field(description="the task's short name, equal to the folder's name")
    version: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,29}$")] = Field(
        "1", description="the pack's version in quotes, for example `'1.2'`; raise it with every change that you share"
    )
    author: Annotated[Text, Field(max_length=200)] = Field("", description="who wrote the pack")
    licence: Annotated[Text, Field(max_length=100)] = Field(
        "", description="the licence under which others may use the pack, for example `Apache-2.0`"
    )
    data_licence: Annotated[Text, Field(max_length=100)] = Field(
        "",
        description="the licence under which others may use what is collected, for example `CC-BY-4.0`; archives and "
        "the data cards of exports state it",
    )
    title: Sentence = Field(description="the task's title as workers read it")
    description: Sentence = Field(description="one or two sentences that say what workers do")
    languages: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")], ...] = Field(
        min_length=1,
        description="language codes of the texts, the main one first, for example [en]; with several, a text can be "
        "written in each, for example `{en: Positive, de: Positiv}`",
    )
    kind: Literal["classification", "qa"] = Field(description="`classification` (one or two texts) or `qa`")
    labels: tuple[Label, ...] = Field((), description="at least two labels for classification, none for qa")
    fields: tuple[TaskField, ...] = Field(min_length=1, description="everything that a worker sees or fills in")
    model_input: tuple[Name, ...] = Field(
        min_length=1, max_length=2, description="the one or two fields that the model reads; for qa [question, passage]"
    )
    target: TargetLabel = Field(description="who sets the right answer: `set_by: task` or `set_by: annotator`")
    fooled: FooledRule = Field(description="when the model counts as fooled")
    validation: Validation = Field(description="how other people validate examples")
    duplicates: Duplicates = Field(Duplicates(), description="which texts count as new")
    pay: Pay = Field(description="what people earn")
    budget: Budget = Field(description="what may be spent")
    work: Work = Field(description="how work is divided into HITs")
    rounds: RoundPolicy = Field(description="when rounds close and how their data is split")
    quiz: Quiz | None = Field(None, description="the onboarding quiz; omit it for none")
    model: ModelSettings = Field(description="the model in the loop")
    training: TrainingSettings = Field(description="how it is trained")
    messages: Messages = Field(description="what annotators read after an attempt")
    text_checks: TextChecks = Field(TextChecks(), description="what annotators are advised about before a verdict")

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in the order of the models' outputs."""
        return tuple(label.name for label in self.labels)

    @property
    def top_up_cap_cents(self) -> int:
        """The most that one worker gets in top-ups in one round."""
        cap = self.pay.top_up_cap_cents
        return CAP_HOURS * self.pay.minimum_hourly_cents if cap is None else cap

    @property
    def top_up_review_cents(self) -> int:
        """What the top-ups of one round may amount to without the owner's approval."""
        limit = self.pay.top_up_review_cents
        return self.budget.round_cents // REVIEWED_PART if limit is None else limit

    def with_role(self, role: str) -> tuple[TaskField, ...]:
        """Return the fields of one role, in the pack's order."""
        return tuple(field for field in self.fields if field.role == role)

    def label_title(self, name: str) -> str:
        """Return a label's title."""
        return next(label.title for label in self.labels if label.name == name)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        names = [field.name for field in self.fields]
        _no_repeats("labels", list(self.label_names))
        _no_repeats("fields", names)
        self._check_languages()
        for place, field in enumerate(self.fields):
            # Seed rows have the span under `answer`, so only the span field may have that name.
            if field.name in RESERVED_FIELDS and field.role != "span":
                raise SettingConflict(f"`{field.name}` is reserved; choose another name", ("fields", place, "name"))
        for place, name in enumerate(self.model_input):
            if name not in names:
                raise SettingConflict(f"`{name}` is not one of the fields; fix the name", ("model_input", place))
        if self.kind == "qa":
            self._check_qa()
        else:
            self._check_classification()
        if not any(field.role == "input" and field.name in self.model_input for field in self.fields):
            text = "has no field of role `input`, so workers cannot change what the model reads; add one"
            raise SettingConflict(text, ("model_input",))
        return self

    def _check_languages(self) -> None:
        for path, text in _local_texts(self, ()):
            other = next((one for one in text.texts if one not in self.languages), None)
            if other is not None:
                raise SettingConflict(
                    f"has a text in `{other}`, which is not one of the languages", path, ("languages",)
                )
            if self.languages[0] != next(iter(text.texts)):
                fix = f"write the text in `{self.languages[0]}` first, which is the first of the languages"
                raise SettingConflict(f"has no text in `{self.languages[0]}` at its start; {fix}", path)

    def _check_classification(self) -> None:
        if len(self.labels) < 2:
            text = f"a classification task needs at least two labels and has {len(self.labels)}; add some"
            raise SettingConflict(text, ("labels",), ("kind",))
        for path in self._paths_with_role("span"):
            raise SettingConflict("`span` is for tasks of kind qa; use another role", path)
        if self.fooled.rule == "squad_f1":
            raise SettingConflict("squad_f1 is for kind qa; use label_differs", ("fooled", "rule"))

    def _check_qa(self) -> None:
        if self.labels:
            raise SettingConflict("a qa task has no labels; remove them or set kind: classification", ("labels",))
        spans = self._paths_with_role("span")
        if len(spans) != 1:
            text = f"a qa task needs exactly one field of role `span` for the answer and has {len(spans)}"
            raise SettingConflict(text, spans[1] if spans else ("fields",))
        roles = [field.role for name in self.model_input for field in self.fields if field.name == name]
        if roles != ["input", "context"]:
            text = "for qa, list the question (a field of role input), then the passage (role context)"
            raise SettingConflict(text, ("model_input",))
        if self.target.set_by != "annotator":
            text = "in a qa task the worker selects the answer; write `set_by: annotator`"
            raise SettingConflict(text, ("target", "set_by"))
        if self.fooled.rule == "label_differs":
            raise SettingConflict("label_differs is for classification; use squad_f1", ("fooled", "rule"))

    def _paths_with_role(self, role: str) -> list[SettingPath]:
        return [("fields", place, "role") for place, field in enumerate(self.fields) if field.role == role]


def _local_texts(value: object, path: SettingPath) -> Iterator[tuple[SettingPath, LocalText]]:
    """Yield every text that is written in several languages, with the path of its setting."""
    if isinstance(value, LocalText):
        yield path, value
    elif isinstance(value, Section):
        for name in type(value).model_fields:
            yield from _local_texts(getattr(value, name), (*path, name))
    elif isinstance(value, tuple):
        for place, one in enumerate(value):
            yield from _local_texts(one, (*path, place))


def _no_repeats(section: str, names: list[str]) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise SettingConflict(f"`{name}` is listed twice; remove or rename one", (section, place, "name"))
