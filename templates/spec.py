"""What a task is: the frozen, typed form of a pack's `task.yaml`.

Every field's description is also its documentation (docs/task-yaml.md is made from it) and the cure that an
error message offers, so each one tells what to write.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Cents = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Sentence = Annotated[str, Field(min_length=1, max_length=2_000)]

# Keys that rows and Label Studio tasks carry beside the pack's own fields.
RESERVED_FIELDS = frozenset(
    {"id", "label", "answer", "answer_start", "split", "target", "target_title", "feedback", "flag", "comment"}
)
# What every verdict sentence of a pack may be built from.
MESSAGE_SLOTS = frozenset({"prediction", "confidence", "target"})


class Part(BaseModel):
    """A frozen section of task.yaml that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Label(Part):
    """One class of a classification task."""

    name: Name = Field(description="a short lower-case name, as seed rows write it, for example `positive`")
    title: Sentence = Field(description="the label as people read it, for example `Positive`")
    hint: str = Field("", description="one sentence that tells a worker when the label is right")


class TaskField(Part):
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


class Target(Part):
    """Who says what the right answer is."""

    set_by: Literal["task", "annotator"] = Field(
        description="`task` (each task names the label to write for) or `annotator` (the worker chooses)"
    )


class FooledRule(Part):
    """When the model counts as fooled."""

    rule: Name = Field(description="`label_differs` for classification, `squad_f1` for QA, or a registered rule's name")
    below: Share = Field(0.4, description="for squad_f1: fooled when the F1 is below this share, from 0 to 1")
    ensemble: Literal["any", "all", "majority"] = Field(
        "any", description="with several models: fooled when `any`, `all` or a `majority` of them is"
    )


class Validation(Part):
    """How other people check an example."""

    policy: Name = Field(description="`adaptive`, `anli` or `dynasent`")
    first_votes: int = Field(2, ge=1, le=9, description="votes that every example gets, 1 to 9")
    max_votes: int = Field(5, ge=1, le=15, description="most votes on one example, from first_votes to 15")
    sample_non_fooling: Share = Field(0.1, description="share of non-fooling examples that are validated too, 0 to 1")
    gold_rate: Share = Field(0.1, description="share of validation items with a known answer, 0 to 1")
    span_f1: Share = Field(0.6, description="for QA: two answers agree when their F1 is at least this, 0 to 1")
    flag_reasons: tuple[Sentence, ...] = Field(
        ("The text makes no sense", "Personal or private information"),
        min_length=1,
        description="the reasons that a validator can flag an example for",
    )

    @model_validator(mode="after")
    def _votes_in_order(self) -> Self:
        if self.max_votes < self.first_votes:
            raise ValueError(f"max_votes is {self.max_votes}, below first_votes {self.first_votes}; raise max_votes")
        return self


class Pay(Part):
    """What people earn, in whole cents."""

    create_cents: Cents = Field(description="whole cents for one creation HIT")
    fooled_bonus_cents: Cents = Field(description="whole cents for each validated fooling example")
    validate_cents: Cents = Field(description="whole cents for one validation HIT")
    quiz_cents: Cents = Field(0, description="whole cents for the onboarding quiz, passed or not")
    minimum_hourly_cents: Cents = Field(description="the hourly wage, in whole cents, that pay is topped up to")


class Budget(Part):
    """What may be spent, fees included, in whole cents."""

    round_cents: Cents = Field(description="whole cents that one round may cost, fees included")
    task_cents: Cents = Field(description="whole cents that the whole task may cost, at least round_cents")

    @model_validator(mode="after")
    def _task_covers_a_round(self) -> Self:
        if self.task_cents < self.round_cents:
            raise ValueError(
                f"task_cents is {self.task_cents}, below round_cents {self.round_cents}; raise task_cents"
            )
        return self


