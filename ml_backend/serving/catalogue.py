"""The catalogue: the packs of the tasks that are served, with those that turn up while the backend runs."""

import logging
from collections.abc import Callable, Iterator, Mapping

from templates.errors import TemplateError
from templates.pack import Pack

log = logging.getLogger(__name__)


class Catalogue(Mapping[str, Pack]):
    """Packs by their tasks, found with `find`; looking at one that is known reads no disk."""

    def __init__(self, find: Callable[[str], Pack]) -> None:
        self._find = find
        # Replaced as a whole and never changed: requests read it while a task is added.
        self._packs: Mapping[str, Pack] = {}
        self._told: dict[str, str] = {}

    def __getitem__(self, task: str) -> Pack:
        return self._packs[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._packs)

    def __len__(self) -> int:
        return len(self._packs)

    def add(self, task: str) -> None:
        """Takes the task's pack in, or a TemplateError that tells why it cannot be served."""
        self._packs = {**self._packs, task: self._find(task)}

    def can_serve(self, task: str) -> bool:
        """Whether the task can be served, now that it is asked for; why it cannot is told when that changes."""
        if task not in self._packs:
            try:
                self.add(task)
            except TemplateError as error:
                if self._told.get(task) != str(error):
                    log.warning("a task is not served", extra={"data": {"task": task, "error": str(error)}})
                self._told[task] = str(error)
        return task in self._packs
