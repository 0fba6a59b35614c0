"""The forms of published data: which keys of a row mean what, and what is published about its votes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outfox.arguments import quoted
from outfox.imports.problems import RowError
from outfox.imports.rows import ImportedVote, Labels, count_in, optional_text, text_in

# What a column can be mapped to besides the task's fields.
MEANINGS = (
    "id", "round", "split", "label", "author_label", "answer", "answer_start", "status", "votes", "author", "context",
    "model", "prediction", "confidence", "probabilities", "predictions", "original",
)  # fmt: skip
DYNASENT_NEEDED = 3
ANLI_NEEDED = 2
MIXED = "mixed"


@dataclass(frozen=True)
class Form:
    """A form of published data.

    `columns` has the keys of a meaning, the first that a row has counts; `inputs` those of the model's inputs in order.
    `kind` is the format of its files if their names do not tell it. `partners_elsewhere` says that the other half of a
    contrast pair can be in a file that is not imported.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inputs: tuple[tuple[str, ...], ...] = ()
    reason: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    slices: tuple[str, ...] = ()
    kind: str | None = None
    policy: str = "published"
    partners_elsewhere: bool = False
    gold_may_be_missing: bool = False


GENERIC = {
    "id": ("id", "uid"),
    "round": ("round",),
    "split": ("split",),
    "label": ("gold_label", "label", "label_gold"),
    "author_label": ("author_label",),
    "answer": ("gold_answer", "answer"),
    "answer_start": ("gold_answer_start", "answer_start"),
    "status": ("status",),
    "votes": ("votes",),
    "author": ("author",),
    "context": ("context_id",),
    "model": ("model",),
    "prediction": ("prediction",),
    "confidence": ("confidence",),
    "probabilities": ("probabilities",),
    "predictions": ("predictions",),
    "original": ("original",),
}
# Archives have the author's own label or answer beside the gold one.
ARCHIVE = GENERIC | {
    "label": ("gold_label",),
    "author_label": ("label", "answer"),
    "answer": ("gold_answer",),
    "answer_start": ("gold_answer_start",),
    "split": ("published_split", "split"),
    "context": ("context",),
    "probabilities": (),
    "predictions": (),
}
FORMS = {
    one.name: one
    for one in (
        Form(
            "anli",
            {
                "id": ("uid",),
                "label": ("label",),
                "votes": ("verifier labels", "verifier_labels"),
                "prediction": ("model_label",),
                "model": ("model",),
                "predictions": ("predictions", "model_predictions"),
                "round": ("round",),
                "split": ("split",),
            },
            inputs=(("premise", "context"), ("hypothesis",)),
            reason=("reason",),
            kind="jsonl",
            policy="anli",
        ),
        Form(
            "dynasent",
            {
                "id": ("text_id",),
                "label": ("gold_label",),
                "votes": ("label_distribution",),
                "author": ("sentence_author",),
                "prediction": ("model_1_label", "model_0_label"),
                "probabilities": ("model_1_probs", "model_0_probs"),
                "context": ("prompt_data.review_id", "review_id"),
                "round": ("round",),
                "split": ("split",),
            },
            inputs=(("sentence",),),
            prompt=("prompt_data.prompt_sentence",),
            kind="jsonl",
            policy="dynasent",
            gold_may_be_missing=True,
        ),
        Form(
            "hatemoji",
            {
                "id": ("entry_id",),
                "label": ("label_gold",),
                "round": ("round.base",),
                "split": ("split",),
                "original": ("matched_id",),
            },
            inputs=(("text",),),
            labels={"1": "hateful", "0": "not_hateful"},
            slices=("set", "type", "target"),
            kind="csv",
            partners_elsewhere=True,
        ),
        Form(
            "hatecheck",
            {"id": ("case_id",), "label": ("label_gold",), "original": ("ref_case_id",)},
            inputs=(("test_case",),),
            slices=("functionality", "target_ident", "direction"),
            kind="csv",
        ),
        Form(
            "squad",
            {
                "id": ("id",),
                "answer": ("answer",),
                "answer_start": ("answer_start",),
                "context": ("title",),
                "round": ("round",),
            },
            inputs=(("question",), ("context",)),
            kind="squad",
        ),
        *(Form(kind, GENERIC, kind=kind, gold_may_be_missing=True) for kind in ("csv", "jsonl", "parquet")),
        Form("datasets", GENERIC, gold_may_be_missing=True),
        Form("outfox", ARCHIVE, kind="parquet", gold_may_be_missing=True),
    )
}


