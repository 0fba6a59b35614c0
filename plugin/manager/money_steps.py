"""The steps that move money: reconcile what is in doubt, pay what is owed, and top up low pay."""

from common.errors import Hint
from common.text import count, dollars
from plugin.hints import with_command
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.loop.overview import held_for_a_person
from round_manager.services.connected_crowd import ConnectedCrowd
from round_manager.services.payments import missing_pay, owed_payments, top_up_round


class Reconcile(CrowdStep):
    """Looks up what was sent without an answer, before anything else is sent; what is held, a person decides."""

    name = "reconcile"

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
        with context.store.read() as session:
            held = held_for_a_person(session)
        waits = f"{count(held, 'HIT or payment', 'HITs or payments')} held for a person"
        return StepResult(done, with_command(waits, Hint("show_crowd")) if held else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        doubtful = crowd.reconciler.in_doubt()
        return f"look up {count(doubtful, 'HIT or payment', 'HITs and payments')} in doubt" if doubtful else ""


class SendPayments(CrowdStep):
    """Pays everything that is owed, of all tasks."""

    name = "pay"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        paid = crowd.payments.run()
        if paid.problem:
            raise StepFailed(paid.problem, retry=True)
        if paid.refused or paid.held:
            text = f"the marketplace refused {count(paid.refused, 'payment')}, and {paid.held} are held"
            raise StepFailed(with_command(text, Hint("show_crowd")), retry=False)
        if not paid.rewards and not paid.bonuses:
            return NOTHING
        text = f"{count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
        return StepResult(f"{text} paid, {dollars(paid.cents)} in all")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        owed = owed_payments(context.services, crowd)
        payments = count(sum(one.count for one in owed), "payment")
        return f"make {payments}, {dollars(sum(one.cents for one in owed))} in all" if owed else ""


class TopUp(CrowdStep):
    """Owes, just before a round closes, what brings low pay to the task's hourly minimum."""

    name = "top-up"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        cents = top_up_round(context.services, crowd, task)
        return StepResult(f"{dollars(cents)} owed to bring pay to the hourly minimum" if cents else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        cents = missing_pay(context.services, task)
        return f"owe {dollars(cents)} to bring pay to the hourly minimum" if cents else ""
