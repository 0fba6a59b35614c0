"""The steps that post HITs on the marketplace and expire them, and that move money: reconcile, pay and top up."""

from common.errors import Hint
from common.text import count, dollars
from plugin.backend_client import BackendUnreachable
from plugin.errors import PluginError
from plugin.hints import with_command
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.crowd.fair_pay import DueTopUps
from round_manager.loop.waiting import top_up_approval
from round_manager.services.context import ConnectedCrowd
from round_manager.services.hits import (
    expire_unneeded,
    find_unneeded,
    needed_supply,
    plan_supply,
    rounds_to_write_for,
    unsent_hits,
)
from round_manager.services.payments import count_held, find_due_top_ups, owed_payments, top_up_round


class Expire(CrowdStep):
    """Expires HITs that a round no longer needs; workers who accepted one finish it and are paid."""

    name = "expire"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        expired = expire_unneeded(context.services, context.actor, crowd, task)
        return StepResult(f"{count(expired, 'HIT')} expired" if expired else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        ids = find_unneeded(context.services, crowd, task)
        return f"expire {count(len(ids), 'HIT')}" if ids else ""


class Plan(CrowdStep):
    """Plans the HITs that the round needs, and reserves their money; nothing is sent yet."""

    name = "supply"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        planned = plan_supply(context.services, context.actor, crowd, task)
        return StepResult(f"planned: {planned}" if planned else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        needed = needed_supply(context.services, crowd, task)
        return f"plan HITs: {needed}" if needed else ""


class Post(CrowdStep):
    """Posts planned HITs of all tasks, if workers will see their pages.

    Creation HITs are held back while no model answers for their round: workers could not finish them.
    """

    name = "post"
    each_task = False

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        if not unsent_hits(context.services, crowd):
            return NOTHING
        held = self._without_model(context, crowd) if context.check_pages() else {}
        sent = crowd.poster.run(not_to_write_for=list(held))
        if sent.problem:
            raise StepFailed(sent.problem, retry=True)
        if sent.refused:
            text = f"the marketplace refused {count(sent.refused, 'HIT')}, and accepted {sent.posted}"
            # Others are planned instead, but not in every pass, in case they are refused too.
            raise StepFailed(text, retry=True, hint=Hint("show_crowd"))
        return StepResult(f"{count(sent.posted, 'HIT')} posted" if sent.posted else "", waits="; ".join(held.values()))

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        unsent = unsent_hits(context.services, crowd)
        return f"post {count(unsent, 'HIT')}" if unsent else ""

    def _without_model(self, context: ManagerContext, crowd: ConnectedCrowd) -> dict[int, str]:
        """Return the rounds whose creation HITs must wait, by id, and what each of them waits for."""
        held: dict[int, str] = {}
        silent: BackendUnreachable | None = None
        for one in rounds_to_write_for(context.services, crowd):
            try:
                # One backend serves all tasks: if it does not answer, it is not asked again for the next task.
                if silent is not None:
                    raise silent
                context.check_backend(one.task, one.number)
            except PluginError as error:
                silent = error if isinstance(error, BackendUnreachable) else silent
                held[one.id] = f"{count(one.unsent, 'HIT')} to create for {one.task}: {error}"
        return held


class Reconcile(CrowdStep):
    """Looks up what was sent without an answer, before anything else is sent; what is held, a person decides."""

    name = "reconcile"
    each_task = False

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        result = crowd.reconciler.run()
        if result.problem:
            raise StepFailed(result.problem, retry=True)
        parts = (
            (result.found, "found"),
            (result.sent_again, "sent again"),
            (result.refused, "refused"),
            (result.given_up, "cancelled"),
        )
        done = ", ".join(f"{number} {what}" for number, what in parts if number)
        held = count_held(context.services)
        waits = f"{count(held, 'HIT or payment', 'HITs or payments')} held for a person"
        return StepResult(done, with_command(waits, Hint("show_crowd")) if held else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        doubtful = crowd.reconciler.in_doubt()
        return f"look up {count(doubtful, 'HIT or payment', 'HITs and payments')} in doubt" if doubtful else ""


class SendPayments(CrowdStep):
    """Pays everything that is owed, of all tasks."""

    name = "pay"
    each_task = False

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        paid = crowd.payments.run()
        if paid.problem:
            raise StepFailed(paid.problem, retry=True)
        if paid.refused or paid.held:
            text = f"the marketplace refused {count(paid.refused, 'payment')}, and {paid.held} are held"
            raise StepFailed(text, retry=False, hint=Hint("show_crowd"))
        if not paid.rewards and not paid.bonuses:
            return NOTHING
        text = f"{count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
        return StepResult(f"{text} paid, {dollars(paid.cents)} in all")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        owed = owed_payments(context.services, crowd)
        payments = count(sum(one.count for one in owed), "payment")
        return f"make {payments}, {dollars(sum(one.cents for one in owed))} in all" if owed else ""


class TopUp(CrowdStep):
    """Owes, just before a round closes, what brings low pay to the task's hourly minimum, up to the owner's limit."""

    name = "top-up"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        due = top_up_round(context.services, context.actor, crowd, task)
        if due.need_approval:
            return StepResult(waits=self._approval(due, task))
        return StepResult(f"{dollars(due.cents)} owed to bring pay to the hourly minimum" if due.cents else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        due = find_due_top_ups(context.services, task)
        if due.need_approval:
            return f"wait: {self._approval(due, task)}"
        return f"owe {dollars(due.cents)} to bring pay to the hourly minimum" if due.cents else ""

    def _approval(self, due: DueTopUps, task: str) -> str:
        reason = top_up_approval(due, task)
        return with_command(reason.text, reason.hint)
