"""The steps that move money: what is in doubt is looked up, what is owed is sent, and pay is made fair."""

from common.money import dollars
from common.text import count
from plugin.crowd import ConnectedCrowd
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.crowd.fair_pay import missing_cents, owe_fair_pay
from round_manager.loop.queues import held_for_a_person
from round_manager.loop.waiting import awaits_only_pay
from round_manager.models import Round
from round_manager.money.statement import owed_by_kind
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task


class Reconcile(CrowdStep):
    """Looks up what was sent and never heard of, before anything else is sent; what is held, a person must decide."""

    name = "reconcile"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        found = crowd.reconciler.run()
        if found.problem:
            raise StepFailed(found.problem, retry=True)
        told = (
            (found.found, "found there"),
            (found.sent_again, "sent again"),
            (found.refused, "refused"),
            (found.given_up, "given up"),
        )
        done = ", ".join(f"{number} {what}" for number, what in told if number)
        with context.store.read() as session:
            held = held_for_a_person(session)
        waits = f"{count(held, 'HIT or payment', 'HITs or payments')} held for a person; `outfox crowd status` tells"
        return StepResult(done, waits if held else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        doubtful = crowd.reconciler.in_doubt()
        return f"ask the marketplace about {count(doubtful, 'HIT or payment', 'HITs and payments')}" if doubtful else ""


class Pay(CrowdStep):
    """Sends everything that is owed, of all tasks."""

    name = "pay"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        paid = crowd.payments.run()
        if paid.problem:
            raise StepFailed(paid.problem, retry=True)
        if paid.refused or paid.held:
            text = f"the marketplace refused {count(paid.refused, 'payment')}, and {paid.held} are held"
            raise StepFailed(f"{text}; `outfox crowd status` tells why", retry=False)
        if not paid.rewards and not paid.bonuses:
            return NOTHING
        text = f"{count(paid.rewards, 'reward')} and {count(paid.bonuses, 'bonus', 'bonuses')}"
        return StepResult(f"{text} paid, {dollars(paid.cents)} in all")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        with context.store.read() as session:
            owed = owed_by_kind(session, crowd.crowd.name)
        payments = count(sum(one.count for one in owed), "payment")
        return f"make {payments}, {dollars(sum(one.cents for one in owed))} in all" if owed else ""


class TopUp(CrowdStep):
    """Owes, just before a round closes, what brings low pay to the task's minimum for an hour."""

    name = "top-up"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        round, lacking = self._lacking(context, task)
        if round is None or not lacking:
            return NOTHING
        with context.store.write() as session:
            held, now = session.get_one(Round, round.id), context.clock.now()
            is_due = awaits_only_pay(session, held, now=now)
            cents = owe_fair_pay(session, crowd.crowd, held, now=now) if is_due else 0
        return StepResult(f"{dollars(cents)} owed to bring pay to the minimum for an hour" if cents else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        _, cents = self._lacking(context, task)
        return f"owe {dollars(cents)} to bring pay to the minimum for an hour" if cents else ""

    def _lacking(self, context: ManagerContext, task: str) -> tuple[Round | None, int]:
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
            if live is None or not awaits_only_pay(session, live, now=context.clock.now()):
                return None, 0
            return live, missing_cents(session, live)
