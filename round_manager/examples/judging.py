"""Judges: who says, on the server, what the models in the loop answer to what was handed in."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ml_backend.verdict import Verdict
from templates import TaskSpec


class Judge(Protocol):
    """Asks pinned model versions; nothing that a browser or Label Studio says about a verdict is believed."""

    def judge(self, spec: TaskSpec, versions: Sequence[str], fields: Mapping[str, str], target: str | None) -> Verdict:
        """The verdict of exactly these versions, in their order, on exactly these inputs."""
        ...
