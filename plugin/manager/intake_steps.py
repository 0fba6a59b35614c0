"""The steps that collect what people did: on the marketplace, on worker pages, and in Label Studio."""

from common.errors import Hint
from common.text import count
from plugin.hints import with_command
from plugin.manager.step import NOTHING, ConnectedTasks, CrowdStep, ManagerContext, Step, StepFailed, StepResult
from round_manager.services.context import ConnectedCrowd
from round_manager.services.reviews import approve_waiting, select_work
from round_manager.services.rounds import live_round
from round_manager.services.work import end_overdue_work, forget_addresses
from round_manager.services.workers import qualify_passed, ungranted_quizzes


class Collect(CrowdStep):
    """Collects submitted work, and confirms who did it."""

    name = "collect"
    each_task = False

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        found = crowd.collector.run()
        parts = [count(found.works, "new assignment")] if found.works else []
        parts += [f"{count(found.finished, 'HIT')} finished"] if found.finished else []
        if found.unknown:
            text = f"the marketplace does not know {count(found.unknown, 'HIT')}"
            raise StepFailed(text, retry=False, hint=Hint("show_crowd"))
        return StepResult(", ".join(parts))

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        return "collect submitted work"


class Sweep(Step):
    """Ends expired pages and leases, and deletes old hashes of workers' addresses."""

    name = "sweep"
    each_task = False

    def run(self, context: ManagerContext, task: str) -> StepResult:
        swept, forgotten = end_overdue_work(context.services), forget_addresses(context.services)
        done = [f"{count(swept, 'expired page or lease', 'expired pages and leases')} ended"] if swept else []
        done += [f"{count(forgotten, 'hash', 'hashes')} of old addresses deleted"] if forgotten else []
        return StepResult(", ".join(done))

    def preview(self, context: ManagerContext, task: str) -> str:
        return "end expired pages and leases, delete old hashes of addresses"


class Qualify(CrowdStep):
    """Grants the qualification to workers who passed a quiz."""

    name = "qualify"
    each_task = False

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        granted = qualify_passed(context.services, crowd)
        return StepResult(f"{count(granted, 'worker')} qualified" if granted else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        passed = ungranted_quizzes(context.services, crowd)
        return f"qualify {count(passed, 'worker')} who passed the quiz" if passed else ""


class Approve(CrowdStep):
    """Approves submitted work, so that its reward is owed; fails if the budget does not cover it.

    If HITs show our own pages, a person decides about work whose page was not finished.
    """

    name = "approve"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        result = approve_waiting(context.services, context.actor, crowd, task, our_pages=context.our_pages)
        if result.uncovered:
            text = f"the budget does not cover {count(result.uncovered, 'assignment')} that were not planned"
            raise StepFailed(str(result.problem or text), retry=False, hint=Hint("set_round_budget", task=task))
        done = f"{count(result.approved, 'assignment')} approved" if result.approved else ""
        return StepResult(done, waits=_unfinished_text(result.unfinished))

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        found = select_work(context.services, crowd, task=task, our_pages=context.our_pages).chosen
        return f"approve {count(len(found), 'assignment')}" if found else ""


def _unfinished_text(number: int) -> str:
    if not number:
        return ""
    works = count(number, "assignment was", "assignments were")
    text = f"{works} submitted without a finished page and can be approved by name or rejected"
    return with_command(text, Hint("show_crowd"))


class Read(Step):
    """Reads annotations of connected tasks from Label Studio, and uploads crowd work to it."""

    name = "read"

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


class Follow(Step):
    """Points the ML backend connection of connected tasks at the live round."""

    name = "follow"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        label_studio = _connected(context, task)
        url = label_studio.follow(task) if label_studio else None
        return StepResult(f"Label Studio uses the ML backend at {url} now") if url else NOTHING

    def preview(self, context: ManagerContext, task: str) -> str:
        if not _connected(context, task):
            return ""
        live = live_round(context.services, task)
        return f"point Label Studio at {f'round {live.number}' if live else 'the task, because no round is live'}"


class Push(Step):
    """Sends contexts and checks to Label Studio, if the task is connected and a round is live."""

    name = "push"

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
        return label_studio if label_studio and live_round(context.services, task) else None


def _connected(context: ManagerContext, task: str) -> ConnectedTasks | None:
    """Return Label Studio, if the task is connected to it."""
    return context.label_studio if context.label_studio and task in context.label_studio.tasks() else None


def _removed_checks(number: int) -> list[str]:
    return [f"{count(number, 'stale check')} deleted from Label Studio"] if number else []
