"""A round of any size, written directly into a SQLite file for the benchmarks of rounds."""

import random
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select, text

from common.database import EPOCH
from round_manager.database.columns import json_text, public_id
from round_manager.database.store import open_store
from round_manager.examples.submissions import content_sha256
from round_manager.models import Round, RoundStatus
from templates import TaskSpec
from tests.campaign import Campaign, start_campaign
from tests.fakes.clock import NOON

WORKERS = 2_000
CHUNK = 20_000
FIRST_WORKER = 1_000
WAITING = 2_000
COLUMNS = (
    "id, public_id, task_id, round_id, context_id, author_id, source, item, fields, content_sha256, label,"
    " submitted_at, active_ms, tries, verdict_id, verdict, model_version_id, confidence, fooled, status, votes_wanted,"
    " gold_label, decided_at"
)
STATUS = COLUMNS.split(", ").index("status")
FIELDS, VERDICT = (COLUMNS.split(", ").index(name) for name in ("fields", "verdict"))
CONTEXT_COLUMNS = "id, public_id, task_id, key, position, fields, extra, created_at"
ATTEMPT_COLUMNS = (
    "public_id, task_id, round_id, context_id, source, item, number, worker_id, example_id, fields, label,"
    " verdict, model_version_id, confidence, fooled, latency_us, asked_at"
)
# The number of examples per context, and the longest text that an owner may upload.
EXAMPLES_ON_EACH, CONTEXT_LENGTH = 10, 100
FIRST_CONTEXT = 100_000


def fill_round(file: Path, examples: int, votes: int, tries: int) -> None:
    """Write the sentiment task with one open round of the given size, votes and attempts to the file.

    They are written for a tenth as many contexts. The last 2,000 have no votes yet and wait for them.
    """
    url = f"sqlite:///{file}"
    with open_store(url, upgrade=True) as store:
        campaign = start_campaign(store, contexts=None, seeds=True)
    connection = sqlite3.connect(file)
    # This file need not survive a power failure.
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -400000")
    since = (NOON - EPOCH) // timedelta(microseconds=1)
    people = [(FIRST_WORKER + n, "mturk", f"A{n:07}", since) for n in range(WORKERS)]
    connection.executemany(
        "INSERT INTO worker (id, marketplace, external_id, first_seen_at) VALUES (?, ?, ?, ?)", people
    )
    chance = random.Random(7)
    words = sorted({word for row in campaign.pack.seed for word in row.fields["text"].split()})
    shown = [_prompt(chance, words) for _ in range(max(1, examples // EXAMPLES_ON_EACH))]
    connection.executemany(_insert("context", CONTEXT_COLUMNS), _contexts(campaign, since, shown))
    for first in range(1, examples + 1, CHUNK):
        ids = range(first, min(first + CHUNK, examples + 1))
        rows = list(_examples(campaign, chance, since, words, shown, ids, examples - WAITING))
        connection.executemany(_insert("example", COLUMNS), rows)
        connection.executemany(_insert("attempt", ATTEMPT_COLUMNS), _attempts(since, rows, tries))
        connection.executemany(
            "INSERT INTO vote (example_id, author_id, worker_id, source, item, label, voted_at, active_ms)"
            " VALUES (?, ?, ?, 'pages', 0, ?, ?, ?)",
            _votes(campaign.spec, chance, since, rows, votes),
        )
    connection.commit()
    connection.close()


def close_round(file: Path) -> None:
    """Drop pending work, and close the round."""
    with open_store(f"sqlite:///{file}") as store:
        with store.write() as session:
            session.execute(
                text("UPDATE example SET status = 'disputed', decided_at = submitted_at WHERE status = 'pending'")
            )
        for status, at in ((RoundStatus.VALIDATING, "validating_at"), (RoundStatus.CLOSED, "closed_at")):
            with store.write() as session:
                row = session.scalars(select(Round)).one()
                row.status = status
                setattr(row, at, NOON + timedelta(days=40))


def _insert(table: str, columns: str) -> str:
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(',')))})"


def _prompt(chance: random.Random, words: list[str]) -> str:
    return " ".join(chance.choices(words, k=CONTEXT_LENGTH // 5))[:CONTEXT_LENGTH]


def _contexts(campaign: Campaign, since: int, shown: list[str]) -> Iterator[tuple[Any, ...]]:
    for place, prompt in enumerate(shown):
        number, fields = FIRST_CONTEXT + place, json_text({"prompt": prompt})
        key = f"c{number}"
        yield number, public_id(NOON).hex, campaign.task.id, key, number, fields, "{}", since


def _attempts(since: int, rows: list[tuple[Any, ...]], tries: int) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        number, _, task, round, context, author = row[:6]
        for place in range(tries):
            own, at = public_id(NOON + timedelta(milliseconds=number)).hex, since + number * 1_000 - tries + place
            example = number if place == tries - 1 else None
            asked = (row[FIELDS], row[10], row[VERDICT], 1, 0.625, row[18], 3_700, at)
            yield own, task, round, context, "pages", 0, place + 1, author, example, *asked


def _examples(
    campaign: Campaign, chance: random.Random, since: int, words: list[str], shown: list[str], ids: range, decided: int
) -> Iterator[tuple[Any, ...]]:
    labels, (version,) = campaign.spec.label_names, campaign.versions
    for number in ids:
        at = NOON + timedelta(milliseconds=number)
        context = number % len(shown)
        fields = {"prompt": shown[context], "text": " ".join(chance.choices(words, k=chance.randint(8, 20)))}
        label, prediction = chance.choice(labels), chance.choice(labels)
        fooled = label != prediction
        shares = {name: 0.625 if name == prediction else 0.375 / (len(labels) - 1) for name in labels}
        said = {
            "version": version,
            "prediction": prediction,
            "confidence": 0.625,
            "probabilities": shares,
            "fooled": fooled,
        }
        verdict = {"inputs_hash": "0" * 64, "target": label, "said": [said], "judged_at": at.isoformat()}
        verified = chance.random() < 0.7
        yield (
            number,
            public_id(at).hex,
            campaign.task.id,
            campaign.round_id,
            FIRST_CONTEXT + context,
            FIRST_WORKER + min(int(chance.expovariate(1 / 300)), WORKERS - 1),
            "pages",
            0,
            json_text(fields),
            content_sha256(campaign.spec, fields),
            label,
            since + number * 1_000,
            chance.randint(20_000, 200_000),
            chance.randint(1, 5),
            public_id(at).hex,
            json_text(verdict),
            1,
            0.625,
            fooled,
            ("verified" if verified else "disputed") if number <= decided else "pending",
            3,
            label if verified and number <= decided else None,
            since + number * 1_000 + 5_000_000 if number <= decided else None,
        )


def _votes(
    spec: TaskSpec, chance: random.Random, since: int, rows: list[tuple[Any, ...]], votes: int
) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        number, author = row[0], row[5]
        if row[STATUS] == "pending":
            continue
        for place in range(votes):
            # Never the author, never twice.
            worker = FIRST_WORKER + (author - FIRST_WORKER + 1 + place * 401 + number % 397) % WORKERS
            label = row[10] if chance.random() < 0.8 else chance.choice(spec.label_names)
            yield number, author, worker, label, since + number * 1_000 + place, chance.randint(3_000, 30_000)
