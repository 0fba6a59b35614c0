"""What the owner decides about people and money: validation, pay, budget, work, rounds and the quiz."""

from typing import Literal, Self

from pydantic import Field, model_validator

from templates.part import Cents, Misfit, Name, Part, Sentence, Share, Text


class Validation(Part):
    """How other people check an example."""

    policy: Name = Field(description="`adaptive`, `anli`, `dynasent`, or a registered policy's name")
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
            text = f"is {self.max_votes}, below first_votes {self.first_votes}; raise it, or lower first_votes"
            raise Misfit(text, ("max_votes",), ("first_votes",))
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
            text = f"is {self.task_cents}, below round_cents {self.round_cents}; raise it, or lower round_cents"
            raise Misfit(text, ("task_cents",))
        return self


class Work(Part):
    """How one HIT is cut."""

    tries: int = Field(10, ge=1, le=100, description="most verdicts for one example, 1 to 100")
    tries_before_skip: int = Field(3, ge=0, le=100, description="tries before a context may be given up, 0 to tries")
    examples_per_hit: int = Field(1, ge=1, le=20, description="examples in one creation HIT, 1 to 20")
    validations_per_hit: int = Field(5, ge=1, le=50, description="examples in one validation HIT, 1 to 50")
    create_minutes: int = Field(20, ge=1, le=1_440, description="minutes a worker has for a creation HIT")
    validate_minutes: int = Field(15, ge=1, le=1_440, description="minutes a worker has for a validation HIT")
    label_studio_minutes: int = Field(
        20,
        ge=0,
        le=1_440,
        description="minutes that people in Label Studio have for what they began, when a round ends",
    )
    repeat_context: bool = Field(False, description="true or false: whether a worker may see one context twice")
    content_warning: Text = Field("", description="shown with a consent button before anything else; empty for none")

    @model_validator(mode="after")
    def _skip_is_reachable(self) -> Self:
        if self.tries_before_skip > self.tries:
            text = f"is {self.tries_before_skip}, above tries {self.tries}; lower it, or raise tries"
            raise Misfit(text, ("tries_before_skip",), ("tries",))
        return self


class RoundPolicy(Part):
    """When a round ends, and how its data is handed out and split."""

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
            text = f"is {self.answer} but there are {len(self.choices)} choices, counted from 0; correct it"
            raise Misfit(text, ("answer",))
        return self


class Quiz(Part):
    """The onboarding quiz that grants the task's qualification."""

    pass_share: Share = Field(0.8, description="share of right answers that passes, 0 to 1")
    max_attempts: int = Field(2, ge=1, le=10, description="how often a worker may try, 1 to 10")
    questions: tuple[QuizQuestion, ...] = Field(min_length=1, description="at least one question")
