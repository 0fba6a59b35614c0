"""Examples as files in the form of a known data set: each form writes one file per split, and a data card.

A folder gets all files of an export, or none.
"""

import errno
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

from outfox.arguments import checked_folder, missing, quoted, reason
from outfox.columns import OWN_COLUMNS
from outfox.data_card import NAME, data_card
from outfox.errors import ExportNotWritten, InvalidArgument, NotExportable
from outfox.frames import ATTRS, VALUE_ERRORS, schema_from_text

# A split becomes a file name, and an archive can come from anywhere.
SPLIT = re.compile(r"[A-Za-z0-9_-]{1,64}")
NLI_LETTERS = {"entailment": "e", "neutral": "n", "contradiction": "c"}
# Validators of DynaSent can choose it; models cannot predict it.
MIXED = "mixed"
TRAIN = "train"


def checked_target(form: Any, to: Any) -> tuple[str, Path]:
    """Return the form and the folder of an export."""
    if not isinstance(form, str) or form not in FORMS:
        raise InvalidArgument(f"`form` must be one of {', '.join(sorted(FORMS))}, not {quoted(form)}")
    return form, checked_folder("to", to, "data")


def export_frame(frame: pd.DataFrame, form: str, folder: Path, *, unchecked: bool = False) -> list[Path]:
    """Write all rows that have a split into the folder, and return the files.

    With `unchecked`, examples that nobody checked are written too, to train on, with their author's label.
    """
    about = frame.attrs.get(ATTRS)
    if not isinstance(about, dict):
        remedy = "export one that `outfox.load` returned, with all rounds at once"
        raise NotExportable(f"this DataFrame does not know its task; {remedy}")
    try:
        rows = _rows_with_split(_with_unchecked(frame) if unchecked else frame, about)
        with all_or_nothing(folder) as draft:
            files = FORMS[form](rows, about, draft)
            card = data_card(form, about, frame, rows, files)
            files.append(draft / NAME)
            files[-1].write_text(card, encoding="utf-8")
    except KeyError as error:
        raise NotExportable(f"this DataFrame {missing(error, 'column')}; export one with all columns") from error
    except OSError as error:
        remedy = "choose another folder, or free some disk space"
        raise ExportNotWritten(f"cannot write {folder}{reason(error)}; {remedy}") from error
    except VALUE_ERRORS as error:
        raise NotExportable(
            f"this DataFrame has values that do not fit the form {form}; export one as `outfox.load` returned it"
        ) from error
    return [folder / file.name for file in files]


