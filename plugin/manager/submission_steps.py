"""The step that evaluates the models that researchers have submitted."""

from common.text import count
from plugin.manager.step import NOTHING, ManagerContext, Step, StepFailed, StepResult


class EvaluateSubmissions(Step):
    """Starts a process that works the queue of submitted models, each in a sandbox."""

    name = "evaluate"

    def run(self, context: ManagerContext, task: str) -> StepResult:
        failed = context.submissions.ended(task)
        if failed:
            raise StepFailed(f"submitted models are not evaluated: {failed}", retry=True)
        if task in context.submissions.running:
            return StepResult(in_progress=True)
        waiting = context.submissions.pending(task)
        if not waiting:
            return NOTHING
        context.submissions.start(task)
        return StepResult(f"the evaluation of {count(waiting, 'submitted model')} started", in_progress=True)

    def preview(self, context: ManagerContext, task: str) -> str:
        waiting = context.submissions.pending(task)
        return f"evaluate {count(waiting, 'submitted model')}" if waiting else ""
