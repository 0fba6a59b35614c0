"""What a task's HITs say to workers: title, pay, time, and who may take them."""

from dataclasses import dataclass

from mturk.crowd import Comparator, Crowd, Guarded, Requirement, Terms
from round_manager.models import EntryKind, HitKind
from round_manager.money.ledger import Wanted
from templates import TaskSpec

MINUTE = 60
# Nobody waits longer for their pay than this, whatever becomes of us.
AUTO_APPROVE_SECONDS = 3 * 24 * 60 * MINUTE
QUIZ_MINUTES = 30
KEYWORDS = {
    HitKind.CREATE: ("writing", "language model", "bonus"),
    HitKind.VALIDATE: ("checking", "judgement", "language"),
    HitKind.QUIZ: ("quiz", "qualification"),
}
LEADS = {HitKind.CREATE: "", HitKind.VALIDATE: "Check: ", HitKind.QUIZ: "Paid quiz: "}
# What owners read of a kind: "3 HITs to validate".
WORDS = {HitKind.CREATE: "to create", HitKind.VALIDATE: "to validate", HitKind.QUIZ: "for the quiz"}
LONGEST_TITLE = 128
LONGEST_DESCRIPTION = 2_000


@dataclass(frozen=True)
class Cut:
    """One HIT of a kind: what it pays, the minutes for it, and how many bonuses it can lead to."""

    reward_cents: int
    minutes: int
    bonuses: int


def cut_of(spec: TaskSpec, kind: HitKind) -> Cut:
    """How the task cuts its HITs of that kind."""
    if kind is HitKind.CREATE:
        bonuses = spec.work.examples_per_hit if spec.pay.fooled_bonus_cents else 0
        return Cut(spec.pay.create_cents, spec.work.create_minutes, bonuses)
    if kind is HitKind.VALIDATE:
        return Cut(spec.pay.validate_cents, spec.work.validate_minutes, 0)
    return Cut(spec.pay.quiz_cents, QUIZ_MINUTES, 0)


def description_of(spec: TaskSpec, kind: HitKind) -> str:
    """What a worker reads of the work before they take it; only writing is what the task's own words describe."""
    if kind is HitKind.CREATE:
        return spec.description
    if kind is HitKind.QUIZ:
        asked = len(spec.quiz.questions) if spec.quiz else 0
        what = f"Read how this task works and answer {asked} question{'' if asked == 1 else 's'} about it."
        return f"{what} It pays the same whether you pass or not; whoever passes can take the task's other HITs."
    most = spec.work.validations_per_hit
    some = f"up to {most} of them" if most > 1 else "one of them"
    if spec.kind == "qa":
        return f"Other people asked questions about passages. Read {some} and select each answer in its passage."
    return f"Other people wrote texts. Read {some} and say of each how you understand it; there is nothing to write."


def terms_of(spec: TaskSpec, kind: HitKind, qualification_id: str | None) -> Terms:
    """What the marketplace is told; whoever lacks the task's qualification can look but not take it."""
    cut = cut_of(spec, kind)
    held = Comparator.DOES_NOT_EXIST if kind is HitKind.QUIZ else Comparator.EXISTS
    needs = () if qualification_id is None else (Requirement(qualification_id, held, guarded=Guarded.ACCEPT),)
    return Terms(
        title=f"{LEADS[kind]}{spec.title}"[:LONGEST_TITLE],
        description=description_of(spec, kind)[:LONGEST_DESCRIPTION],
        keywords=(*KEYWORDS[kind], spec.name),
        reward_cents=cut.reward_cents,
        assignment_seconds=cut.minutes * MINUTE,
        auto_approve_seconds=AUTO_APPROVE_SECONDS,
        requirements=needs,
    )


def wanted_for(spec: TaskSpec, kind: HitKind, terms: Terms, assignments: int, crowd: Crowd) -> list[Wanted]:
    """Every payment that one such HIT can lead to, fees included."""
    reward = Wanted(EntryKind.REWARD, crowd.price(terms, assignments))
    bonus = Wanted(EntryKind.BONUS, crowd.bonus_price(spec.pay.fooled_bonus_cents))
    return [reward] * assignments + [bonus] * (cut_of(spec, kind).bonuses * assignments)
