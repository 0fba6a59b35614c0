"""Evaluation from Python: the whole of Outfox evaluates models, and the client compares what is stored."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from outfox.arguments import checked_task, quoted
from outfox.comparison import ALPHA, compare_pairs, holm
from outfox.errors import DataCorrupt, DataNotFound, EvaluatorMissing, InvalidArgument
from outfox.stored_evaluations import ATTRS, DATA, data_folders, evaluations_folder, read_json, tidy

GROUP = "outfox.evaluator"
ANSWERS = "answers.parquet"

Evaluator = Callable[..., Mapping[str, Sequence[Any]]]


def evaluate_frame(models: Any, task: Any, path: Any, **options: Any) -> pd.DataFrame:
    """Evaluate models with the installed evaluator; return its figures as a frame."""
    name = checked_task(task)
    if isinstance(models, str | Path):
        models = [models]
    named = models if isinstance(models, Mapping) else {str(one): one for one in models}
    if not named or not all(isinstance(one, str | Path) and str(one) for one in (*named, *named.values())):
        raise InvalidArgument("`models` must map names to versions, folders or files, for example {'a': 'models/a'}")
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidArgument("`path` must be a folder of archives")
    found = _evaluator()({str(key): str(one) for key, one in named.items()}, name, str(path), **options)
    frame = tidy(found["results"])
    frame.attrs |= {ATTRS: {"task": name, "path": str(path)}, "notes": list(found["notes"])}
    return frame


def compare_frame(frame: Any, path: Any = None) -> pd.DataFrame:
    """Compare every two models of a frame of evaluations on each data set, by their stored answers."""
    if not isinstance(frame, pd.DataFrame) or not {"model_id", "model", "data"} <= set(frame.columns):
        raise InvalidArgument(
            f"`data` must be what `outfox.evaluate` or `outfox.evaluations` returned, not {quoted(frame)}"
        )
    about = frame.attrs.get(ATTRS)
    if not isinstance(about, dict):
        raise InvalidArgument("this frame does not know its task; pass what `outfox.evaluate` returned, unchanged")
    folder = evaluations_folder(about["task"], Path(path or about["path"]))
    names = {str(read_json(one / DATA)["name"]): one for one in data_folders(folder)}
    tables = []
    performance = frame[(frame["axis"] == "performance") & (frame["slice"] == "")]
    for data, rows in performance.groupby("data", sort=False):
        models = dict(zip(rows["model"], rows["model_id"], strict=True))
        if len(models) > 1 and str(data) in names:
            scores = _scores(names[str(data)], models)
            tables.append(compare_pairs(scores).assign(data=data))
    if not tables:
        raise DataNotFound("a comparison needs two or more models on the same data set")
    every = pd.concat(tables, ignore_index=True)
    # Corrected for all comparisons, not only for those on one data set.
    every["p_holm"] = holm(every["p"].tolist())
    every["significant"] = every["p_holm"] < ALPHA
    return every[["data", *(name for name in every.columns if name != "data")]]


def _scores(folder: Path, models: Mapping[str, str]) -> pd.DataFrame:
    """Return the score of each model on each row, by the rows' ids."""
    columns = {}
    for name, model in models.items():
        file = folder / model / ANSWERS
        try:
            table = parquet.read_table(file, columns=["id", "score"], partitioning=None)
        except FileNotFoundError as error:
            raise DataNotFound(f"{file} is missing; evaluate {name} again") from error
        except (pa.ArrowException, OSError) as error:
            raise DataCorrupt(f"{file} is not a complete Parquet file; remove it and evaluate {name} again") from error
        columns[name] = pd.Series(table["score"].to_numpy(), index=table["id"].to_pylist(), dtype="float64")
    scores = pd.DataFrame(columns)
    if scores.isna().any(axis=None):
        different = [name for name, one in columns.items() if not one.index.equals(scores.index)]
        raise DataCorrupt(f"{different[0]} answered other rows of {folder.name} than the others; evaluate it again")
    return scores


def _evaluator() -> Evaluator:
    for entry in entry_points(group=GROUP):
        found: Evaluator = entry.load()
        return found
    raise EvaluatorMissing(
        "the client reads evaluations but does not make them; install the package `outfox` to evaluate models"
    )
