"""What the columns of archives and the keys of exports mean; docs/data-columns.md and data cards show it.

People appear under a salted hash that is the same for authors and validators of one task; that of a simulated worker,
as in the demo, begins with `simulated-`. The owner's notes on contexts are not in the archive.

`active_ms` of an example or vote is the page's active time since the worker completed the previous item or opened the
page. Reading the instructions counts towards the first item; time on skipped texts belongs to no item. Every moment of
a worker's time counts once, so pages that were used side by side share it. In Label Studio it is the lead time. It is
empty if the page reported none, and for work before migration 0023. `outfox.metrics` sums it for
`author_seconds_per_verified` (NaN if one example has none). `outfox round metrics` counts more: validation, skipped
texts, gold items and withdrawn examples; if a page reported nothing, the time from acceptance to submission.

`outfox` returns whole numbers as `Int64` and `fooled` as `boolean`, whichever rows are read. Bare pandas returns
`float64` or `object` if a value is missing.
"""

from dataclasses import dataclass

import pyarrow as pa

# Stands for the columns of the task's own fields.
FIELDS = "the task's fields"
# The pseudonyms of simulated workers begin with it.
SIMULATED = "simulated-"

_VERDICT = {
    "model": "the version of the target model; of the first one if there are several",
    "prediction": "what this model predicted",
    "confidence": "the share of probability that this model gave its prediction",
    "fooled": "whether the target was fooled, by the rule of the task",
    "verdicts": "every model's output: `version`, `prediction`, `confidence`, `probabilities` by label (not for qa), "
    "`fooled`",
    "judged_at": "when the models were asked",
}
_SOURCE = "where the work was done: `pages` (worker pages of a marketplace), `label_studio` or `import`"
_ROUND = "the number of the round"
_FIELDS = "for example `prompt`, `text`, `why_right`; a field whose name is taken here is called `field_…`"


@dataclass(frozen=True)
class TableColumns:
    """A table of an archive: what a row is, and the meaning of its columns in their order."""

    row: str
    columns: dict[str, str]


TABLES = {
    "examples": TableColumns(
        "example, whatever its status",
        {
            "id": "the example's id",
            "round": _ROUND,
            "context": "the `id` of the context that the author was shown",
            FIELDS: _FIELDS,
            "label": "the label that the author wrote for",
            "answer": "qa: the answer that the author selected",
            "answer_start": "qa: the position of the answer in the passage, in characters",
            **_VERDICT,
            "status": "`verified`, `disputed`, `unchecked` (not sampled for validation), `pending`, `flagged` or "
            "`withdrawn`; in archives of earlier versions also `unconfirmed`",
            "gold_label": "the label that validators agreed on; in imported rounds the published label",
            "gold_answer": "qa: the answer that validators agreed on",
            "gold_answer_start": "qa: the position of that answer in the passage",
            "split": "`train`, `held_out` or empty; in collected rounds, only verified examples have one",
            "duplicate": "`exact` or `near` if the text repeats a known one; rounds opened before migration 0029 have "
            "neither this column nor the next",
            "duplicate_of": "the known text that it repeats: an example's `id`, `seed:ID` or `context:ID`",
            "author": "the author's pseudonym",
            "votes": "the validators' votes: `worker`, `label` (or `answer` and `answer_start`), `flag`, and "
            "`established` if the task asks for established validators",
            "tries": "how many attempts the author made for it",
            "active_ms": "the author's active time in milliseconds",
            "source": _SOURCE,
            "submitted_at": "when the author submitted it",
            "decided_at": "when its status was decided",
            "published_split": "imported rounds: the name of the example's split where it was published",
            "original": "imported rounds: the `id` of the example that it contrasts with",
        },
    ),
    "votes": TableColumns(
        "vote",
        {
            "example": "the `id` of the example",
            "round": _ROUND,
            "worker": "the validator's pseudonym",
            "label": "the label that the validator chose; empty with a flag",
            "answer": "qa: the answer that the validator selected",
            "answer_start": "qa: the position of the answer in the passage",
            "flag": "why the validator flagged the example instead",
            "comment": "the validator's comment",
            "source": _SOURCE,
            "voted_at": "when the vote was stored",
            "active_ms": "the validator's active time in milliseconds",
            "established": "whether the validator was established when the vote was stored; only with "
            "`validation.established_votes`",
        },
    ),
    "attempts": TableColumns(
        "question put to the models, including those that led to no example",
        {
            "id": "the attempt's id",
            "round": _ROUND,
            "example": "the `id` of the example that it led to; empty if there is none",
            "worker": "the author's pseudonym",
            "context": "the `id` of the context",
            "number": "the number of the attempt, from 1",
            FIELDS: _FIELDS,
            "label": "the label that was asked for",
            "answer": "qa: the answer that the author selected",
            "answer_start": "qa: the position of the answer in the passage",
            **_VERDICT,
            "latency_us": "how long the models took, in microseconds",
            "source": _SOURCE,
            "asked_at": "when the author asked",
        },
    ),
    "contexts": TableColumns(
        "context that the round's work was written for",
        {"id": "the context's id", "round": _ROUND, FIELDS: "those that the author was shown"},
    ),
    "models": TableColumns(
        "model version that the round is played against",
        {
            "version": "the version, as `model` and `verdicts` name it",
            "round": _ROUND,
            "rank": "its place among the models of the round, from 0",
            "parent": "the version that it was trained from",
            "sha256": "the hash of its files",
            "data_sha256": "the hash of its training data",
            "files": "JSON: its files with their hashes",
            "data": "JSON: what it was trained and measured on",
            "settings": "JSON: how it was trained",
            "metrics": "JSON: its figures on held-out data",
            "code_version": "the version of Outfox that trained it",
        },
    ),
}
EXAMPLES = TABLES["examples"].columns
# Columns that archives did not have from the start, or that only imported rounds have: a task's field can have such a
# name, and is in the column `field_…` if the archive has the other one too.
DECISION_COLUMNS = frozenset({"duplicate", "duplicate_of"})
IMPORT_COLUMNS = frozenset({"published_split", "original"})
_LATER = DECISION_COLUMNS | IMPORT_COLUMNS | {"established"}
# The columns that every archive has. A task's field with such a name is in the column `field_…`.
OWN_COLUMNS = frozenset(
    name for table in ("examples", "votes", "attempts", "contexts") for name in TABLES[table].columns
) - {FIELDS, *_LATER}

