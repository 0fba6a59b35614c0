"""A leaderboard: the models of a task in the order of their Dynascore, as wide and long frames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from outfox.arguments import checked_task, quoted
from outfox.dynascore import AXES, Dynascore, Swap, as_frame, compute, wide_table
from outfox.errors import DataCorrupt, InvalidArgument, ServerError
from outfox.figures import BoardFigures, collect_figures
from outfox.stored_evaluations import PERFORMANCE, evaluations_folder, json_files

# pandas takes a while to import, and a web app that shows no leaderboard does not need it.
if TYPE_CHECKING:
    import pandas as pd

FORMS = ("wide", "long")
NOTHING = "no model has a value for performance"


@dataclass(frozen=True)
class Ranking:
    """The figures of a task and the scores that follow from them with some weights."""

    figures: BoardFigures
    scores: Dynascore

    def wide(self) -> pd.DataFrame:
        """Return one row per model, best first: rank, score, each axis, and the performance on each data set."""
        import pandas as pd

        frame = as_frame(self.scores)
        about = {one.name: one for one in self.figures.models}
        frame = frame[["rank", *(name for name in frame if name != "rank")]]
        frame.insert(2, "model_id", pd.array([about[name].id for name in frame["model"]], dtype="string"))
        frame.insert(3, "kind", pd.array([about[name].kind for name in frame["model"]], dtype="string"))
        axes = list(self.scores.averages)
        place = frame.columns.get_loc(axes[-1]) + 1 if axes else 5
        shown = self.performance()
        for data in self.figures.data:
            for name, part in ((data.name, "value"), (f"{data.name} low", "low"), (f"{data.name} high", "high")):
                values = [getattr(shown.get((one, data.name)), part, None) for one in frame["model_id"]]
                frame.insert(place, name, pd.array(values, dtype="Float64"), allow_duplicates=True)
                place += 1
        frame.attrs |= {"task": self.figures.task}
        return frame

    def performance(self) -> dict[tuple[str, str], Any]:
        """Return the performance on all rows by model id and data set."""
        found = (one for one in self.figures.headline_figures() if one.axis == PERFORMANCE and not one.slice)
        return {(one.model, one.data): one for one in found}

    def long(self) -> pd.DataFrame:
        """Return all figures, one per row."""
        return self.figures.frame()

    def as_data(self) -> dict[str, Any]:
        """Return figures and scores as JSON-compatible data."""
        found = self.scores
        averages = found.averages.astype(object).where(found.averages.notna(), None)
        return {
            "figures": self.figures.as_data(),
            "averages": {name: dict(zip(averages.index, averages[name], strict=True)) for name in averages},
            "models": list(averages.index),
            "weights": dict(found.weights),
            "data_weights": dict(found.data_weights),
            "amrs": dict(found.amrs),
            "scores": dict(found.scores),
            "ranks": dict(found.ranks),
            "swaps": [vars(one) for one in found.swaps],
            "left_out": dict(found.left_out),
            "unused": dict(found.unused),
            "problem": found.problem,
        }

    @classmethod
    def from_data(cls, found: Mapping[str, Any]) -> Ranking:
        """Return the ranking that `as_data` described; raise KeyError, TypeError or ValueError for other data."""
        import pandas as pd

        index = pd.Index([str(one) for one in found["models"]])
        averages = pd.DataFrame(
            {name: [values[one] for one in index] for name, values in found["averages"].items()}, index=index
        ).astype(float)
        # Best first, whatever order the keys were stored in.
        ranks = dict(sorted(found["ranks"].items(), key=lambda item: (-found["scores"][item[0]], item[0])))
        order = {axis: place for place, axis in enumerate(AXES)}

        def in_order(axes: Iterable[str]) -> list[str]:
            return sorted(axes, key=lambda axis: order.get(axis, len(order)))

        scores = Dynascore(
            averages[in_order(averages)],
            found["weights"], found["data_weights"],
            {axis: found["amrs"][axis] for axis in in_order(found["amrs"])},
            {one: found["scores"][one] for one in ranks}, ranks,
            tuple(Swap(**one) for one in found["swaps"]), found["left_out"], found["unused"], found["problem"],
        )  # fmt: skip
        return cls(BoardFigures.from_data(found["figures"]), scores)


def rank(
    figures: BoardFigures,
    weights: Mapping[str, float] | None = None,
    data_weights: Mapping[str, float] | None = None,
) -> Ranking:
    """Return the ranking of a task's models; raise InvalidArgument for weights of unknown axes or data sets."""
    import pandas as pd

    table = wide_table(figures.frame())
    if not table.columns.size or PERFORMANCE not in table.columns.get_level_values("axis"):
        averages = pd.DataFrame(index=pd.Index(sorted(one.name for one in figures.models), dtype="string"))
        return Ranking(figures, Dynascore(averages, weights or {}, data_weights or {}, problem=NOTHING))
    table.columns = pd.MultiIndex.from_tuples([tuple(map(str, one)) for one in table.columns])
    return Ranking(figures, compute(table, weights, data_weights))


