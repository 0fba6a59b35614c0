"""The demo's private gold: sentences with a known meaning, written for this demo only and stored below its home."""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from random import Random, SystemRandom

from plugin.simulation.sentences import write
from round_manager.services.context import Actor, ServiceContext
from round_manager.services.gold import show_gold, upload_gold
from templates import Pack
from templates.rows import read_gold
from templates.texts import lookalike_key

FILE = "gold.jsonl"
ITEMS = 60
# The share of sentences that mislead a reader who goes by single words.
HARD = 0.5
REASON = "the demo's own gold"


def gold_file(home: Path, pack: Pack) -> Path:
    """Return the file; it is written once for each demo, so that no other demo has the same sentences."""
    file = home / FILE
    if not file.exists():
        rows = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(pack, SystemRandom()))
        unfinished = file.with_suffix(".part")
        unfinished.write_text(rows, encoding="utf-8")
        unfinished.rename(file)
    return file


def add_gold(context: ServiceContext, actor: Actor, file: Path, pack: Pack) -> None:
    """Upload the file unless the task has had gold before."""
    name, counts = pack.spec.name, show_gold(context, pack.spec.name).counts
    if not counts.items + counts.items_retired:
        upload_gold(
            context,
            actor,
            name,
            lambda spec: read_gold(file, spec),
            file=file.name,
            seed=pack.seed,
            reason=REASON,
        )


def readings(file: Path, pack: Pack) -> Iterator[tuple[str, str]]:
    """Yield each sentence with its label."""
    (text,) = pack.spec.with_role("input")
    for one in read_gold(file, pack.spec):
        yield one.row.fields[text.name], one.row.label or ""


def _rows(pack: Pack, rng: Random) -> Iterator[dict[str, str]]:
    (text,), (shown,) = pack.spec.with_role("input"), pack.spec.with_role("context")
    known = {lookalike_key(row.fields[text.name]) for row in pack.seed}
    known |= {lookalike_key(one.fields[shown.name]) for one in pack.contexts}
    number = 0
    for label in cycle(pack.spec.label_names):
        if number == ITEMS:
            return
        sentence = write(rng.choice(pack.contexts).fields[shown.name], label, rng, skill=HARD).text
        if lookalike_key(sentence) not in known:
            known.add(lookalike_key(sentence))
            number += 1
            yield {"id": f"gold-{number}", text.name: sentence, "label": label}
