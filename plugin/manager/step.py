"""What a step of the manager is, what it works with, and what it returns.

A step is small, named, and safe to repeat at any moment.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from common.errors import Hint
from plugin.errors import PluginError
from round_manager.archive.storage import Archives
from round_manager.labelstudio.push import PushResult
from round_manager.services.context import Actor, ConnectedCrowd, ServiceContext
from round_manager.services.label_studio import TaskSync
from round_manager.services.model_versions import ModelDeployment
from round_manager.services.submission_supervisor import SubmissionSupervisor
from round_manager.services.training_supervisor import TrainingSupervisor


class StepFailed(PluginError):
    """A step could not do all of its work; `retry` says whether running it again can help."""

    def __init__(self, message: str, *, retry: bool, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry = retry


@dataclass(frozen=True)
class StepResult:
    """What a step did and what it waits for, each as a text for people; empty for nothing.

    With `in_progress`, the step started something that a later pass will see the end of; until then an earlier
    failure stands.
    """

    done: str = ""
    waits: str = ""
    in_progress: bool = False


NOTHING = StepResult()


class ConnectedTasks(Protocol):
    """Label Studio and the tasks that are connected to it; every call can be repeated."""

    def tasks(self) -> Sequence[str]:
        """Return the names of the connected tasks."""

    def read(self, task: str) -> TaskSync:
        """Read new annotations, and upload crowd work."""

    def follow(self, task: str) -> str | None:
        """Point the ML backend connection at the live round; return its new address, or None if nothing changed."""

    def push(self, task: str) -> PushResult:
        """Send contexts to write for and examples to check."""


@dataclass(frozen=True)
class ManagerContext:
    """Everything that the steps work with; without a crowd or Label Studio, their steps do nothing.

    `check_pages` raises if workers would see no page, and returns whether the pages are ours. `check_backend` raises
    if a task's round would get no verdicts. `last_round` is the last round that opens automatically. If HITs show
    `our_pages`, work whose page was not finished is left to a person.
    """

    services: ServiceContext
    actor: Actor
    crowd: ConnectedCrowd | None
    label_studio: ConnectedTasks | None
    archives: Callable[[], Archives]
    models: Callable[[], ModelDeployment]
    trainings: TrainingSupervisor
    submissions: SubmissionSupervisor
    check_pages: Callable[[], bool]
    check_backend: Callable[[str, int], None]
    last_round: int | None = None
    our_pages: bool = False


class Step(ABC):
    """One thing that the manager does, for each task, or once for all tasks with an empty task name."""

    name: ClassVar[str]
    each_task: ClassVar[bool] = True

    @abstractmethod
    def run(self, context: ManagerContext, task: str) -> StepResult:
        """Run the step; it can be repeated."""

    @abstractmethod
    def preview(self, context: ManagerContext, task: str) -> str:
        """Describe what the step would do now, empty for nothing; change nothing."""


class CrowdStep(Step):
    """A step that needs a marketplace; without one it does nothing."""

    def run(self, context: ManagerContext, task: str) -> StepResult:
        """Run the step if there is a marketplace."""
        return NOTHING if context.crowd is None else self.run_on(context, context.crowd, task)

    def preview(self, context: ManagerContext, task: str) -> str:
        """Describe what the step would do now on the marketplace."""
        return "" if context.crowd is None else self.preview_on(context, context.crowd, task)

    @abstractmethod
    def run_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> StepResult:
        """Run the step on this marketplace."""

    @abstractmethod
    def preview_on(self, context: ManagerContext, crowd: ConnectedCrowd, task: str) -> str:
        """Describe what the step would do on this marketplace."""