def _with_unchecked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with the unchecked examples in the split `train`, but for those that repeat a known text."""
    added = (frame["status"] == "unchecked") & frame["split"].isna()
    if "duplicate" in frame:
        added &= frame["duplicate"].isna()
    found = frame.copy()
    for name in ("label", "answer", "answer_start"):
        if f"gold_{name}" in found:
            missing_gold = added & found[f"gold_{name}"].isna()
            found.loc[missing_gold, f"gold_{name}"] = found.loc[missing_gold, name]
    gold = "gold_label" if "gold_label" in found else "gold_answer"
    found.loc[added & found[gold].notna(), "split"] = TRAIN
    return found


def _rows_with_split(frame: pd.DataFrame, about: dict[str, Any]) -> pd.DataFrame:
    rows = frame[frame["split"].notna()]
    if rows.empty:
        raise NotExportable(f"no example of {about['task']} here has a split; only verified examples have one")
    for split in rows["split"].unique():
        if not SPLIT.fullmatch(str(split)):
            raise NotExportable(f"{quoted(split)} is not a valid split; use letters, digits, - and _")
    return rows


@contextmanager
def all_or_nothing(folder: Path) -> Iterator[Path]:
    """Provide a draft folder, whose files are moved into `folder` at the end; after an error nothing has changed."""
    exists = folder.is_dir()
    if folder.exists() and not exists:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    new_parents = [parent for parent in (folder.parent, *folder.parent.parents) if not parent.exists()]
    # Inside an existing folder: it may be a separate disk, or the only writable place.
    draft = (folder if exists else folder.parent) / f".{uuid.uuid4().hex}"
    try:
        for parent in reversed(new_parents):
            parent.mkdir(exist_ok=True)
        draft.mkdir()
        yield draft
        if exists:
            _move_files(draft, folder)
            draft.rmdir()
        else:
            draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        for parent in new_parents:
            with suppress(OSError):  # Another process may have put something there.
                parent.rmdir()
        raise


def _move_files(draft: Path, folder: Path) -> None:
    """Move the draft's files into the folder; if one cannot be moved, restore those that were replaced."""
    files, placed = sorted(draft.iterdir()), []
    # Not in the draft, which is deleted after an error: the replaced files must survive.
    replaced = draft.with_name(f"{draft.name}-before")
    replaced.mkdir()
    try:
        for file in files:
            target = folder / file.name
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with suppress(FileNotFoundError):
                target.rename(replaced / file.name)
        for file in files:
            file.rename(folder / file.name)
            placed.append(folder / file.name)
    except BaseException:
        for target in placed:
            target.unlink()
        for old in replaced.iterdir():
            old.rename(folder / old.name)
        replaced.rmdir()
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _export_anli(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 2 or about["kind"] == "qa":
        raise NotExportable(f"the form anli needs a premise and a hypothesis, which {about['task']} does not have")
    premise, hypothesis = (_field(frame, name) for name in about["inputs"])
    reason = _field(frame, about["reasons"][0]).fillna("") if about["reasons"] else pd.Series("", frame.index)
    is_nli = set(about["labels"]) == set(NLI_LETTERS)
    label, prediction = (_letters(frame[name]) if is_nli else frame[name] for name in ("gold_label", "prediction"))
    rows = {
        "uid": frame["id"],
        # ANLI's own files call it `context`, the `datasets` library `premise`.
        "context": premise,
        "premise": premise,
        "hypothesis": hypothesis,
        "label": label,
        "model_label": prediction,
        "reason": reason,
        "round": frame["round"],
    }
    return _write_jsonl(pd.DataFrame(rows), frame["split"], folder)


def _letters(labels: pd.Series) -> pd.Series:
    """Return ANLI's three labels as its files abbreviate them."""
    unknown = labels[~labels.isin(NLI_LETTERS) & labels.notna()]
    if len(unknown):
        known = ", ".join(NLI_LETTERS)
        raise NotExportable(f"{quoted(unknown.iloc[0])} in {labels.name} is not one of the form anli's labels: {known}")
    return labels.map(NLI_LETTERS)


def _export_dynasent(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 1 or about["kind"] == "qa":
        raise NotExportable(f"the form dynasent needs one text and a label, which {about['task']} does not have")
    prompts = _prompts(frame, about)
    first = [verdicts[0] if verdicts is not None and len(verdicts) else {} for verdicts in frame["verdicts"]]
    rows = {
        # Archives do not contain the HITs of votes.
        "hit_ids": [[] for _ in prompts],
        "sentence": _field(frame, about["inputs"][0]),
        "sentence_author": frame["author"],
        "has_prompt": [prompt is not None for prompt in prompts],
        "prompt_data": prompts,
        "model_1_label": frame["prediction"],
        "model_1_probs": [verdict.get("probabilities") for verdict in first],
        "text_id": frame["id"],
        "label_distribution": [_voters_by_label(votes, [*about["labels"], MIXED]) for votes in frame["votes"]],
        "gold_label": frame["gold_label"],
        "round": frame["round"],
    }
    return _write_jsonl(pd.DataFrame(rows), frame["split"], folder)


def _prompts(frame: pd.DataFrame, about: dict[str, Any]) -> list[dict[str, Any] | None]:
    """Return what each author was shown under DynaSent's names. Its reviews have a rating, contexts do not."""
    shown = frame[[_field(frame, name).name for name in about["contexts"]]]
    texts = ["\n".join(text for text in row if isinstance(text, str)) for row in shown.itertuples(index=False)]
    return [
        {
            "indices_into_review_text": [0, len(text)],
            "review_rating": None,
            "prompt_sentence": text,
            "review_id": context,
        }
        if text
        else None
        for text, context in zip(texts, frame["context"], strict=True)
    ]


def _voters_by_label(votes: Iterable[dict[str, Any]], labels: Sequence[str]) -> dict[str, list[str]]:
    voters: dict[str, list[str]] = {label: [] for label in labels}
    for vote in votes:
        if vote["label"] is not None:
            voters.setdefault(vote["label"], []).append(vote["worker"])
    return voters


def _export_squad(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if about["kind"] != "qa":
        raise NotExportable(f"the form squad is for question answering; {about['task']} is {about['kind']}")
    question, passage = (_field(frame, name).name for name in about["inputs"])
    files = []
    for split, rows in frame.groupby("split"):
        data = []
        for (context, text), asked in rows.groupby(["context", passage], dropna=False, sort=False):
            questions = [
                {"id": row["id"], "question": row[question],
                 "answers": [{"text": row["gold_answer"], "answer_start": int(row["gold_answer_start"])}]}
                for row in asked.to_dict("records")
            ]  # fmt: skip
            title = context if isinstance(context, str) else about["task"]
            data.append({"title": title, "paragraphs": [{"context": text, "qas": questions}]})
        files.append(folder / f"{split}.json")
        files[-1].write_text(_json({"version": "1.1", "data": data}), encoding="utf-8")
    return files


def _export_datasets(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    # One table for all splits: a column that is empty in one of them has the same type in the others.
    schema = schema_from_text(about["schema"])
    table = pa.table({str(name): _arrow_column(frame[name], schema) for name in frame.columns})
    files = []
    for split in sorted(frame["split"].unique()):
        files.append(folder / f"{split}.parquet")
        parquet.write_table(table.filter(pa.compute.equal(table["split"], split)), files[-1])
    return files


def _arrow_column(column: pd.Series, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    """Return a column with the archive's type, which cannot be inferred if all its values are missing."""
    if column.name in schema.names:
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # The caller may have changed the column.
            return pa.array(column, schema.field(column.name).type, from_pandas=True)
    return pa.array(column, from_pandas=True)


def _field(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return the column of a task's field."""
    renamed = name in OWN_COLUMNS and f"field_{name}" in frame
    return frame[f"field_{name}" if renamed else name]


def _write_jsonl(rows: pd.DataFrame, split: pd.Series, folder: Path) -> list[Path]:
    files = []
    for name in sorted(split.unique()):
        files.append(folder / f"{name}.jsonl")
        with files[-1].open("w", encoding="utf-8") as file:
            for row in rows[split == name].to_dict("records"):
                file.write(_json(row) + "\n")
    return files


def _json(value: Any) -> str:
    return json.dumps(_without_pandas_types(value), ensure_ascii=False, allow_nan=False)


def _without_pandas_types(value: Any) -> Any:
    """Return a value that JSON can represent; pandas' missing values become null."""
    if isinstance(value, dict):
        return {name: _without_pandas_types(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_pandas_types(item) for item in value]
    if hasattr(value, "tolist"):
        return _without_pandas_types(value.tolist())
    return None if pd.isna(value) else value


FORMS = {
    "anli": _export_anli,
    "datasets": _export_datasets,
    "dynasent": _export_dynasent,
    "squad": _export_squad,
}
