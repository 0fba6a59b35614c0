"""Frozen rounds of Outfox in pandas.

    import outfox

    df = outfox.load("sentiment", rounds=[1, 2], path="archives")
    train = df[df["split"] == "train"]
    votes = outfox.votes("sentiment", path="archives")       # joins by votes["example"] == df["id"]
    outfox.export(df, form="datasets", to="sentiment-data")  # datasets.load_dataset("sentiment-data")

To read several tables, open the task once:

    data = outfox.open("sentiment", url="https://outfox.example.org", token="outfox-data-…")
    data.examples(columns=["text", "gold_label", "split"])
    data.votes()
    data.metrics()

`path` is a folder of archives, a task's folder in it, or one archive. `url` is the address of an Outfox server; `token`
comes from the task's owner and is not needed if the task is public. Both return the same data. Downloaded files are
cached in ~/.cache/outfox (or below XDG_CACHE_HOME); the least recently used are deleted when the cache exceeds
`outfox.CACHE_BYTES` (10 GiB).

With `verify=True`, files must have the hashes in their manifests. Every failure is an `OutfoxError`, whose message says
in one line what to do; `outfox.errors` lists its subclasses.

A row of `load` is an example: the fields of its task, the target (`label`, or `answer` with its position), the verdict
that the author saw (`model`, `prediction`, `confidence`, `fooled`, and every model's verdict in `verdicts`), `status`,
the label that people agreed on (`gold_label`), `split` (train or held_out, for verified examples only), the raw
`votes`, the author and the times. Workers appear under pseudonyms, the same for authors and validators of one task.
docs/data-columns.md describes every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outfox.arguments import Columns, Rounds, checked_flag, checked_rounds, checked_verify, quoted
from outfox.dynascore import dynascore
from outfox.errors import (
    AccessDenied,
    ArchiveExists,
    CacheUnusable,
    DataCorrupt,
    DataNotFound,
    DataUnreadable,
    EvaluationFailed,
    EvaluatorMissing,
    ExportNotWritten,
    ImportNotWritten,
    InvalidArgument,
    ModelRefused,
    NotExportable,
    NotImportable,
    OutfoxError,
    ServerError,
    ServerUnavailable,
    TransferCorrupt,
)

# pandas takes a while to import, and Outfox itself writes archives without it.
if TYPE_CHECKING:
    import pandas as pd

    from outfox.imports.rounds import ImportReport
    from outfox.task_data import TaskData

__version__ = "0.2.0"

__all__ = [
    "AccessDenied", "ArchiveExists", "CacheUnusable", "DataCorrupt", "DataNotFound", "DataUnreadable",
    "EvaluationFailed", "EvaluatorMissing", "ExportNotWritten", "ImportNotWritten", "InvalidArgument",
    "ModelRefused", "NotExportable", "NotImportable", "OutfoxError", "ServerError", "ServerUnavailable", "TaskData",
    "TransferCorrupt", "attempts", "compare", "contexts", "dynascore", "evaluate", "evaluations", "export",
    "import_rounds", "import_suite", "iter_load", "leaderboard", "load", "metrics", "models", "open", "submissions",
    "submit", "votes",
]  # fmt: skip

# How many bytes of downloaded files are kept.
CACHE_BYTES = 10 * 2**30


def open(  # noqa: A001 - callers write outfox.open, as they write gzip.open
    task: str,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    rounds: Rounds = None,
    verify: bool = False,
) -> TaskData:
    """Open a task's frozen rounds (default: all of them) in a folder or on a server.

    Pass either `path` or `url`, with a `token` if the task is not public. With `verify`, every file that is read must
    have the hash in its manifest. The result reads the tables: `examples()`, `votes()`, `attempts()`, `contexts()`,
    `models()`, `metrics()` and `export()`.
    """
    from outfox.task_data import open_task_data

    return open_task_data(task, path, url, token, rounds, verify=verify, cache_bytes=CACHE_BYTES)


def load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return the examples of a task's rounds (default: all of them), one row each.

    Reading a few columns is much faster than reading all of them: `columns=["text", "gold_label", "split"]`. Whole
    numbers are Int64 and yes or no is boolean, even if values are missing.
    """
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).examples(columns)


def iter_load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    chunk: int = 100_000,
    verify: bool = False,
) -> Iterator[pd.DataFrame]:
    """Return the same examples as `load` in frames of at most `chunk` rows, for rounds that do not fit into memory.

    Wrong arguments raise here, not when the first frame is taken.
    """
    data = open(task, path=path, url=url, token=token, rounds=rounds, verify=verify)
    return data.iter_examples(columns, chunk=chunk)


def votes(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return the votes, one row each: `example` is the `id` of the example, `worker` the validator."""
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).votes(columns)


def attempts(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return every question that workers put to the models, including those that did not become an example."""
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).attempts(columns)


def contexts(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return what workers were shown: `id` is the `context` of the examples."""
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).contexts(columns)


def models(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return the model versions of each round, with their hashes and their training data."""
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).models()