class Work(Part):
    """How one HIT is cut."""

    tries: int = Field(10, ge=1, le=100, description="most verdicts for one example, 1 to 100")
    tries_before_skip: int = Field(3, ge=0, le=100, description="tries before a context may be given up, 0 to tries")
    examples_per_hit: int = Field(1, ge=1, le=20, description="examples in one creation HIT, 1 to 20")
    validations_per_hit: int = Field(5, ge=1, le=50, description="examples in one validation HIT, 1 to 50")
    create_minutes: int = Field(20, ge=1, le=1_440, description="minutes a worker has for a creation HIT")
    validate_minutes: int = Field(15, ge=1, le=1_440, description="minutes a worker has for a validation HIT")
    repeat_context: bool = Field(False, description="true or false: whether a worker may see one context twice")
    content_warning: str = Field("", description="shown with a consent button before anything else; empty for none")

    @model_validator(mode="after")
    def _skip_is_reachable(self) -> Self:
        if self.tries_before_skip > self.tries:
            raise ValueError(
                f"tries_before_skip is {self.tries_before_skip}, above tries {self.tries}; lower tries_before_skip"
            )
        return self


class RoundPolicy(Part):
    """When a round ends, and how its data is handed out and split."""

    target_fooling: int = Field(200, ge=1, description="validated fooling examples that close the round")
    days: int = Field(14, ge=1, le=365, description="days after which the round closes, 1 to 365")
    context_strategy: Literal["uniform", "least_used", "least_fooled", "in_order"] = Field(
        "least_used", description="`uniform`, `least_used`, `least_fooled` or `in_order`"
    )
    held_out_share: Share = Field(0.2, description="share of a round that is never trained on, 0 to 1")
    split_by_worker: bool = Field(True, description="true: no worker's examples are in both train and held-out parts")
    guard_points: float = Field(2.0, ge=0, le=100, description="points a new model may lose on any earlier round")


class QuizQuestion(Part):
    """One question about the instructions."""

    question: Sentence = Field(description="the question")
    choices: tuple[Sentence, ...] = Field(min_length=2, max_length=8, description="two to eight answers")
    answer: int = Field(ge=0, le=7, description="the right answer's place in choices, counted from 0")
    explain: Sentence = Field(description="one sentence shown after a wrong answer")

    @model_validator(mode="after")
    def _answer_exists(self) -> Self:
        if self.answer >= len(self.choices):
            raise ValueError(f"answer is {self.answer} but there are {len(self.choices)} choices, counted from 0")
        return self


class Quiz(Part):
    """The onboarding quiz that grants the task's qualification."""

    pass_share: Share = Field(0.8, description="share of right answers that passes, 0 to 1")
    max_attempts: int = Field(2, ge=1, le=10, description="how often a worker may try, 1 to 10")
    questions: tuple[QuizQuestion, ...] = Field(min_length=1, description="at least one question")


class ModelSettings(Part):
    """The model in the loop."""

    base: Annotated[str, Field(min_length=1)] = Field(
        "embedded", description="`embedded`, a directory (relative to the pack, or absolute) or a hub id"
    )
    max_length: int = Field(64, ge=8, le=512, description="longest input in tokens, 8 to 512")
    doc_stride: int = Field(64, ge=1, le=256, description="for QA: overlap in tokens of windows over a long passage")


class TrainingSettings(Part):
    """How the model is trained."""

    mode: Literal["full", "head"] = Field("full", description="`full` (fine-tune all) or `head` (seconds, weaker)")
    epochs: int = Field(4, ge=1, le=100, description="most passes over the data, 1 to 100")
    learning_rate: float = Field(2e-4, gt=0, lt=1, description="the peak learning rate, for example 0.0002")
    batch_size: int = Field(32, ge=1, le=512, description="rows per step, 1 to 512")
    patience: int = Field(2, ge=1, le=100, description="epochs without progress on the held-out part before stopping")
    class_weights: bool = Field(True, description="true: rare labels count more, so that all count the same")
    seed: int = Field(13, ge=0, le=2**31 - 1, description="the random seed; the same seed gives the same model")


class Messages(Part):
    """What an annotator reads after a try, in the task's language.

    `{prediction}`, `{confidence}` and `{target}` are filled in.
    """

    fooled: Sentence = Field(description="the sentence when the model was fooled")
    not_fooled: Sentence = Field(description="the sentence when it was not")
    answered: Sentence = Field(description="the sentence when the model answered but the target is not known yet")

    @model_validator(mode="after")
    def _slots_are_known(self) -> Self:
        for name, text in (("fooled", self.fooled), ("not_fooled", self.not_fooled), ("answered", self.answered)):
            try:
                text.format_map(dict.fromkeys(MESSAGE_SLOTS, ""))
            except (KeyError, ValueError, IndexError, AttributeError) as error:
                raise ValueError(
                    f"{name} has a bad placeholder ({error}); use only {{prediction}}, {{confidence}}, {{target}}"
                ) from error
        return self


