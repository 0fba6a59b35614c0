"""Stored evaluations: the figures of every model on every data set, as `outfox evaluate` wrote them.

They are next to a task's archives: <path>/<task>/evaluations/<data>/<model id>/<axis>.json.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outfox.archives import ArchiveFolder
from outfox.arguments import checked_task
from outfox.errors import DataCorrupt, DataNotFound, DataUnreadable, InvalidArgument

if TYPE_CHECKING:
    import pandas as pd

# The attribute of a frame that says where its answers are.
ATTRS = "outfox_evaluations"
FOLDER, MODELS, DATA = "evaluations", "models", "data.json"
COLUMNS = ["model", "model_id", "data", "slice", "axis", "metric", "n", "value", "low", "high"]
PERFORMANCE, WORST_ROUND, EVERY = "performance", "worst_round", "all"
# The metrics that represent the performance of a classification and of a QA model.
HEADLINES = ("accuracy", "f1")
ROUND = "round "
ROUND_NAME = rf"^{ROUND}(\d+)$"

Row = dict[str, Any]


def stored_evaluations(task: Any, path: Any) -> "pd.DataFrame":
    """Return the figures of all models on all data sets of a task; of data sets that changed, only the newest."""
    name = checked_task(task)
    if not isinstance(path, str | Path) or not str(path):
        raise InvalidArgument("`path` must be a folder of archives")
    recorded = list(_recorded(name, Path(path)))
    try:
        rows = list(_rows(evaluations_folder(name, Path(path))))
    except DataNotFound:
        if not recorded:
            raise
        rows = []
    stored = {(row["model_id"], row["data"], row["axis"]) for row in rows}
    rows += [row for row in recorded if (row["model_id"], row["data"], row["axis"]) not in stored]
    rows += worst_rounds(rows)
    frame = tidy(rows)
    frame.attrs[ATTRS] = {"task": name, "path": str(path)}
    return frame


def evaluations_folder(task: str, path: Path) -> Path:
    """Return the folder of a task's evaluations, in a folder of archives or in the task's own one."""
    for folder in (path / task / FOLDER, path / FOLDER):
        if folder.is_dir():
            return folder
    raise DataNotFound(f"there are no evaluations of {task} at {path}; `outfox evaluate {task} MODEL` makes them")


def _recorded(task: str, path: Path) -> Iterator[Row]:
    """Yield the figures that archives have, such as those of trainings."""
    for one in ArchiveFolder(path).archives(task).values():
        record = one().record()
        yield from record["results"] if record else ()


def tidy(rows: Iterable[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return rows as a frame, one figure each; `round` is the number of the round, missing for other data sets."""
    # pandas takes a while to import, and the package that writes evaluations does not need it.
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=COLUMNS)
    number = frame["data"].astype("string").str.extract(ROUND_NAME, expand=False)
    frame.insert(COLUMNS.index("data") + 1, "round", number.astype("Int64"))
    return frame.astype({"n": "int64", "value": "float64", "low": "float64", "high": "float64"})


def worst_rounds(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return for each model the performance on the round where it is lowest, as one more axis."""
    worst: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        of_round = row["axis"] == PERFORMANCE and not row["slice"] and row["data"].startswith(ROUND)
        if of_round and row["metric"] in HEADLINES:
            known = worst.get(row["model_id"])
            if known is None or row["value"] < known["value"]:
                worst[row["model_id"]] = row
    return [{**row, "data": EVERY, "axis": WORST_ROUND} for row in worst.values()]


def _rows(folder: Path) -> Iterator[Row]:
    names = {
        path.stem: str(read_json(path).get("name", path.stem)) for path in sorted((folder / MODELS).glob("*.json"))
    }
    for part in data_folders(folder):
        data = read_json(part / DATA)
        for path in sorted(part.glob("*/*.json")):
            found = read_json(path)
            try:
                for value in found["values"]:
                    model = str(found["model"])
                    about = {"model": names.get(model, model), "model_id": model, "data": data["name"]}
                    yield {**about, "axis": found["axis"], **{name: value[name] for name in COLUMNS if name in value}}
            except (KeyError, TypeError) as error:
                raise DataCorrupt(f"{path} is not a stored evaluation; evaluate again") from error


def data_folders(folder: Path) -> list[Path]:
    """Return the folders of the data sets; of those with one name, the newest."""
    found = {path.parent.name: read_json(path) for path in folder.glob(f"*/{DATA}")}
    return [folder / name for name in newest_data(found)]


def newest_data(described: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the folders of data sets, by the descriptions of all; of those with one name, the newest."""
    newest: dict[str, tuple[str, str]] = {}
    for folder, found in described.items():
        if not isinstance(found.get("name"), str) or not isinstance(found.get("created_at"), str):
            raise DataCorrupt(f"{folder}/{DATA} does not describe a data set; evaluate again")
        newest[found["name"]] = max(newest.get(found["name"], ("", folder)), (found["created_at"], folder))
    return [newest[name][1] for name in sorted(newest)]


def json_files(folder: Path) -> dict[str, Row]:
    """Return the content of all JSON files of evaluations by their names below the folder."""
    paths = (path for pattern in ("*/*.json", "*/*/*.json") for path in folder.glob(pattern))
    return {path.relative_to(folder).as_posix(): read_json(path) for path in sorted(paths)}


def read_json(path: Path) -> Row:
    """Return the JSON object in a file of evaluations."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise DataUnreadable(f"cannot read {path}: {error.strerror}; check its permissions") from error
    except (ValueError, RecursionError) as error:
        raise DataCorrupt(f"{path} is not JSON; evaluate again") from error
    if not isinstance(found, dict):
        raise DataCorrupt(f"{path} is not a JSON object; evaluate again")
    return found
