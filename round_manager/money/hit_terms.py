"""What a task's HITs show to workers: title, description, pay, time, and who can accept them."""

from dataclasses import dataclass

from crowd.port import Comparator, Crowd, HitTerms, Requirement, Restriction
from crowd.profile import CrowdLimits
from round_manager.models import EntryKind, HitKind
from round_manager.money.ledger import PossiblePayment
from templates import TaskSpec

MINUTE = 60
# Workers are paid after this time at the latest, even if we stop reviewing.
AUTO_APPROVE_SECONDS = 3 * 24 * 60 * MINUTE
QUIZ_MINUTES = 30
KEYWORDS = {
    HitKind.CREATE: ("writing", "language model", "bonus"),
    HitKind.VALIDATE: ("checking", "judgement", "language"),
    HitKind.QUIZ: ("quiz", "qualification"),
}
LEADS = {HitKind.CREATE: "", HitKind.VALIDATE: "Check: ", HitKind.QUIZ: "Paid quiz: "}
# How owners see a kind: "3 HITs to validate".
WORDS = {HitKind.CREATE: "to create", HitKind.VALIDATE: "to validate", HitKind.QUIZ: "for the quiz"}


@dataclass(frozen=True)
class HitShape:
    """One HIT of a kind: its reward, its minutes, and how many bonuses it can lead to."""

    reward_cents: int
    minutes: int
    bonuses: int


def shape_of(spec: TaskSpec, kind: HitKind) -> HitShape:
    """Return the shape of the task's HITs of a kind."""
    if kind is HitKind.CREATE:
        bonuses = spec.work.examples_per_hit if spec.pay.fooled_bonus_cents else 0
        return HitShape(spec.pay.create_cents, spec.work.create_minutes, bonuses)
    if kind is HitKind.VALIDATE:
        return HitShape(spec.pay.validate_cents, spec.work.validate_minutes, 0)
    return HitShape(spec.pay.quiz_cents, QUIZ_MINUTES, 0)


def description_of(spec: TaskSpec, kind: HitKind) -> str:
    """Return the description that workers read before they accept a HIT; the task's own describes only creation."""
    if kind is HitKind.CREATE:
        return spec.description
    if kind is HitKind.QUIZ:
        asked = len(spec.quiz.questions) if spec.quiz else 0
        what = f"Read how this task works and answer {asked} question{'' if asked == 1 else 's'} about it."
        return f"{what} It pays the same whether you pass or not; once you pass, you can take the task's other HITs."
    most = spec.work.validations_per_hit
    some = f"up to {most} of them" if most > 1 else "one of them"
    if spec.kind == "qa":
        return f"Other people asked questions about passages. Read {some} and select each answer in its passage."
    return f"Other people wrote texts. Read {some} and say of each how you understand it; there is nothing to write."


def terms_of(spec: TaskSpec, kind: HitKind, qualification_id: str | None, limits: CrowdLimits) -> HitTerms:
    """Return the terms of a HIT. Without the task's qualification, workers can preview it but not accept it."""
    shape = shape_of(spec, kind)
    held = Comparator.DOES_NOT_EXIST if kind is HitKind.QUIZ else Comparator.EXISTS
    needs = () if qualification_id is None else (Requirement(qualification_id, held, restriction=Restriction.ACCEPT),)
    return HitTerms(
        title=f"{LEADS[kind]}{spec.title}"[: limits.title_length],
        description=description_of(spec, kind)[: limits.description_length],
        keywords=(*KEYWORDS[kind], spec.name),
        reward_cents=shape.reward_cents,
        assignment_seconds=shape.minutes * MINUTE,
        auto_approve_seconds=AUTO_APPROVE_SECONDS,
        requirements=needs,
    )


def wanted_for(spec: TaskSpec, kind: HitKind, terms: HitTerms, assignments: int, crowd: Crowd) -> list[PossiblePayment]:
    """Return every payment that one such HIT can lead to, with fees."""
    reward = PossiblePayment(EntryKind.REWARD, crowd.price(terms, assignments))
    bonus = PossiblePayment(EntryKind.BONUS, crowd.bonus_price(spec.pay.fooled_bonus_cents))
    return [reward] * assignments + [bonus] * (shape_of(spec, kind).bonuses * assignments)
