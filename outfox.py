"""Outfox's rounds in pandas.

    import outfox

    df = outfox.load("sentiment", rounds=[1, 2], path="archives")
    train = df[df["split"] == "train"]
    votes = outfox.votes("sentiment", path="archives")       # joins by votes["example"] == df["id"]
    outfox.export(df, form="datasets", to="sentiment-data")  # datasets.load_dataset("sentiment-data")

`path` is a folder of archives, as `outfox round freeze` fills it, or one archive of it. A row of `load` is an example:
the fields of its task, the target (`label`, or `answer` with its place), the verdict that the author saw (`model`,
`prediction`, `confidence`, `fooled`, and every model's in `verdicts`), `status`, the label that people agreed on
(`gold_label`), `split` (train or held_out, for verified examples only), the raw `votes`, who and when. People appear
under pseudonyms, the same for authors and validators of one task. docs/rounds-data.md tells every column.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

__all__ = ["OutfoxError", "attempts", "contexts", "export", "iter_load", "load", "metrics", "models", "votes"]

MANIFEST = "manifest.json"
FORMAT = 1
ATTRS = "outfox"
# What the marketplace never confirmed, and what must not be used, was not collected.
NOT_COLLECTED = ("unconfirmed", "withdrawn")
Z95 = 1.959963984540054
Rounds = int | Iterable[int] | None
Columns = Sequence[str] | None


class OutfoxError(Exception):
    """Something that cannot be loaded; the message says what to do about it."""


def load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """The examples of a task's rounds (default: all that are there), one row each.

    Few columns are read much faster than all: `columns=["text", "gold_label", "split"]`. With `verify`, the files must
    have the hashes that their manifests tell.
    """
    return _table("examples", task, rounds, path, columns, verify=verify)


def iter_load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path,
    columns: Columns = None,
    chunk: int = 100_000,
    verify: bool = False,
) -> Iterator[pd.DataFrame]:
    """The same examples as `load` gives, some at a time, for rounds that do not fit into memory."""
    for archive in _archives(path, task, rounds):
        source = archive.file("examples", verify=verify)
        with parquet.ParquetFile(source) as file:
            _check_columns(columns, file.schema_arrow.names, task)
            for batch in file.iter_batches(batch_size=chunk, columns=list(columns) if columns else None):
                frame = batch.to_pandas()
                frame.attrs[ATTRS] = archive.about
                yield frame


def votes(
    task: str, rounds: Rounds = None, *, path: str | Path, columns: Columns = None, verify: bool = False
) -> pd.DataFrame:
    """Every vote, one row each; `example` is the example's `id`, `worker` the validator."""
    return _table("votes", task, rounds, path, columns, verify=verify)


def attempts(
    task: str, rounds: Rounds = None, *, path: str | Path, columns: Columns = None, verify: bool = False
) -> pd.DataFrame:
    """Every question that people put to the models, also those that became no example."""
    return _table("attempts", task, rounds, path, columns, verify=verify)


def contexts(
    task: str, rounds: Rounds = None, *, path: str | Path, columns: Columns = None, verify: bool = False
) -> pd.DataFrame:
    """What people wrote for; `id` is the examples' `context`."""
    return _table("contexts", task, rounds, path, columns, verify=verify)


def models(task: str, rounds: Rounds = None, *, path: str | Path, verify: bool = False) -> pd.DataFrame:
    """The model versions that each round was played against, with their hashes and what they learned from."""
    frame = _table("models", task, rounds, path, None, verify=verify)
    for name in ("files", "data", "settings", "metrics"):
        frame[name] = [json.loads(text) for text in frame[name]]
    return frame


def metrics(task: str, rounds: Rounds = None, *, path: str | Path) -> pd.DataFrame:
    """One row for each round: how often the models were fooled, with 95 % intervals (Wilson).

    `mer` is fooled / collected, `vmer` is verified and fooled / collected; what was withdrawn or never confirmed is not
    collected.
    """
    wanted = ["round", "status", "fooled", "split", "author", "tries", "active_ms"]
    rows = []
    for number, found in load(task, rounds, path=path, columns=wanted).groupby("round"):
        collected = found[~found["status"].isin(NOT_COLLECTED)]
        fooled = collected[collected["fooled"]]
        verified = fooled[fooled["status"] == "verified"]
        row: dict[str, Any] = {"round": number, "collected": len(collected), "fooled": len(fooled)}
        row["verified_fooling"] = len(verified)
        for name, count in (("mer", len(fooled)), ("vmer", len(verified))):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = _wilson(count, len(collected))
        row["example_tries_per_fool"] = _per(collected["tries"].sum(), len(fooled))
        row["author_seconds_per_verified"] = _per(collected["active_ms"].sum() / 1_000, len(verified))
        row["authors"] = collected["author"].nunique()
        row |= {part: int((found["split"] == part).sum()) for part in ("train", "held_out")}
        rows.append(row)
    return pd.DataFrame(rows)


