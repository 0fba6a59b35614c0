"""The axes on which models are evaluated, and what each of them needs."""

from dataclasses import dataclass
from typing import Any

from common.errors import Hint
from ml_backend.evaluation import calibration, performance, speed
from round_manager.errors import AxisUnknown

WORST_ROUND = "worst_round"


@dataclass(frozen=True)
class Axis:
    """One axis; `needs_target` says that stored answers are not enough, so that files of predictions have no value."""

    name: str
    recipe: dict[str, Any]
    needs_target: bool


AXES = {
    one.name: one
    for one in (
        Axis(performance.AXIS, performance.RECIPE, needs_target=False),
        Axis(calibration.AXIS, calibration.RECIPE, needs_target=False),
        Axis(speed.THROUGHPUT, speed.THROUGHPUT_RECIPE, needs_target=True),
        Axis(speed.LATENCY, speed.LATENCY_RECIPE, needs_target=True),
    )
}
DEFAULT_AXES = (performance.AXIS, calibration.AXIS)
EVERY = "all"


def chosen_axes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the axes of these names, `all` for each of them; by default those that need only answers."""
    wanted = names or DEFAULT_AXES
    if EVERY in wanted:
        return tuple(AXES)
    for name in wanted:
        # The worst round follows from the performance on each of them.
        if name not in AXES and name != WORST_ROUND:
            known = ", ".join((*AXES, WORST_ROUND, EVERY))
            raise AxisUnknown(f"there is no axis `{name}`; known are {known}", hint=Hint("describe_evaluate"))
    return tuple(dict.fromkeys(performance.AXIS if name == WORST_ROUND else name for name in wanted))