# The keys of an export's rows: their type and meaning. The form `datasets` has the columns of `examples`.
FORM_KEYS = {
    "anli": {
        "uid": ("string", EXAMPLES["id"]),
        "context": ("string", "the same as `premise`, under the name in ANLI's own files"),
        "premise": ("string", "the first text that the model reads"),
        "hypothesis": ("string", "the second text, which the author wrote"),
        "label": ("string", f"{EXAMPLES['gold_label']}; `e`, `n` or `c` if the labels are ANLI's"),
        "model_label": ("string", f"{_VERDICT['prediction']}, abbreviated in the same way"),
        "reason": ("string", "why the author's label is right; empty if not given"),
        "round": ("int", _ROUND),
    },
    "dynasent": {
        "hit_ids": ("list", "empty: archives do not contain the HITs of votes"),
        "sentence": ("string", "what the author wrote"),
        "sentence_author": ("string", EXAMPLES["author"]),
        "has_prompt": ("bool", "whether the author was shown a context"),
        "prompt_data": (
            "object",
            "the context: its text is `prompt_sentence`, its `id` `review_id`; `review_rating` is null",
        ),
        "model_1_label": ("string", _VERDICT["prediction"]),
        "model_1_probs": ("object", "the first model's probability of each label"),
        "text_id": ("string", EXAMPLES["id"]),
        "label_distribution": ("object", "for each label, the pseudonyms of its voters; `mixed` is always empty"),
        "gold_label": ("string", EXAMPLES["gold_label"]),
        "round": ("int", _ROUND),
    },
    "squad": {
        "title": ("string", "the `id` of the context; one article per context"),
        "paragraphs[].context": ("string", "the passage"),
        "paragraphs[].qas[].id": ("string", EXAMPLES["id"]),
        "paragraphs[].qas[].question": ("string", "the question that the author wrote"),
        "paragraphs[].qas[].answers[].text": ("string", EXAMPLES["gold_answer"]),
        "paragraphs[].qas[].answers[].answer_start": ("int", EXAMPLES["gold_answer_start"]),
    },
}


def type_name(kind: pa.DataType) -> str:
    """Return the name of a column's type; the meaning of a column lists what is nested in it."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "struct"
    return "timestamp (UTC)" if pa.types.is_timestamp(kind) else str(kind)