def export(
    data: pd.DataFrame | str,
    form: str,
    to: str | Path,
    *,
    rounds: Rounds = None,
    path: str | Path | None = None,
) -> list[Path]:
    """Files in another form, for all rows that have a split: what `load` gave, or a task's name with `path`.

    `anli`, `squad` and `dynasent` are the forms of those data sets, in a file for each split; `datasets` is a folder
    that Hugging Face's `datasets.load_dataset` reads, with all columns.
    """
    if form not in FORMS:
        raise OutfoxError(f"there is no form {form!r}; choose one of {', '.join(sorted(FORMS))}")
    if isinstance(data, str):
        if path is None:
            raise OutfoxError("give `path` with a task's name, or give what `outfox.load` returned")
        data = load(data, rounds, path=path)
    about = data.attrs.get(ATTRS)
    if about is None:
        raise OutfoxError("this DataFrame does not know its task; take one that `outfox.load` returned")
    folder = Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    return FORMS[form](data[data["split"].notna()], about, folder)


class _Archive(Protocol):
    """A frozen round, wherever it is."""

    @property
    def number(self) -> int:
        """Which round it is."""
        ...

    @property
    def about(self) -> dict[str, Any]:
        """What an export has to know about its task."""
        ...

    def file(self, table: str, *, verify: bool) -> Any:
        """The Parquet file of a table, as pandas and pyarrow open it."""
        ...


@dataclass(frozen=True)
class _FolderArchive:
    """A frozen round in a folder."""

    folder: Path
    manifest: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.manifest["round"])

    @property
    def about(self) -> dict[str, Any]:
        return _about(self.manifest)

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        found = self.folder / name
        if not found.is_file():
            raise OutfoxError(f"{found} is missing; copy the archive again")
        if verify:
            with found.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.manifest["files"][name]["sha256"]:
                    raise OutfoxError(f"{found} was changed (its SHA-256 differs); copy the archive again")
        return found