def metrics(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Return how often the models were fooled, one row per round; `TaskData.metrics` explains the columns."""
    return open(task, path=path, url=url, token=token, rounds=rounds, verify=verify).metrics()


def export(
    data: pd.DataFrame | str,
    form: str,
    to: str | Path,
    *,
    rounds: Rounds = None,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    verify: bool = False,
    unchecked: bool = False,
) -> list[Path]:
    """Write the rows that have a split as files of another form, and return the files.

    `data` is a DataFrame that `load` returned, or a task's name with `path` or `url`. The forms `anli`, `squad` and
    `dynasent` have one file per split, with the keys of those data sets; `datasets` is a folder that Hugging Face's
    `datasets.load_dataset` reads, with all columns. Each has a data card, README.md, which is the last of the files.
    Either all files are written or nothing changes; other files in an existing folder stay. `rounds` and `verify` apply
    to a task's name, as in `load`. With `unchecked`, examples that no validator saw are in the split `train` too, with
    their author's label; those that repeat a known text are left out. Their status and the card say what they are.
    """
    import pandas as pd

    from outfox.exports import checked_target, export_frame

    checked_form, folder = checked_target(form, to)
    if isinstance(data, str):
        data = load(data, rounds, path=path, url=url, token=token, verify=verify)
    elif not isinstance(data, pd.DataFrame):
        raise InvalidArgument(f"`data` must be a DataFrame or a task's name, not {quoted(data)}")
    elif checked_verify(verify) or rounds is not None:
        raise InvalidArgument("a DataFrame is exported as it is; pass `rounds` and `verify` to `outfox.load`")
    return export_frame(data, checked_form, folder, unchecked=checked_flag("unchecked", unchecked))


def import_rounds(
    data: pd.DataFrame | str | Path | Iterable[str | Path],
    task: str,
    *,
    form: str,
    source: str,
    licence: str,
    to: str | Path = "archives",
    citation: str = "",
    rounds: int | Sequence[int] = (),
    splits: str | Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    label_map: Mapping[str, str] | None = None,
    slices: Sequence[str] = (),
    votes: str | Path | Sequence[str | Path] = (),
    labels: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Write published rounds as archives below the folder `to`, which `load` reads and `outfox round verify` checks.

    `data` is one or several files or folders, or a DataFrame. `form` is `anli`, `dynasent`, `hatemoji`, `hatecheck`,
    `squad`, `csv`, `jsonl`, `parquet`, `datasets` (a folder of Hugging Face's `datasets`) or `outfox` (archives). A
    `source` and a `licence` are required. Rounds and splits come from the rows or from the files' names; `rounds` and
    `splits` set them for all files, or for each. Without splits, a part is held out; contrast pairs stay together.

    `columns` maps a field, or a meaning such as `id`, `label`, `votes` or `original`, to its column; `label_map`
    published labels to the task's. `slices` are columns to keep, by which models are compared. `votes` are files of
    votes by id, such as ANLI's verifier labels. `labels` and `inputs` define the task if the form does not, and if `to`
    has no archive of it. Either all rounds are written or none; `dry_run` only checks. NotImportable has all mistakes
    with their lines.
    """
    return _import(
        data, task, form, source, licence, to, citation, rounds, splits, columns, label_map, slices, votes, labels,
        inputs, dry_run=dry_run,
    )  # fmt: skip


def import_suite(
    data: pd.DataFrame | str | Path | Iterable[str | Path],
    task: str,
    name: str,
    *,
    form: str,
    source: str,
    licence: str,
    to: str | Path = "archives",
    citation: str = "",
    columns: Mapping[str, str] | None = None,
    label_map: Mapping[str, str] | None = None,
    slices: Sequence[str] = (),
    labels: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    hidden: bool = False,
    dry_run: bool = False,
) -> ImportReport:
    """Write a published test suite as an archive of its own, which belongs to no round; see `import_rounds`.

    All of its rows are held out. `slices` are its groups, such as HateCheck's functional tests. Models are scored on a
    `hidden` suite, and no server lets anyone download it.
    """
    return _import(
        data, task, form, source, licence, to, citation, (), (), columns, label_map, slices, (), labels, inputs,
        suite=name, hidden=checked_flag("hidden", hidden), dry_run=dry_run,
    )  # fmt: skip


def _import(
    data: Any,
    task: str,
    form: str,
    source: str,
    licence: str,
    to: str | Path,
    citation: str,
    rounds: int | Sequence[int],
    splits: str | Sequence[str],
    columns: Mapping[str, str] | None,
    label_map: Mapping[str, str] | None,
    slices: Sequence[str],
    votes: str | Path | Sequence[str | Path],
    labels: Sequence[str] | None,
    inputs: Sequence[str] | None,
    *,
    suite: str | None = None,
    hidden: bool = False,
    dry_run: bool,
) -> ImportReport:
    from outfox.imports.rounds import import_into

    return import_into(
        data, task, form=form, to=to, source=source, licence=licence, citation=citation,
        rounds=checked_rounds(rounds) or [] if isinstance(rounds, int) or rounds else [],
        splits=[splits] if isinstance(splits, str) else list(splits),
        columns=dict(columns or {}), values={str(name): label for name, label in (label_map or {}).items()},
        slices=[slices] if isinstance(slices, str) else list(slices),
        votes=[Path(one) for one in ([votes] if isinstance(votes, str | Path) else votes)],
        labels=labels, inputs=inputs, suite=suite, hidden=hidden, dry_run=dry_run,
    )  # fmt: skip


def evaluate(
    models: Mapping[str, str | Path] | Sequence[str | Path] | str | Path,
    task: str,
    *,
    path: str | Path,
    on: str | Path | Sequence[str | Path] | None = None,
    axes: str | Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    yes: bool = False,
    slices: Sequence[str] = (),
    pack: str | Path | None = None,
) -> pd.DataFrame:
    """Measure models on the seed, on every frozen round, on test suites or on files, and return all figures.

    `models` maps names to what `outfox evaluate` takes: a version, a folder with a Hugging Face or ONNX model, a model
    of the hub, or a file of predictions. `on` names data sets (default: the seed and the rounds), `axes` the axes
    (default: performance and calibration). `labels` says what the labels of a model mean, for example
    {"LABEL_0": "negative", ...}; `yes` accepts a mapping that their names only suggest. `slices` are columns of files.
    `pack` is the task's pack, for its seed, if it has another name than the task.

    The frame has one figure per row: model, model_id, data, round (missing for other data sets), slice (empty: all
    rows), axis, metric, n, value, low, high. Shares are in points. `DataFrame.attrs["notes"]` says which figures there
    are none of, and why. Figures are stored next to the archives at `path` and not measured twice. Needs the package
    `outfox`; see `outfox.evaluations` for reading what is stored.
    """
    from outfox.evaluator import evaluate_frame

    return evaluate_frame(models, task, path, on=on, axes=axes, labels=labels, yes=yes, slices=slices, pack=pack)


def evaluations(task: str, *, path: str | Path) -> pd.DataFrame:
    """Return the stored figures of all models on all data sets of a task, as `evaluate` returns them."""
    from outfox.stored_evaluations import stored_evaluations

    return stored_evaluations(task, path)


def compare(data: pd.DataFrame, *, path: str | Path | None = None) -> pd.DataFrame:
    """Compare every two models of a frame of `evaluate` or `evaluations` on each data set, row by row.

    One row per pair: the difference of the mean scores, which go from 0 to 1, with its 95 % interval, the test, its
    p-value, and the p-value after Holm's correction for all pairs and data sets. `path` is the folder of archives, if
    it has moved.
    """
    from outfox.evaluator import compare_frame

    return compare_frame(data, path)


def leaderboard(
    task: str,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    board: str | None = None,
    weights: Mapping[str, float] | None = None,
    data_weights: Mapping[str, float] | None = None,
    form: str = "wide",
) -> pd.DataFrame:
    """Return a task's leaderboard from what is stored in a folder of archives, or from a server.

    The form `wide` has one row per model, best first: rank, Dynascore, each axis, the performance on each data set
    with its 95 % interval, and what `dynascore` says about the next model. `long` has one figure per row, with slices.
    Weights are those of `dynascore`; `board` is the name or the key of a board on the server, with its own weights. The
    leaderboard has the seed, the rounds and the test suites; `evaluations` also has files. Of hidden data sets, it has
    no figures of fewer than 50 rows.
    """
    from outfox.ranking import leaderboard_frame

    return leaderboard_frame(
        task, path, url, token, board=board, weights=weights, data_weights=data_weights, form=form
    )  # fmt: skip


def submit(
    task: str,
    model: str | Path,
    *,
    url: str,
    token: str,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    on: str | Sequence[str] | None = None,
    anonymous: bool = True,
) -> dict[str, Any]:
    """Submit a model to a task's server, which evaluates it on every data set, also on hidden ones.

    `model` is a folder with a Hugging Face model (safetensors) or an ONNX file with its tokenizer, or a CSV or Parquet
    file of predictions with the columns id and prediction. `labels` says what the labels of the model mean, for example
    {"LABEL_0": "negative", ...}. `on` names the data sets of predictions (default: every frozen round). Unless
    `anonymous` is False, others see neither the name nor the model's card.

    Returns the submission: its `id`, its `state` (queued, running, succeeded, failed, cancelled), `results` and
    `failure`. The same content is submitted once, however often this is called.
    """
    from outfox.model_submissions import submit_files

    return submit_files(task, model, url=url, token=token, name=name, labels=labels, on=on, anonymous=anonymous)


def submissions(task: str, *, url: str, token: str) -> pd.DataFrame:
    """Return the models that were submitted with a token, newest first, with their states and failures."""
    import pandas as pd

    from outfox.model_submissions import list_submissions

    columns = [
        "id",
        "name",
        "visibility",
        "kind",
        "state",
        "position",
        "created_at",
        "finished_at",
        "failure",
        "results",
    ]
    return pd.DataFrame(list_submissions(task, url=url, token=token), columns=columns)


def __getattr__(name: str) -> Any:
    """Import the class that `open` returns when it is first used."""
    if name != "TaskData":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from outfox.task_data import TaskData

    return TaskData