def nested(row: Mapping[str, Any], key: str) -> Any:
    """Return the value at a key, or at a path of keys with dots; None if there is none."""
    if key in row or "." not in key:
        return row.get(key)
    found: Any = row
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def votes_in(value: Any, labels: Labels, form: Form) -> list[ImportedVote]:
    """Return the votes on a label.

    They are a list of labels, a list of objects with `worker` and `label`, or an object with the workers of each label;
    in CSV as JSON, or as labels between semicolons.
    """
    if isinstance(value, str):
        value = _json(value) if value.lstrip()[:1] in ("[", "{") else [one.strip() for one in value.split(";")]
    if value is None:
        return []
    if isinstance(value, Mapping):
        given = [(_list(workers), _vote(label, labels, form)) for label, workers in value.items() if workers]
        return [ImportedVote(_worker(worker), label) for workers, label in given for worker in workers]
    found = _list(value)
    if any(isinstance(one, Mapping) and one.get("flag") for one in found):
        return [_flag_or_vote(one, labels, form) for one in found]
    pairs = [(one.get("worker"), one.get("label")) if isinstance(one, Mapping) else (None, one) for one in found]
    return [ImportedVote(_worker(worker), _vote(label, labels, form)) for worker, label in pairs]


def answers_in(value: Any) -> list[ImportedVote]:
    """Return the votes on an answer: a list of objects with `worker`, `answer` and `answer_start`."""
    if isinstance(value, str):
        value = _json(value)
    found = []
    for one in _list(value) if value is not None else ():
        if not isinstance(one, Mapping):
            raise RowError("votes_invalid", f"a vote is {quoted(one)}; write an object with worker and answer")
        answer, start, flag = optional_text(one.get("answer"), "votes"), one.get("answer_start"), one.get("flag")
        at = None if start is None else count_in(start, "answer_start")
        found.append(ImportedVote(_worker(one.get("worker")), answer, at, optional_text(flag, "votes")))
    return found


def _flag_or_vote(one: Any, labels: Labels, form: Form) -> ImportedVote:
    worker, label, flag = (one.get(name) if isinstance(one, Mapping) else None for name in ("worker", "label", "flag"))
    if flag:
        return ImportedVote(_worker(worker), None, flag=text_in(flag, "votes"))
    return ImportedVote(_worker(worker), _vote(label, labels, form))


def status_of(form: Form, gold: str | None, votes: Sequence[ImportedVote], use: str | None) -> str:
    """Return the status that follows from what is published; gold is None if it is no label of the task."""
    if form.name == "anli":
        # Every example of its held-out parts is confirmed by two verifiers; most of those for training have none.
        if votes:
            return "verified" if sum(one.value == gold for one in votes) >= ANLI_NEEDED else "disputed"
        return "unchecked" if use == "train" else "verified"
    return "disputed" if gold is None else "verified"


def _vote(label: Any, labels: Labels, form: Form) -> str:
    if form.name == "dynasent" and label == MIXED:
        return MIXED
    return labels.of(label, "a vote")


def _worker(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and 0 < len(value) <= 200):
        return value
    raise RowError("votes_invalid", f"a worker is {quoted(value)}; write short texts")


def _list(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    raise RowError("votes_invalid", f"the votes are {quoted(value)}; write a list of labels")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise RowError("votes_invalid", f"the votes are {quoted(text)}, which is not valid JSON") from None
