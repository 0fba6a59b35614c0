"""Run commands with --json, keep the shapes of their answers, and compare them with the stored ones."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.conftest import Outfox
from tests.integration.snapshots import snapshot
from tests.integration.snapshots.shapes import Shape, merge, missing, shape_of


@dataclass
class Recorder:
    """The shapes of what commands answered, by the command's name."""

    outfox: Outfox
    shapes: dict[str, Shape] = field(default_factory=dict)

    def __call__(self, command: str, *arguments: object, code: int | None = 0) -> Any:
        """Run a command that ends with this code (None: with any), note its answer's shape, and return the answer."""
        ran = self.outfox(*command.split(), *arguments, "--json")
        assert code in (ran.code, None), f"{command} {arguments}: {ran}"
        assert ran.out, f"{command} {arguments}: {ran}"
        answer = json.loads(ran.out)
        self.note(command, answer)
        return answer

    def error(self, name: str, *arguments: object, code: int = 2) -> Any:
        """Run a command that fails with this code, and note the shape of its error."""
        ran = self.outfox(*arguments, "--json")
        assert (ran.code, ran.out) == (code, ""), f"{arguments}: {ran}"
        # Progress comes before it.
        answer = json.loads(ran.err.splitlines()[-1])
        self.note(name, answer)
        return answer

    def note(self, name: str, answer: Any) -> None:
        """Keep an answer's shape, merged with those of earlier answers."""
        shape = shape_of(json.loads(json.dumps(answer)))
        self.shapes[name] = merge(self.shapes[name], shape) if name in self.shapes else shape

    def compare(self, name: str) -> None:
        """Check that every stored shape is still covered."""
        compare_shapes(name, self.shapes)


def compare_shapes(name: str, shapes: dict[str, Shape]) -> None:
    """Check that every stored key is there with its type; new keys are allowed."""
    if snapshot.UPDATE:
        snapshot.store(name, shapes)
    stored = snapshot.stored(name)
    assert shapes.keys() == stored.keys(), f"{name}: run with OUTFOX_UPDATE_SNAPSHOTS=1 and review the difference"
    lost = [f"{key}: {one}" for key in sorted(stored) for one in missing(shapes[key], stored[key])]
    assert not lost, f"{name} lacks what its snapshot has:\n" + "\n".join(lost)
