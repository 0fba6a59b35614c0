"""The axes on which models are evaluated, and what each of them needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from common.errors import Hint
from ml_backend.evaluation import calibration, consistency, performance, resources, speed
from ml_backend.evaluation.consistency import ConsistencyAxis
from round_manager.errors import AxisUnknown
from templates import TaskSpec

WORST_ROUND = "worst_round"

Recipe = Callable[[TaskSpec], Mapping[str, Any]]


@dataclass(frozen=True)
class Axis:
    """One axis; `recipe` returns what determines its figures, besides the model and the rows.

    `answers` says that it needs answers to the rows, `copies` of which axis it needs answers to perturbed copies too.
    Other axes need the model itself, so that files of predictions have no value.
    """

    name: str
    recipe: Recipe
    answers: bool = False
    copies: ConsistencyAxis | None = None


def _fixed(recipe: Mapping[str, Any]) -> Recipe:
    return lambda _: recipe


def _of_copies(axis: ConsistencyAxis) -> Axis:
    return Axis(axis, partial(consistency.recipe, axis), answers=True, copies=axis)


AXES = {
    one.name: one
    for one in (
        Axis(performance.AXIS, _fixed(performance.RECIPE), answers=True),
        Axis(calibration.AXIS, _fixed(calibration.RECIPE), answers=True),
        _of_copies(consistency.ROBUSTNESS),
        _of_copies(consistency.FAIRNESS),
        Axis(speed.THROUGHPUT, _fixed(speed.THROUGHPUT_RECIPE)),
        Axis(speed.LATENCY, _fixed(speed.LATENCY_RECIPE)),
        Axis(resources.MEMORY, _fixed(resources.MEMORY_RECIPE)),
        Axis(resources.PRICE, _fixed(resources.PRICE_RECIPE)),
    )
}
DEFAULT_AXES = (performance.AXIS, calibration.AXIS)
EVERY = "all"


def chosen_axes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the axes of these names, `all` for each of them; by default those that need one answer for each row."""
    wanted = names or DEFAULT_AXES
    if EVERY in wanted:
        return tuple(AXES)
    for name in wanted:
        # The worst round follows from the performance on each of them.
        if name not in AXES and name != WORST_ROUND:
            known = ", ".join((*AXES, WORST_ROUND, EVERY))
            raise AxisUnknown(f"there is no axis `{name}`; known are {known}", hint=Hint("describe_evaluate"))
    return tuple(dict.fromkeys(performance.AXIS if name == WORST_ROUND else name for name in wanted))


def steps(axes: tuple[str, ...], rows: int, spec: TaskSpec) -> int:
    """Return how many questions these axes ask at most: one for each row, and one for each copy of it."""
    asked = int(any(AXES[axis].answers for axis in axes))
    perturbed = (AXES[axis].copies for axis in axes)
    return rows * (asked + sum(len(consistency.task_edits(one, spec)) for one in perturbed if one))
