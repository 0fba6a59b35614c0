"""The steps that move rounds: votes decide, rounds end, archives are made, models are trained, the next round opens."""

from common.text import count
from plugin.manager.step import NOTHING, ManagerContext, StepFailed, StepResult
from round_manager.archive.freeze import freeze
from round_manager.errors import BudgetError, RoundError
from round_manager.learning.training_jobs import pending_training, running_job
from round_manager.loop.lifecycle import Due, called_off_text, due, take_due, was_called_off
from round_manager.loop.waiting import undecided
from round_manager.models import Round, RoundStatus
from round_manager.services.training_supervisor import MAX_FAILURES
from round_manager.tasks.affordability import check_can_open
from round_manager.tasks.rounds import draft_round, list_rounds, live_round
from round_manager.tasks.tasks import find_task
from round_manager.validation.decisions import Decisions, decide_round

WHY_FROZEN = "the round is closed"


class Decide:
    """Decides examples by the votes that came, so that what was earned is owed."""

    name = "decide"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        decided = Decisions()
        for one in unfrozen_rounds(context, task):
            decided += decide_round(context.store, one, now=context.clock.now())
        if decided.uncovered:
            bonuses = count(decided.uncovered, "bonus", "bonuses")
            cure = f"`outfox round budget {task} DOLLARS` raises it"
            raise StepFailed(f"the budget does not cover {bonuses} earned by workers; {cure}", retry=False)
        told = (
            (decided.verified, "verified", "verified"),
            (decided.disputed, "disputed", "disputed"),
            (decided.want_more, "in want of more votes", "in want of more votes"),
            (decided.bonuses, "bonus owed", "bonuses owed"),
        )
        return StepResult(", ".join(count(*one) for one in told if one[0]))

    def preview(self, context: ManagerContext, task: str) -> str:
        rounds = unfrozen_rounds(context, task)
        with context.store.read() as session:
            return "decide by the votes that came" if any(undecided(session, one) for one in rounds) else ""


class Move:
    """Takes the step that is due in a round; what it waits for is looked at again in the moment that it is taken."""

    name = "move"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        live, step = self._due(context, task)
        if live is None or step is None:
            return NOTHING
        with context.store.write() as session:
            taken = take_due(session, session.get_one(Round, live.id), who=context.who, now=context.clock.now())
        return StepResult(f"round {live.number} is {taken.to.value}: {taken.why}") if taken else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        live, step = self._due(context, task)
        return f"round {live.number} becomes {step.to.value}: {step.why}" if live and step else ""

    def _due(self, context: ManagerContext, task: str) -> tuple[Round | None, Due | None]:
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
            return live, due(session, live, now=context.clock.now()) if live else None


class Freeze:
    """Splits every closed round and makes its archive."""

    name = "freeze"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        done = []
        for one in self._closed(context, task):
            frozen = freeze(context.store, one.id, context.archives(), context.clock, who=context.who, why=WHY_FROZEN)
            done.append(f"round {frozen.round} is frozen in {frozen.where}")
        return StepResult("; ".join(done))

    def preview(self, context: ManagerContext, task: str) -> str:
        numbers = [str(one.number) for one in self._closed(context, task)]
        return f"freeze round {', '.join(numbers)}" if numbers else ""

    def _closed(self, context: ManagerContext, task: str) -> list[Round]:
        return [one for one in unfrozen_rounds(context, task) if one.status is RoundStatus.CLOSED]


class Train:
    """Has the next model trained in a process of its own, measured and, unless it loses too much, rotated in."""

    name = "train"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        ended = context.trainings.ended(task)
        if ended is not None:
            if ended.failed:
                raise StepFailed(ended.text, retry=True)
            return StepResult(ended.text, in_progress=ended.in_progress)
        cancelled = context.trainings.end_cancelled(task)
        if cancelled:
            return StepResult(cancelled)
        wanted = context.trainings.pending(task)
        if wanted is None:
            return StepResult(in_progress=task in context.trainings.running)
        if wanted.failures >= MAX_FAILURES:
            cure = f"`outfox model retrain {task}` tries again"
            often = count(wanted.failures, "time")
            return StepResult(waits=f"the training failed {often}, at last: {wanted.reason}; {cure}")
        context.trainings.start(task)
        return StepResult(f"a training on the rounds up to {wanted.round} began", in_progress=True)

    def preview(self, context: ManagerContext, task: str) -> str:
        wanted = context.trainings.pending(task)
        return f"train the next model on the rounds up to {wanted.round}" if wanted else ""


class Open:
    """Opens the next round when the last one is closed, frozen and learned from; the first is its owner's to open.

    So is the one after a round that they closed with nothing in it. What it lacks, money or contexts, is what it waits
    for.
    """

    name = "open"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        last = self._last_over(context, task)
        if last is None:
            return NOTHING
        held = self._held(context, task, last)
        if held:
            return StepResult(waits=held)
        try:
            opened = context.opening().open(task, (), who=context.who, why=f"round {last.number} is over")
        except (BudgetError, RoundError) as error:
            return StepResult(waits=f"the next round waits to be opened: {error}")
        return StepResult(f"round {opened.number} is open against {', '.join(opened.versions)}")

    def preview(self, context: ManagerContext, task: str) -> str:
        last = self._last_over(context, task)
        if last is None or self._held(context, task, last):
            return ""
        try:
            with context.store.dry_run() as session:
                found = find_task(session, task)
                check_can_open(session, found, draft_round(session, found, now=context.clock.now()))
        except (BudgetError, RoundError) as error:
            return f"wait: {error}"
        return f"open round {last.number + 1}"

    def _held(self, context: ManagerContext, task: str, last: Round) -> str:
        """Why no round is to follow the last one by itself; nothing where one is."""
        if context.last_round is not None and last.number >= context.last_round:
            return f"no round after {context.last_round} is opened by itself, as the manager was told"
        with context.store.read() as session:
            return called_off_text(last, task) if was_called_off(session, last) else ""

    def _last_over(self, context: ManagerContext, task: str) -> Round | None:
        """The last round, where everything that follows from it has been done and no other is live."""
        with context.store.read() as session:
            found = find_task(session, task)
            begun = [one for one in list_rounds(session, found) if one.status is not RoundStatus.DRAFT]
            if not begun or begun[-1].frozen_at is None:
                return None
            is_learned = pending_training(session, found) is None and running_job(session, found) is None
            return begun[-1] if is_learned else None


def unfrozen_rounds(context: ManagerContext, task: str) -> list[Round]:
    """The task's rounds that were opened and have no archive yet."""
    with context.store.read() as session:
        rounds = list_rounds(session, find_task(session, task))
    return [one for one in rounds if one.status is not RoundStatus.DRAFT and one.frozen_at is None]
