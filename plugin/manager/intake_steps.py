"""The steps that take in what people did: on the marketplace, on their pages, and in Label Studio."""

from common.text import count
from plugin.crowd import ConnectedCrowd
from plugin.manager.step import NOTHING, ConnectedTasks, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.crowd.qualifications import grant_passed_quizzes
from round_manager.crowd.reviews import approve, find_assignment
from round_manager.errors import BudgetError
from round_manager.loop.queues import undecided_work
from round_manager.services.context import ServiceContext
from round_manager.services.work import end_overdue_work
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task
from round_manager.work.quizzes import ungranted_passes

WORKS_AT_ONCE = 200
WHY_APPROVED = "work is approved unless a person says otherwise"


class Collect(CrowdStep):
    """Reads what workers handed in; who did it is confirmed with that."""

    name = "collect"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        found = crowd.collector.run()
        parts = [count(found.works, "new piece of work", "new pieces of work")] if found.works else []
        parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
        if found.unknown:
            cure = "`outfox crowd status` lists them"
            raise StepFailed(f"{count(found.unknown, 'HIT')} unknown to the marketplace; {cure}", retry=False)
        return StepResult(", ".join(parts))

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        return "read what workers handed in"


class Sweep:
    """Ends pages and leases whose time is over."""

    name = "sweep"
    each_task = False

    def run(self, context: ManagerContext, task: str) -> StepResult:
        swept = end_overdue_work(ServiceContext(context.store, context.clock))
        return StepResult(
            f"{count(swept, 'page or lease', 'pages and leases')} ended, their time was over" if swept else ""
        )

    def preview(self, context: ManagerContext, task: str) -> str:
        return "end pages and leases whose time is over"


class Qualify(CrowdStep):
    """Lets those work who passed a quiz."""

    name = "qualify"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        granted = grant_passed_quizzes(context.store, crowd.crowd.name, lambda: crowd.access)
        return StepResult(f"{count(granted, 'worker')} qualified" if granted else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        with context.store.read() as session:
            passed = len(ungranted_passes(session, crowd.crowd.name))
        return f"qualify {count(passed, 'worker')} who passed the quiz" if passed else ""


class Approve(CrowdStep):
    """Approves what was handed in, so that its reward is owed; what no budget covers is told.

    Where HITs show our own pages, what was handed in without its page being finished is a person's to decide.
    """

    name = "approve"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
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

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
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
    """Reads annotations of connected tasks from Label Studio, and uploads crowd work to it."""

    name = "read"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        label_studio = _connected(context, task)
        if label_studio is None:
            return NOTHING
        found = label_studio.read(task).read
        counts = ((found.examples, "example"), (found.votes, "vote"), (found.problems, "unreadable annotation"))
        parts = [count(number, what) for number, what in counts if number]
        done = [f"{', '.join(parts)} from Label Studio"] if parts else []
        return StepResult("; ".join([*done, *_removed_checks(found.cleared)]))

    def preview(self, context: ManagerContext, task: str) -> str:
        return "read Label Studio" if _connected(context, task) else ""


class Follow:
    """Points the ML backend connection of connected tasks at the live round."""

    name = "follow"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        label_studio = _connected(context, task)
        url = label_studio.follow(task) if label_studio else None
        return StepResult(f"Label Studio uses the ML backend at {url} now") if url else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        if not _connected(context, task):
            return ""
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
        return f"point Label Studio at {f'round {live.number}' if live else 'the task, because no round is live'}"


class Push:
    """Sends contexts and checks to Label Studio, if the task is connected and a round is live."""

    name = "push"
    each_task = True

    def run(self, context: ManagerContext, task: str) -> StepResult:
        label_studio = self._live(context, task)
        if label_studio is None:
            return NOTHING
        sent = label_studio.push(task)
        text = f"{sent.contexts} to write for and {sent.validations} to check sent to Label Studio"
        done = [text] if sent.contexts or sent.validations else []
        return StepResult("; ".join([*done, *_removed_checks(sent.cleared)]))

    def preview(self, context: ManagerContext, task: str) -> str:
        return "send contexts and checks to Label Studio" if self._live(context, task) else ""

    def _live(self, context: ManagerContext, task: str) -> ConnectedTasks | None:
        label_studio = _connected(context, task)
        with context.store.read() as session:
            return label_studio if label_studio and live_round(session, find_task(session, task).id) else None


def _connected(context: ManagerContext, task: str) -> ConnectedTasks | None:
    """Return Label Studio, if the task is connected to it."""
    return context.label_studio if context.label_studio and task in context.label_studio.tasks() else None


def _removed_checks(number: int) -> list[str]:
    return [f"{count(number, 'stale check')} deleted from Label Studio"] if number else []