def known_weights(
    figures: BoardFigures, weights: Mapping[str, float], data_weights: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the weights of the axes and data sets that have figures: a board outlives what it was made for."""
    data = {one.name for one in figures.data}
    axes = {axis: float(weights.get(axis, 0)) for axis in scored_axes(figures)}
    return axes, {name: float(weight) for name, weight in data_weights.items() if name in data}


def scored_axes(figures: BoardFigures) -> list[str]:
    """Return the axes that can have a weight, in the order in which they are shown."""
    return [axis for axis in AXES if axis in figures.headlines]


def default_weights(figures: BoardFigures) -> dict[str, float]:
    """Return the default weight of each measured axis."""
    return {axis: AXES[axis].weight for axis in scored_axes(figures)}


def rank_board(figures: BoardFigures, weights: Mapping[str, float], data_weights: Mapping[str, float]) -> Ranking:
    """Return the ranking by a board's weights; axes and data sets that have no figures any more do not count."""
    axes, data = known_weights(figures, weights, data_weights)
    if not any(axes.values()):
        ranking = rank(figures, None, data)
        problem = "none of the axes with a weight has figures"
        scores = Dynascore(ranking.scores.averages, axes, ranking.scores.data_weights, problem=problem)
        return Ranking(figures, scores)
    return rank(figures, axes, data)


def leaderboard_frame(
    task: Any,
    path: Any,
    url: Any,
    token: Any,
    *,
    board: Any,
    weights: Mapping[str, float] | None,
    data_weights: Mapping[str, float] | None,
    form: Any,
) -> pd.DataFrame:
    """Check the arguments, read the figures, and return the leaderboard in one of the forms."""
    name = checked_task(task)
    if form not in FORMS:
        raise InvalidArgument(f"`form` must be 'wide' or 'long', not {quoted(form)}")
    if (path is None) == (url is None):
        raise InvalidArgument("pass either `path`, a folder of archives, or `url`, the address of an Outfox server")
    if board is not None and (path is not None or weights is not None or data_weights is not None):
        raise InvalidArgument("`board` is a board on a server: pass `url`, and no weights of your own")
    if path is not None:
        figures = figures_at(name, path)
    else:
        figures, weights, data_weights = _figures_on(name, url, token, board, weights, data_weights)
    found = rank_board(figures, weights or {}, data_weights or {}) if board else rank(figures, weights, data_weights)
    frame = found.wide() if form == "wide" else found.long()
    frame.attrs |= {"task": name, "board": board or ""}
    return frame


def figures_at(task: str, path: Any) -> BoardFigures:
    """Return the figures that are stored next to the archives in a folder."""
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidArgument("`path` must be a folder of archives")
    return collect_figures(task, json_files(evaluations_folder(task, Path(path))))


def _figures_on(
    task: str, url: Any, token: Any, board: Any, weights: Any, data_weights: Any
) -> tuple[BoardFigures, Any, Any]:
    """Return the figures on a server, and the weights: those of the board, if one is named."""
    # requests takes a while to import, and a folder is read without it.
    from outfox.server import ArchiveServer

    if board is not None and (not isinstance(board, str) or not board.strip()):
        raise InvalidArgument(f"`board` must be the name or the key of a board, not {quoted(board)}")
    query = "" if board is None else f"?{urlencode({'board': board})}"
    found = ArchiveServer(url, token, 0).content(f"/leaderboard/{quote(task, safe='')}/figures.json{query}")
    try:
        content = json.loads(found)
        figures = BoardFigures.from_data(content["figures"])
        of_board = content["board"]
        named = {str(axis): float(weight) for axis, weight in of_board["weights"].items()}
        by_data = {str(data): float(weight) for data, weight in of_board["data_weights"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ServerError(f"{url} does not answer as an Outfox server of this version does; check `url`") from error
    if figures.task != task:
        raise DataCorrupt(f"{url} sent the leaderboard of another task; report it to the server's operator")
    return (figures, named, by_data) if board is not None else (figures, weights, data_weights)
