"""The sections of task.yaml about people and money, and the types that all sections are made of."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from common.messages import LocalText

# Control characters except tab and line feed: pages do not show them, terminals obey them, PostgreSQL refuses NUL.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]")


def _without_controls(text: str) -> str:
    found = _CONTROL.search(text)
    if found:
        raise ValueError(f"contains the unreadable character U+{ord(found[0]):04X}; remove it")
    return text


def _in_languages(value: object, check: ValidatorFunctionWrapHandler) -> str:
    """Check a text, or a text in several languages: `{en: …, de: …}`."""
    if isinstance(value, LocalText):
        value = value.texts
    if not isinstance(value, Mapping) or not value:
        checked: str = check(value)
        return checked
    unknown = next((key for key in value if not isinstance(key, str) or not LANGUAGE.fullmatch(key)), None)
    if unknown is not None:
        raise ValueError(f"`{unknown}` is not a language code in quotes, such as 'en' or 'pt-BR'")
    return LocalText.of({language: check(text) for language, text in value.items()})


def _as_written(text: str) -> str | dict[str, str]:
    return dict(text.texts) if isinstance(text, LocalText) else text


LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_IN_LANGUAGES = (WrapValidator(_in_languages), PlainSerializer(_as_written))
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
Cents = Annotated[int, Field(ge=0, le=10_000_000, strict=True)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, AfterValidator(_without_controls), *_IN_LANGUAGES]
# The length comes first: after a validator of ours, pydantic reports it as the length of a list.
Line = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_without_controls)]
# A text that workers read, in one language or in several.
Sentence = Annotated[Line, *_IN_LANGUAGES]

SettingPath = tuple[str | int, ...]


class SettingConflict(ValueError):
    """Settings that contradict each other, with their paths below the section; the first is the one to change."""

    def __init__(self, text: str, *paths: SettingPath) -> None:
        super().__init__(text)
        self.paths = paths


class Section(BaseModel):
    """A frozen section of task.yaml that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Validation(Section):
    """How other people validate an example."""

    policy: Name = Field(description="`adaptive`, `anli`, `dynasent`, or a registered policy's name")
    first_votes: int = Field(2, ge=1, le=9, description="votes that every example gets, 1 to 9")
    max_votes: int = Field(5, ge=1, le=15, description="maximum votes on one example, from first_votes to 15")
    sample_non_fooling: Share = Field(0.1, description="share of non-fooling examples that are validated too, 0 to 1")
    gold_rate: Share = Field(0.1, description="share of validation items with a known answer, 0 to 1")
    gold_showings: int = Field(
        20, ge=1, le=10_000, description="workers who see a gold item before it is retired, 1 to 10000"
    )
    gold_withheld: Share = Field(
        0.05,
        description="share of a round's verified examples that can serve as gold and stay out of its archive, 0 to 1",
    )
    established_votes: int = Field(
        0, ge=0, le=3, description="votes of established validators that a gold label needs, 0 to 3; 0 for none"
    )
    established_after: int = Field(
        20, ge=1, le=10_000, description="votes in the task after which a validator can be established, 1 to 10000"
    )
    established_accuracy: Share = Field(
        0.8, description="share of gold items that an established validator has right, at least, 0 to 1"
    )
    span_f1: Share = Field(0.6, description="for QA: two answers agree if their F1 is at least this, 0 to 1")
    # Votes store a reason as it is written here.
    flag_reasons: tuple[Line, ...] = Field(
        ("The text makes no sense", "Personal or private information"),
        min_length=1,
        description="the reasons that a validator can flag an example for",
    )
    description: Text = Field(
        "", description="one or two sentences that say what validators do, for their project in Label Studio"
    )

    @model_validator(mode="after")
    def _votes_in_order(self) -> Self:
        if self.max_votes < self.first_votes:
            text = f"is {self.max_votes}, below first_votes {self.first_votes}; raise it, or lower first_votes"
            raise SettingConflict(text, ("max_votes",), ("first_votes",))
        return self

    @model_validator(mode="after")
    def _gold_establishes(self) -> Self:
        if self.established_votes > self.max_votes:
            text = f"is {self.established_votes}, above max_votes, which is {self.max_votes}"
            raise SettingConflict(text, ("established_votes",), ("max_votes",))
        if self.established_votes and not self.gold_rate:
            text = f"is {self.established_votes}, but gold_rate is 0, so nobody can be established; raise gold_rate"
            raise SettingConflict(text, ("established_votes",), ("gold_rate",))
        return self


class Duplicates(Section):
    """Which texts count as new; a duplicate earns no bonus and is in neither part of a frozen round."""

    near: float = Field(
        0.7,
        ge=0.5,
        le=1,
        description="the similarity from which a text is a duplicate, 0.5 to 1; at 1, only texts that are the same "
        "apart from case, punctuation and spacing are",
    )


