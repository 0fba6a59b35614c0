"""The steps that post HITs on the marketplace, and expire those that are no longer needed."""

from common.errors import Hint
from common.text import count
from plugin.backend_client import BackendUnreachable
from plugin.errors import PluginError
from plugin.hints import with_command
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.services.connected_crowd import ConnectedCrowd
from round_manager.services.hits import (
    expire_unneeded,
    find_unneeded,
    needed_supply,
    plan_supply,
    rounds_to_write_for,
    unsent_hits,
)


class Expire(CrowdStep):
    """Expires HITs that a round no longer needs; workers who accepted one finish it and are paid."""

    name = "expire"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        expired = expire_unneeded(context.services, crowd, task)
        return StepResult(f"{count(expired, 'HIT')} expired" if expired else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        ids = find_unneeded(context.services, crowd, task)
        return f"expire {count(len(ids), 'HIT')}" if ids else ""


class Plan(CrowdStep):
    """Plans the HITs that the round needs, and reserves their money; nothing is sent yet."""

    name = "supply"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        planned = plan_supply(context.services, crowd, task)
        return StepResult(f"planned: {planned}" if planned else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        needed = needed_supply(context.services, crowd, task)
        return f"plan HITs: {needed}" if needed else ""


class Post(CrowdStep):
    """Posts planned HITs of all tasks, if workers will see their pages.

    Creation HITs are held back while no model answers for their round: workers could not finish them.
    """

    name = "post"

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
            raise StepFailed(with_command(text, Hint("show_crowd")), retry=True)
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
