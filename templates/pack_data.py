"""Seed rows and contexts of a pack, imported from CSV or JSONL files."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from templates.context_file import read_context_file, read_rows
from templates.pack import Pack, load_pack, replace_files
from templates.rows import Context, SeedRow, read_seed
from templates.spec import TaskSpec

# Of the rows of a label, one in this many is held out; of fewer rows, the last one.
HELD_OUT_EVERY = 5
WHOLE_NUMBERS = ("answer_start",)


def fill_pack(pack: Pack, *, seed: Path | None = None, contexts: Path | None = None) -> Pack:
    """Replace a pack's seed or contexts by a file's rows; raise a PackError with all mistakes and change nothing."""
    files: dict[str, str] = {}
    if seed is not None:
        rows = read_seed(seed, pack.spec, _with_splits(seed, pack.spec))
        files["seed.jsonl"] = _jsonl(_seed_data(row) for row in rows)
    if contexts is not None:
        found = list(read_context_file(contexts, pack.spec))
        files["contexts.jsonl"] = _jsonl(_context_data(one, pack.spec) for one in found)
    replace_files(pack, files)
    return load_pack(pack.folder)


def fill_new_pack(pack: Pack, *, seed: Path | None, contexts: Path | None) -> Pack:
    """Fill a pack that was just made; an error leaves nothing of it behind."""
    try:
        return fill_pack(pack, seed=seed, contexts=contexts)
    except BaseException:
        shutil.rmtree(pack.folder, ignore_errors=True)
        raise


def _with_splits(path: Path, spec: TaskSpec) -> Iterator[tuple[int, dict[str, Any]]]:
    answer = "label" if spec.kind == "classification" else "answer"
    rows = list(read_rows(path, [*spec.model_input, answer]))
    label = "label" if spec.labels else None
    totals, seen = Counter(str(row.get(label or "")) for _, row in rows), Counter[str]()
    is_split = any("split" in row for _, row in rows)
    for number, row in rows:
        data = {name: int(value) if name in WHOLE_NUMBERS and str(value).isdecimal() else value
                for name, value in row.items()}  # fmt: skip
        if not is_split:
            key = str(data.get(label or ""))
            seen[key] += 1
            every = min(HELD_OUT_EVERY, max(2, totals[key]))
            data["split"] = "train" if seen[key] % every else "held_out"
        yield number, data


def _seed_data(row: SeedRow) -> dict[str, Any]:
    answer = {"answer": row.answer, "answer_start": row.answer_start} if row.answer is not None else {}
    label = {"label": row.label} if row.label is not None else {}
    return {"id": row.id, "split": row.split, **row.fields, **label, **answer, **row.extra}


def _context_data(context: Context, spec: TaskSpec) -> dict[str, Any]:
    targets = {} if context.targets == spec.label_names else {"targets": list(context.targets)}
    return {"id": context.id, **context.fields, **targets, **context.extra}


def _jsonl(rows: Iterator[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
