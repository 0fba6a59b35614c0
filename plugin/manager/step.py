"""What a step of the manager is: small, named, and safe to do again at any moment."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from plugin.crowd import CrowdServices
from plugin.errors import PluginError
from plugin.manager.bench import Bench


class StepFailed(PluginError):
    """A step that could not do all of its work; the message tells why, `retry` whether trying again may help."""

    code = "step_failed"

    def __init__(self, message: str, *, retry: bool) -> None:
        super().__init__(message)
        self.retry = retry


@dataclass(frozen=True)
class Came:
    """What a step came to: what it did, and what it waits for, each in words for people; empty for nothing.

    With `goes_on`, something was begun whose end a later pass will see; until then an earlier failure stands.
    """

    done: str = ""
    waits: str = ""
    goes_on: bool = False


NOTHING = Came()


class Step(Protocol):
    """One thing that the manager does, for each task, or for all at once with an empty name for the task."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def each_task(self) -> bool:
        """Whether it is done for each task."""
        ...

    def run(self, bench: Bench, task: str) -> Came:
        """Does it; once more at any time does no harm."""
        ...

    def would(self, bench: Bench, task: str) -> str:
        """What it would do as things stand, in words, empty for nothing; nothing is changed anywhere."""
        ...


class CrowdStep(ABC):
    """A step that needs a marketplace; without one there is nothing to do."""

    each_task = False

    def run(self, bench: Bench, task: str) -> Came:
        """Does it where there is a marketplace."""
        return NOTHING if bench.crowd is None else self.work(bench, bench.crowd, task)

    def would(self, bench: Bench, task: str) -> str:
        """What it would do there."""
        return "" if bench.crowd is None else self.tell(bench, bench.crowd, task)

    @abstractmethod
    def work(self, bench: Bench, crowd: CrowdServices, task: str) -> Came:
        """Does it."""

    @abstractmethod
    def tell(self, bench: Bench, crowd: CrowdServices, task: str) -> str:
        """What it would do."""
