"""Published data in the forms that are imported: real files, and generated rows like those of files that are absent."""

import csv
import json
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SENTIMENT = ("positive", "negative", "neutral")
MODELS = ("bert", "roberta", "xlnet", "albert", "bart", "electra", "deberta", "t5")
LETTERS = ("e", "n", "c")
WORDS = [
    "time",
    "dog",
    "rain",
    "river",
    "house",
    "small",
    "bright",
    "music",
    "quiet",
    "table",
    "seven",
    "often",
    "never",
    "road",
    "light",
]


def real_file(name: str) -> Path:
    """Return a file of the original data set."""
    if not (DATA / name).is_file():
        pytest.skip(f"NOT PROVED: {name} is not in ../shared/data, so its import was not compared with it")
    return DATA / name


def json_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def csv_rows(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def write_jsonl(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSONL."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return file


def write_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as CSV."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def sentence(dice: random.Random) -> str:
    """Return a sentence without meaning."""
    return " ".join(dice.choices(WORDS, k=8)).capitalize() + "."


def dynasent_row(number: int, votes: Mapping[str, int], gold: str | None, model: str = "neutral") -> dict[str, Any]:
    """Return a row of DynaSent with these numbers of votes."""
    workers = iter(f"w{100 * number + one}" for one in range(10))
    return {
        "hit_ids": [f"y{number}"],
        "sentence": sentence(random.Random(number)),
        "sentence_author": f"w{number}",
        "has_prompt": False,
        "prompt_data": None,
        "model_1_label": model,
        "model_1_probs": {"negative": 0.25, "positive": 0.25, "neutral": 0.5},
        "text_id": f"r2-{number:07}",
        "label_distribution": {
            label: [next(workers) for _ in range(votes.get(label, 0))] for label in (*SENTIMENT, "mixed")
        },
        "gold_label": gold,
    }


def anli_folder(root: Path, *, rows: int = 30, seed: int = 1) -> tuple[list[Path], Path, list[dict[str, Any]]]:
    """Write three rounds in ANLI's form; return the files, the file of verifier labels, and all rows."""
    dice = random.Random(seed)
    files, votes, everything = [], [], []
    for number in (1, 2, 3):
        for split in ("train", "dev", "test"):
            own = []
            for _ in range(rows):
                label = dice.choice(LETTERS)
                right = {model: 0.2 + 0.1 * place for place, model in enumerate(MODELS)}
                row = {
                    "uid": str(uuid.UUID(int=dice.getrandbits(128))),
                    "context": sentence(dice),
                    "hypothesis": sentence(dice),
                    "label": label,
                    "model_label": dice.choice(LETTERS),
                    "genre": "wikipedia",
                    "reason": sentence(dice) if split != "train" else "",
                    "predictions": {
                        model: label if dice.random() < share else dice.choice(LETTERS)
                        for model, share in right.items()
                    },
                }
                own.append(row)
                everything.append({**row, "round": number, "split": split})
                if split != "train" or dice.random() < 0.2:
                    other = dice.choice([one for one in LETTERS if one != label])
                    cast = [label, label] if dice.random() < 0.7 else [label, other, label]
                    votes.append({"uid": row["uid"], "verifier labels": cast})
            files.append(write_jsonl(root / f"R{number}" / f"{split}.jsonl", own))
    return files, write_jsonl(root / "verifier_labels_R1-3.jsonl", votes), everything
