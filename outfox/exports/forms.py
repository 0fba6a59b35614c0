"""The forms of an export: each writes one file per split and returns the files."""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

from outfox.arguments import quoted
from outfox.errors import NotExportable
from outfox.frames import schema_from_text

NLI_LETTERS = {"entailment": "e", "neutral": "n", "contradiction": "c"}
# Validators of DynaSent can choose it; models cannot predict it.
MIXED = "mixed"
# The columns that every archive has. A task's field with such a name is in the column `field_…`.
OWN_COLUMNS = frozenset(
    {
        "id", "round", "context", "author", "status", "split", "label", "answer", "answer_start", "gold_label",
        "gold_answer", "gold_answer_start", "model", "prediction", "confidence", "fooled", "verdicts", "judged_at",
        "votes", "tries", "active_ms", "source", "submitted_at", "decided_at", "example", "worker", "flag",
        "comment", "voted_at", "number", "latency_us", "asked_at",
    }
)  # fmt: skip


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
    listed = "".join(f"      - split: {file.stem}\n        path: {file.name}\n" for file in files)
    card = f"---\nconfigs:\n  - config_name: default\n    data_files:\n{listed}---\n\n# {about['task']}\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    return [*files, folder / "README.md"]


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
