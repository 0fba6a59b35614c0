"""The evaluator behind `outfox.evaluate`, which the researchers' client finds by an entry point."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import CodedError
from outfox.errors import EvaluationFailed, InvalidArgument
from plugin.evaluations import EvaluationRequest, task_of_name
from plugin.evaluations import evaluate as run
from plugin.hints import advice_for
from plugin.settings import load_settings
from plugin.wiring import Application


def evaluate(
    models: Mapping[str, str],
    task: str,
    path: str,
    *,
    on: str | Path | Sequence[str | Path] | None = None,
    axes: str | Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    yes: bool = False,
    slices: Sequence[str] = (),
    pack: str | Path | None = None,
) -> dict[str, Any]:
    """Measure models; return the figures, and which there are none of. Raise EvaluationFailed with the error's code."""
    try:
        settings = load_settings(os.environ).model_copy(update={"archives": path})
        app = Application(settings)
        request = EvaluationRequest(
            models=[f"{name}={what}" if name != what else what for name, what in models.items()],
            data=_texts("on", on),
            axes=_texts("axes", axes),
            labels=labels or {},
            slices=_texts("slices", slices),
        )
        found = task_of_name(app, task, None if pack is None else str(pack))
        report = run(app, found, request, lambda name, mapping: yes)
        return {"results": report.as_data(), "notes": list(report.notes)}
    except CodedError as error:
        raise EvaluationFailed(advice_for(error), reason=error.code, retry=error.retry) from error


def _texts(name: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) and not Path(given).exists():
        # As on the command line; the name of a file can have commas.
        given = [part.strip() for part in given.split(",") if part.strip()]
    found = (given,) if isinstance(given, str | Path) else tuple(given)
    if not all(isinstance(one, str | Path) for one in found):
        raise InvalidArgument(f"`{name}` must be a name or a list of names")
    return tuple(map(str, found))
