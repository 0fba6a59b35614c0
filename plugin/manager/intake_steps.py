"""The steps that take in what people did: on the marketplace, on their pages, and in Label Studio."""

from common.text import count
from plugin.crowd import CrowdServices
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult, Studio
from round_manager.crowd.qualifications import grant_passed_quizzes
from round_manager.crowd.reviews import approve, find_assignment
from round_manager.errors import BudgetError
from round_manager.loop.queues import undecided_work
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task
from round_manager.work.leases import SWEPT_AT_ONCE
from round_manager.work.quizzes import ungranted_passes
from round_manager.work.session_end import sweep

WORKS_AT_ONCE = 200
WHY_APPROVED = "work is approved unless a person says otherwise"


class Collect(CrowdStep):
    """Reads what workers handed in; who did it is confirmed with that."""

    name = "collect"

    def run_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> StepResult:
        found = crowd.collector.run()
        parts = [count(found.works, "new piece of work", "new pieces of work")] if found.works else []
        parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
        if found.unknown:
            cure = "`outfox crowd status` lists them"
            raise StepFailed(f"{count(found.unknown, 'HIT')} unknown to the marketplace; {cure}", retry=False)
        return StepResult(", ".join(parts))

    def preview_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> str:
        return "read what workers handed in"


class Sweep:
    """Ends pages and leases whose time is over."""

    name = "sweep"
    each_task = False

    def run(self, context: ManagerContext, task: str) -> StepResult:
        swept, more = 0, SWEPT_AT_ONCE
        while more >= SWEPT_AT_ONCE:
            with context.store.write() as session:
                more = sweep(session, now=context.clock.now())
            swept += more
        return StepResult(
            f"{count(swept, 'page or lease', 'pages and leases')} ended, their time was over" if swept else ""
        )

    def preview(self, context: ManagerContext, task: str) -> str:
        return "end pages and leases whose time is over"


class Qualify(CrowdStep):
    """Lets those work who passed a quiz."""

    name = "qualify"

    def run_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> StepResult:
        granted = grant_passed_quizzes(context.store, crowd.crowd.name, lambda: crowd.access)
        return StepResult(f"{count(granted, 'worker')} qualified" if granted else "")

    def preview_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> str:
        with context.store.read() as session:
            passed = len(ungranted_passes(session, crowd.crowd.name))
        return f"qualify {count(passed, 'worker')} who passed the quiz" if passed else ""


class Approve(CrowdStep):
    """Approves what was handed in, so that its reward is owed; what no budget covers is told.

    Where HITs show our own pages, what was handed in without its page being finished is a person's to decide.
    """

    name = "approve"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> StepResult:
        market, approved, told = crowd.crowd.name, 0, ""
        waiting, unfinished = self._waiting(context, market, task)
        for first in range(0, len(waiting), WORKS_AT_ONCE):
            try:
                with context.store.write() as session:
                    works = [find_assignment(session, market, one) for one in waiting[first : first + WORKS_AT_ONCE]]
                    approved += approve(session, works, who=context.who, why=WHY_APPROVED, now=context.clock.now())
            except BudgetError as error:
                told = str(error)
        if approved < len(waiting):
            left = count(len(waiting) - approved, "piece of work", "pieces of work")
            cure = f"`outfox round budget {task} DOLLARS` raises it"
            raise StepFailed(told or f"the budget does not cover {left} that nobody planned for; {cure}", retry=False)
        done = f"{count(approved, 'piece')} of work approved" if approved else ""
        return StepResult(done, waits=_unfinished_text(len(unfinished)))

    def preview_on(self, context: ManagerContext, crowd: CrowdServices, task: str) -> str:
        waiting, _ = self._waiting(context, crowd.crowd.name, task)
        return f"approve {count(len(waiting), 'piece')} of work" if waiting else ""

    def _waiting(self, context: ManagerContext, market: str, task: str) -> tuple[list[str], list[str]]:
        """Work that can be approved, and work that a person has to look at."""
        with context.store.read() as session:
            rows = undecided_work(session, market, find_task(session, task).id)
        unfinished = [one for one, is_finished in rows if context.our_pages and not is_finished]
        return [one for one, is_finished in rows if is_finished or not context.our_pages], unfinished


def _unfinished_text(number: int) -> str:
    if not number:
        return ""
    works = count(number, "piece of work was", "pieces of work were")
    cure = "`outfox crowd status` lists it, and a person approves it by name or rejects it"
    return f"{works} handed in without the page being finished; {cure}"


class Read:
    """Reads what people did in Label Studio, where the task is connected, and shows there what the crowd did."""

    name = "read"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        studio = _connected(context, task)
        return StepResult(studio.read(task)) if studio else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        return "read Label Studio" if _connected(context, task) else ""


class Follow:
    """Has Label Studio ask the models of the round that is live, where the task is connected with our ML backend."""

    name = "follow"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        studio = _connected(context, task)
        return StepResult(studio.follow(task)) if studio else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        if not _connected(context, task):
            return ""
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
        return f"see that Label Studio asks for {f'round {live.number}' if live else 'the task, as no round is live'}"


class Push:
    """Sends Label Studio what there is to write for and to check, where the task is connected and a round is live."""

    name = "push"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        studio = self._wanting(context, task)
        return StepResult(studio.push(task)) if studio else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        return "send Label Studio what there is to write for and to check" if self._wanting(context, task) else ""

    def _wanting(self, context: ManagerContext, task: str) -> Studio | None:
        studio = _connected(context, task)
        with context.store.read() as session:
            return studio if studio and live_round(session, find_task(session, task).id) else None


def _connected(context: ManagerContext, task: str) -> Studio | None:
    """The Label Studio that the task is connected to."""
    return context.studio if context.studio and task in context.studio.tasks() else None