def _about(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    roles = {field["name"]: field["role"] for field in spec["fields"]}
    return {
        "task": manifest["task"],
        "kind": manifest["kind"],
        "labels": [label["name"] for label in spec["labels"]],
        "inputs": list(spec["model_input"]),
        "contexts": [name for name, role in roles.items() if role == "context"],
        "reasons": [name for name, role in roles.items() if role == "reason"],
    }


def _archives(path: str | Path, task: str, rounds: Rounds) -> list[_Archive]:
    """The archives of the task's rounds, by number."""
    root = Path(path).expanduser()
    alone = (root / MANIFEST).is_file()
    folders = [root] if alone else [file.parent for file in (root / task).glob(f"round-*/{MANIFEST}")]
    found = {one.number: one for one in map(_open, folders) if one.manifest["task"] == task}
    if not found:
        raise OutfoxError(f"there is no archive of {task} at {root}; `outfox round freeze {task}` makes one")
    numbers = sorted(found) if rounds is None else [rounds] if isinstance(rounds, int) else list(rounds)
    missing = [number for number in numbers if number not in found]
    if missing:
        there = ", ".join(map(str, sorted(found)))
        raise OutfoxError(f"round {missing[0]} of {task} is not at {root}; there are rounds {there}")
    return [found[number] for number in numbers]


def _open(folder: Path) -> _FolderArchive:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        known = manifest["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OutfoxError(f"{folder / MANIFEST} cannot be read; copy the archive again") from error
    if not known:
        raise OutfoxError(f"{folder} is of another format than this outfox reads; install the one that wrote it")
    return _FolderArchive(folder, manifest)


def _table(
    table: str,
    task: str,
    rounds: Rounds,
    path: str | Path,
    columns: Columns,
    *,
    verify: bool,
) -> pd.DataFrame:
    archives = _archives(path, task, rounds)
    frames = []
    for archive in archives:
        source = archive.file(table, verify=verify)
        if columns is not None:
            _check_columns(columns, parquet.read_schema(source).names, task)
        frames.append(pd.read_parquet(source, columns=list(columns) if columns is not None else None))
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    frame.attrs[ATTRS] = archives[-1].about
    return frame


def _check_columns(columns: Columns, known: Sequence[str], task: str) -> None:
    odd = [name for name in columns or () if name not in known]
    if odd:
        raise OutfoxError(f"{task} has no column {odd[0]!r}; there are {', '.join(known)}")


def _wilson(count: int, of: int) -> tuple[float, float, float]:
    """A share, and the 95 % interval that it stands for."""
    if of == 0:
        return float("nan"), 0.0, 1.0
    share, z2 = count / of, Z95**2 / of
    middle = (share + z2 / 2) / (1 + z2)
    half = (Z95 / (1 + z2)) * ((share * (1 - share) + z2 / 4) / of) ** 0.5
    return share, max(0.0, middle - half), min(1.0, middle + half)


def _per(total: float, count: int) -> float:
    return float(total) / count if count else float("nan")


def _in_anli_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 2 or about["kind"] == "qa":
        raise OutfoxError(f"ANLI's form is for tasks with a premise and a hypothesis, {about['task']} has not both")
    premise, hypothesis = (_field(frame, name) for name in about["inputs"])
    reason = _field(frame, about["reasons"][0]).fillna("") if about["reasons"] else pd.Series("", frame.index)
    rows = {
        "uid": frame["id"],
        "premise": premise,
        "hypothesis": hypothesis,
        # Its three labels are written by their first letters.
        "label": frame["gold_label"].str[0] if _is_nli(about) else frame["gold_label"],
        "reason": reason,
        "model_label": frame["prediction"],
        "round": frame["round"],
    }
    return _lines(pd.DataFrame(rows), frame["split"], folder)


def _is_nli(about: dict[str, Any]) -> bool:
    return set(about["labels"]) == {"entailment", "neutral", "contradiction"}


def _in_dynasent_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 1 or about["kind"] == "qa":
        raise OutfoxError(f"DynaSent's form is for tasks with one text and labels, {about['task']} is another kind")
    shown = [name for name in about["contexts"] if name in frame]
    first = [said[0] if said is not None and len(said) else {} for said in frame["verdicts"]]
    rows = {
        "text_id": frame["id"],
        "sentence": _field(frame, about["inputs"][0]),
        "sentence_author": frame["author"],
        "model_1_label": frame["prediction"],
        "model_1_probs": [said.get("probabilities") for said in first],
        "label_distribution": [_voters(cast, about["labels"]) for cast in frame["votes"]],
        "gold_label": frame["gold_label"],
        "has_prompt": [bool(shown)] * len(frame),
        "prompt_data": frame[shown].to_dict("records"),
        "round": frame["round"],
    }
    return _lines(pd.DataFrame(rows), frame["split"], folder)


def _voters(cast: Iterable[dict[str, Any]], labels: Sequence[str]) -> dict[str, list[str]]:
    voters: dict[str, list[str]] = {label: [] for label in labels}
    for vote in cast:
        if vote["label"] is not None:
            voters.setdefault(vote["label"], []).append(vote["worker"])
    return voters


def _in_squad_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if about["kind"] != "qa":
        raise OutfoxError(f"SQuAD's form is for question answering, {about['task']} is {about['kind']}")
    question, passage = about["inputs"]
    made = []
    for part, rows in frame.groupby("split"):
        data = []
        for (title, text), asked in rows.groupby(["context", _field(rows, passage).name], dropna=False, sort=False):
            questions = [
                {"id": row["id"], "question": row[_field(rows, question).name],
                 "answers": [{"text": row["gold_answer"], "answer_start": int(row["gold_answer_start"])}]}
                for row in asked.to_dict("records")
            ]  # fmt: skip
            title = title if isinstance(title, str) else about["task"]
            data.append({"title": title, "paragraphs": [{"context": text, "qas": questions}]})
        file = folder / f"{part}.json"
        file.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")
        made.append(file)
    return made


def _in_datasets_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    # One table for all splits: a column that is empty in one of them has the same type in the others.
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    made = []
    for part in sorted(frame["split"].unique()):
        made.append(folder / f"{part}.parquet")
        parquet.write_table(table.filter(pa.compute.equal(table["split"], part)), made[-1])
    files = "".join(f"      - split: {file.stem}\n        path: {file.name}\n" for file in made)
    card = f"---\nconfigs:\n  - config_name: default\n    data_files:\n{files}---\n\n# {about['task']}\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    return [*made, folder / "README.md"]


def _field(frame: pd.DataFrame, name: str) -> pd.Series:
    """The column of a task's field."""
    return frame[f"field_{name}"] if f"field_{name}" in frame else frame[name]


def _lines(rows: pd.DataFrame, split: pd.Series, folder: Path) -> list[Path]:
    made = []
    for part in sorted(split.unique()):
        made.append(folder / f"{part}.jsonl")
        with made[-1].open("w", encoding="utf-8") as file:
            for row in rows[split == part].to_dict("records"):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return made


FORMS = {
    "anli": _in_anli_form,
    "datasets": _in_datasets_form,
    "dynasent": _in_dynasent_form,
    "squad": _in_squad_form,
}
