"""The steps that put work up on the marketplace, and take down what is not needed any more."""

from common.text import count
from crowd.errors import NotOnCrowd
from plugin.backend_client import BackendUnreachable
from plugin.crowd import ConnectedCrowd
from plugin.errors import PluginError
from plugin.manager.step import NOTHING, CrowdStep, ManagerContext, StepFailed, StepResult
from round_manager.crowd.calls import Calls
from round_manager.loop.queues import rounds_to_write_for, unsent_hits
from round_manager.loop.supply import Supply, supply_round, wanted_supply
from round_manager.loop.supply_facts import unneeded_hits
from round_manager.models import Round
from round_manager.specs import spec_of
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import find_task

# So often at most, HITs are planned in one go; the rest comes with the next pass.
TIMES_TO_PLAN = 20


class Expire(CrowdStep):
    """Takes down HITs that a round needs no more; whoever has one finishes it and is paid."""

    name = "expire"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        ids = self._unneeded(context, crowd, task)
        if not ids:
            return NOTHING
        with Calls() as calls:
            answers = calls.make(ids, crowd.crowd.expire)
        # What is gone there is noted as such by this reading, and what nobody has in hand is finished by it.
        crowd.collector.hinted(ids)
        for answer in answers:
            if answer is not None and not isinstance(answer, NotOnCrowd):
                raise answer
        return StepResult(f"{count(len(ids), 'HIT')} taken down")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        ids = self._unneeded(context, crowd, task)
        return f"take down {count(len(ids), 'HIT')}" if ids else ""

    def _unneeded(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> list[str]:
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
            return unneeded_hits(session, live, crowd.crowd.name, now=context.clock.now()) if live else []


class Plan(CrowdStep):
    """Plans the HITs that the round needs, with their money; nothing is sent yet."""

    name = "supply"
    each_task = True

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        live, needed = self._needed(context, crowd, task)
        if live is None or not needed:
            return NOTHING
        if spec_of(live).quiz is not None:
            with context.store.read() as session:
                found = find_task(session, task)
            crowd.access.qualification(found)
        planned = Supply()
        for _ in range(TIMES_TO_PLAN):
            with context.store.write() as session:
                more, _ = supply_round(session, live, crowd.crowd, now=context.clock.now())
            planned += more
            if not more:
                break
        return StepResult(f"planned: {planned}" if planned else "")

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        _, needed = self._needed(context, crowd, task)
        return f"plan HITs: {needed}" if needed else ""

    def _needed(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> tuple[Round | None, Supply]:
        with context.store.read() as session:
            live = live_round(session, find_task(session, task).id)
            if live is None:
                return None, Supply()
            return live, wanted_supply(session, live, crowd.crowd, now=context.clock.now())


class Post(CrowdStep):
    """Sends what is planned, of all tasks, if workers will see the pages.

    HITs to create are held back while no model answers for their round: nobody could finish one.
    """

    name = "post"

    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        if not self._unsent(context, crowd):
            return NOTHING
        held = self._without_model(context, crowd) if context.check_pages() else {}
        sent = crowd.poster.run(not_to_write_for=list(held))
        if sent.problem:
            raise StepFailed(sent.problem, retry=True)
        if sent.refused:
            text = f"the marketplace refused {count(sent.refused, 'HIT')}, and took {sent.posted}"
            # Others are planned in their place: not in every pass, should those be refused too.
            raise StepFailed(f"{text}; `outfox crowd status` tells why", retry=True)
        return StepResult(f"{count(sent.posted, 'HIT')} posted" if sent.posted else "", waits="; ".join(held.values()))

    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        unsent = self._unsent(context, crowd)
        return f"post {count(unsent, 'HIT')}" if unsent else ""

    def _unsent(self, context: ManagerContext, crowd: ConnectedCrowd) -> int:
        with context.store.read() as session:
            return unsent_hits(session, crowd.crowd.name)

    def _without_model(self, context: ManagerContext, crowd: ConnectedCrowd) -> dict[int, str]:
        """The rounds whose HITs to create must wait, by their ids, and what each of them waits for."""
        with context.store.read() as session:
            rounds = rounds_to_write_for(session, crowd.crowd.name)
        held: dict[int, str] = {}
        silent: BackendUnreachable | None = None
        for one in rounds:
            try:
                # One backend serves all tasks: where nothing answers, the next ones are not asked as patiently again.
                if silent is not None:
                    raise silent
                context.check_backend(one.task, one.number)
            except PluginError as error:
                silent = error if isinstance(error, BackendUnreachable) else silent
                held[one.id] = f"{count(one.unsent, 'HIT')} to create for {one.task}: {error}"
        return held