class Pay(Section):
    """What people earn, in whole cents."""

    create_cents: Cents = Field(description="whole cents for one creation HIT")
    fooled_bonus_cents: Cents = Field(description="whole cents for each validated fooling example")
    validate_cents: Cents = Field(description="whole cents for one validation HIT")
    quiz_cents: Cents = Field(0, description="whole cents for the onboarding quiz, passed or not")
    minimum_hourly_cents: Cents = Field(description="the hourly wage, in whole cents, that pay is topped up to")
    top_up_cap_cents: Cents | None = Field(
        None,
        description="the most that one worker gets in top-ups in one round, in whole cents; none for four times "
        "minimum_hourly_cents",
    )
    top_up_review_cents: Cents | None = Field(
        None,
        description="if the top-ups of one round exceed this, in whole cents, they wait for the owner's approval; none "
        "for a tenth of budget.round_cents",
    )


class Budget(Section):
    """What may be spent, fees included, in whole cents."""

    round_cents: Cents = Field(description="whole cents that one round may cost, fees included")
    task_cents: Cents = Field(description="whole cents that the whole task may cost, at least round_cents")

    @model_validator(mode="after")
    def _task_covers_a_round(self) -> Self:
        if self.task_cents < self.round_cents:
            text = f"is {self.task_cents}, below round_cents {self.round_cents}; raise it, or lower round_cents"
            raise SettingConflict(text, ("task_cents",))
        return self


class Work(Section):
    """How work is divided into HITs."""

    tries: int = Field(10, ge=1, le=100, description="maximum attempts for one example, 1 to 100")
    tries_before_skip: int = Field(3, ge=0, le=100, description="attempts before a context may be skipped, 0 to tries")
    examples_per_hit: int = Field(1, ge=1, le=20, description="examples in one creation HIT, 1 to 20")
    validations_per_hit: int = Field(5, ge=1, le=50, description="examples in one validation HIT, 1 to 50")
    create_minutes: int = Field(20, ge=1, le=1_440, description="minutes a worker has for a creation HIT")
    validate_minutes: int = Field(15, ge=1, le=1_440, description="minutes a worker has for a validation HIT")
    quiz_minutes: int = Field(30, ge=1, le=1_440, description="minutes a worker has for the quiz")
    hits_at_once: int = Field(3, ge=1, le=100, description="HITs that one worker can have open at once, 1 to 100")
    empty_hits_per_day: int = Field(
        3,
        ge=0,
        le=100,
        description="validation HITs that one worker is paid for in a day although nothing was left to judge when the "
        "page opened, 0 to 100",
    )
    label_studio_minutes: int = Field(
        20,
        ge=0,
        le=1_440,
        description="minutes that annotators in Label Studio have to finish open work when a round ends",
    )
    repeat_context: bool = Field(False, description="true or false: whether a worker may see one context twice")
    content_warning: Text = Field("", description="shown with a consent button before anything else; empty for none")

    @model_validator(mode="after")
    def _skip_is_reachable(self) -> Self:
        if self.tries_before_skip > self.tries:
            text = f"is {self.tries_before_skip}, above tries {self.tries}; lower it, or raise tries"
            raise SettingConflict(text, ("tries_before_skip",), ("tries",))
        return self


class RoundPolicy(Section):
    """When a round ends, and how contexts are chosen and its data is split."""

    target_fooling: int = Field(200, ge=1, description="validated fooling examples that close the round")
    days: int = Field(14, ge=1, le=365, description="days after which the round closes, 1 to 365")
    context_strategy: Literal["uniform", "least_used", "least_fooled", "in_order"] = Field(
        "least_used", description="`uniform`, `least_used`, `least_fooled` or `in_order`"
    )
    held_out_share: Share = Field(0.2, description="share of a round that is never trained on, 0 to 1")
    split_by_worker: bool = Field(
        True,
        description="true or false: whether all examples of a worker are in one part, train or held-out, in all rounds",
    )
    guard_points: float = Field(
        2.0,
        ge=0,
        le=100,
        description="points a new model may lose on any held-out set; larger losses count if they are not chance",
    )


class QuizQuestion(Section):
    """One question about the instructions."""

    question: Sentence = Field(description="the question")
    choices: tuple[Sentence, ...] = Field(min_length=2, max_length=8, description="two to eight answers")
    answer: int = Field(ge=0, le=7, description="the right answer's position in choices, counted from 0")
    explain: Sentence = Field(description="one sentence shown after a wrong answer")

    @model_validator(mode="after")
    def _answer_exists(self) -> Self:
        if self.answer >= len(self.choices):
            text = f"is {self.answer} but there are {len(self.choices)} choices, counted from 0; fix it"
            raise SettingConflict(text, ("answer",))
        return self


class Quiz(Section):
    """The onboarding quiz, which grants the task's qualification."""

    pass_share: Share = Field(0.8, description="share of right answers that passes, 0 to 1")
    max_attempts: int = Field(2, ge=1, le=10, description="how many times a worker may take the quiz, 1 to 10")
    questions: tuple[QuizQuestion, ...] = Field(min_length=1, description="at least one question")
