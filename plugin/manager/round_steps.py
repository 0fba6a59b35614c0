"""The steps that move rounds: count votes, end rounds, freeze them, train on them, and open the next one."""

from common.errors import Hint
from common.text import count
from plugin.hints import advice_for, with_command
from plugin.manager.step import NOTHING, ManagerContext, Step, StepFailed, StepResult
from round_manager.errors import BudgetError, RoundError
from round_manager.services import archives, rounds, validation
from round_manager.services.training_supervisor import MAX_FAILURES

FROZEN_BECAUSE = "the round is closed"


class Decide(Step):
    """Decides examples by their new votes, so that earned bonuses become owed."""

    name = "decide"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        done = validation.count_new_votes(context.services, task)
        if done.uncovered:
            bonuses = count(done.uncovered, "bonus", "bonuses")
            text = f"the budget does not cover {bonuses} that workers earned"
            raise StepFailed(text, retry=False, hint=Hint("set_round_budget", task=task))
        parts = (
            (done.verified, "verified", "verified"),
            (done.disputed, "disputed", "disputed"),
            (done.want_more, "waiting for more votes", "waiting for more votes"),
            (done.bonuses, "bonus owed", "bonuses owed"),
        )
        return StepResult(", ".join(count(*one) for one in parts if one[0]))

    def preview(self, context: ManagerContext, task: str) -> str:
        return "count new votes" if validation.has_new_votes(context.services, task) else ""


class Move(Step):
    """Moves a round to its next state when that is due; the reasons are checked again under the lock."""

    name = "move"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        move = rounds.advance_round(context.services, context.actor, task)
        return StepResult(f"round {move.number} is {move.to.value}: {move.reason}") if move else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        move = rounds.due_move(context.services, task)
        return f"round {move.number} becomes {move.to.value}: {move.reason}" if move else ""


class Freeze(Step):
    """Splits every closed round and writes its archive."""

    name = "freeze"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        done = []
        for number in archives.unfrozen_rounds(context.services, task):
            frozen = archives.freeze_round(
                context.services, context.actor, task, context.archives(), number=number, reason=FROZEN_BECAUSE
            )
            done.append(f"round {frozen.round} is frozen in {frozen.where}")
        return StepResult("; ".join(done))

    def preview(self, context: ManagerContext, task: str) -> str:
        numbers = archives.unfrozen_rounds(context.services, task)
        return f"freeze round {', '.join(map(str, numbers))}" if numbers else ""


class Train(Step):
    """Trains the next model in a separate process, evaluates it and rotates it in unless it is worse."""

    name = "train"

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
            text = f"the training failed {count(wanted.failures, 'time')}, most recently: {wanted.reason}"
            return StepResult(waits=with_command(text, Hint("retrain_model", task=task)))
        context.trainings.start(task)
        return StepResult(f"a training on the rounds up to {wanted.round} started", in_progress=True)

    def preview(self, context: ManagerContext, task: str) -> str:
        wanted = context.trainings.pending(task)
        return f"train the next model on the rounds up to {wanted.round}" if wanted else ""


class Open(Step):
    """Opens the next round once the last one is closed, frozen and learned from.

    The owner opens the first round, and the one after a round that ended with no examples. If money or contexts are
    missing, the step waits for them.
    """

    name = "open"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        last = rounds.finished_round(context.services, task)
        if last is None:
            return NOTHING
        held = self._held(context, task, last)
        if held:
            return StepResult(waits=held)
        reason = f"round {last} is over"
        try:
            opened = rounds.open_round(context.services, context.actor, task, models=context.models(), reason=reason)
        except (BudgetError, RoundError) as error:
            return StepResult(waits=f"the next round cannot be opened: {advice_for(error)}")
        return StepResult(f"round {opened.number} is open against {', '.join(opened.versions)}")

    def preview(self, context: ManagerContext, task: str) -> str:
        last = rounds.finished_round(context.services, task)
        if last is None or self._held(context, task, last):
            return ""
        try:
            rounds.check_next_round(context.services, task)
        except (BudgetError, RoundError) as error:
            return f"wait: {advice_for(error)}"
        return f"open round {last + 1}"

    def _held(self, context: ManagerContext, task: str, last: int) -> str:
        """Return why no round follows the last one automatically; empty if one does."""
        if context.last_round is not None and last >= context.last_round:
            return f"no round after {context.last_round} opens automatically, as the manager was started"
        empty = rounds.empty_round(context.services, task, last)
        return with_command(empty.text, empty.hint) if empty else ""