class TaskSpec(Part):
    """One task, whole: everything in task.yaml, checked."""

    name: Name = Field(description="the task's short name, equal to the folder's name")
    title: Sentence = Field(description="the task's title as workers read it")
    description: Sentence = Field(description="one or two sentences that say what workers do")
    languages: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")], ...] = Field(
        min_length=1, description="language codes of the texts, for example [en]"
    )
    kind: Literal["classification", "qa"] = Field(description="`classification` (one or two texts) or `qa`")
    labels: tuple[Label, ...] = Field((), description="at least two labels for classification, none for qa")
    fields: tuple[TaskField, ...] = Field(min_length=1, description="everything that a worker sees or fills in")
    model_input: tuple[Name, ...] = Field(
        min_length=1, max_length=2, description="the one or two fields that the model reads; for qa [question, passage]"
    )
    target: Target = Field(description="who sets the right answer: `set_by: task` or `set_by: annotator`")
    fooled: FooledRule = Field(description="when the model counts as fooled")
    validation: Validation = Field(description="how examples are checked by other people")
    pay: Pay = Field(description="what people earn")
    budget: Budget = Field(description="what may be spent")
    work: Work = Field(description="how HITs are cut")
    rounds: RoundPolicy = Field(description="when rounds close and how their data is split")
    quiz: Quiz | None = Field(None, description="the onboarding quiz; leave it out for none")
    model: ModelSettings = Field(description="the model in the loop")
    training: TrainingSettings = Field(description="how it is trained")
    messages: Messages = Field(description="what annotators read after a try")

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels in the order that models use for their outputs."""
        return tuple(label.name for label in self.labels)

    def with_role(self, role: str) -> tuple[TaskField, ...]:
        """The fields of one role, in the pack's order."""
        return tuple(field for field in self.fields if field.role == role)

    def label_title(self, name: str) -> str:
        """How people read a label."""
        return next(label.title for label in self.labels if label.name == name)

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        _no_repeats("label", [label.name for label in self.labels])
        names = [field.name for field in self.fields]
        _no_repeats("field", names)
        # Seed rows hold the span under `answer`, so that name is the span field's and nobody else's.
        taken = RESERVED_FIELDS.intersection(field.name for field in self.fields if field.role != "span")
        if taken:
            raise ValueError(f"field name `{min(taken)}` is used by the program; choose another")
        for name in self.model_input:
            if name not in names:
                raise ValueError(f"model_input names `{name}`, which is not among the fields; add it or correct it")
        if self.kind == "qa":
            self._check_qa()
        else:
            self._check_classification()
        if not any(field.role == "input" and field.name in self.model_input for field in self.fields):
            raise ValueError("model_input has no field of role `input`: workers could not change what the model reads")
        return self

    def _check_classification(self) -> None:
        if len(self.labels) < 2:
            raise ValueError(f"a classification task needs at least two labels, this has {len(self.labels)}")
        if self.with_role("span"):
            raise ValueError("a field of role `span` belongs to a task of kind qa")
        if self.fooled.rule == "squad_f1":
            raise ValueError("fooled rule squad_f1 is for kind qa; use label_differs")

    def _check_qa(self) -> None:
        if self.labels:
            raise ValueError("a qa task has no labels; remove them or set kind: classification")
        if len(self.with_role("span")) != 1:
            raise ValueError("a qa task needs exactly one field of role `span` for the answer")
        roles = [field.role for name in self.model_input for field in self.fields if field.name == name]
        if roles != ["input", "context"]:
            raise ValueError("for qa, model_input is the question (role input), then the passage (role context)")
        if self.target.set_by != "annotator":
            raise ValueError("in a qa task the worker selects the answer; write `set_by: annotator` under target")
        if self.fooled.rule == "label_differs":
            raise ValueError("fooled rule label_differs is for classification; use squad_f1")


def _no_repeats(what: str, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{what} `{repeated[0]}` is listed twice; remove or rename one")
