"""Imported rounds and test suites in the database: their terms, counts and provenance; their rows are in archives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from common.errors import Hint
from outfox.imports.drafts import DraftRound
from outfox.round_metrics import grouped_alpha
from round_manager.audit import note
from round_manager.errors import RoundAlreadyOpen, RoundNumberTaken, SuiteExists, SuiteNotFound
from round_manager.models import ExampleStatus, Round, RoundStatus, RoundTally, Suite, Task
from round_manager.tasks.rounds import list_rounds, live_round, lock_rounds

# The action of the audit log.
IMPORTED = "imported"


@dataclass(frozen=True)
class ImportedFigures:
    """What is known of an imported round without its archive.

    `unjudged` counts the examples, by status, of which it is not known whether they fooled a model.
    """

    votes: int
    alpha: float | None
    unjudged: Mapping[str, int]
    train: int
    held_out: int
    rows: int

    @classmethod
    def of(cls, round: Round) -> "ImportedFigures":
        """Return the figures of a round."""
        return cls(**(round.imported or {})["figures"])


def origin_of(round: Round) -> dict[str, Any]:
    """Return where an imported round comes from; nothing for a collected one."""
    return dict(round.imported["origin"]) if round.imported else {}


def next_number(session: Session, task: Task) -> int:
    """Return the number of a round that is imported now and has none of its own."""
    numbers = [one.number for one in list_rounds(session, task) if one.status is not RoundStatus.DRAFT]
    return max(numbers, default=0) + 1


def same_files(session: Session, task: Task, files: Mapping[str, str]) -> Round | None:
    """Return the round that exactly these files were imported into."""
    found = (one for one in list_rounds(session, task) if one.is_imported)
    return next((one for one in found if origin_of(one)["files"] == dict(files)), None)


def check_numbers(session: Session, task: Task, drafts: Sequence[DraftRound]) -> set[int]:
    """Return the numbers of the rounds that are imported already.

    Raises:
        RoundAlreadyOpen: A round is live; later rounds must have higher numbers.
        RoundNumberTaken: A number belongs to another round.
    """
    rounds = {one.number: one for one in list_rounds(session, task) if one.status is not RoundStatus.DRAFT}
    already = {
        one.number
        for one in drafts
        if one.number in rounds and rounds[one.number].archive_sha256 == one.manifest.sha256
    }
    live = live_round(session, task.id)
    if live is not None and len(already) < len(drafts):
        text = f"round {live.number} of {task.name} is {live.status.value}; close it before you import rounds"
        raise RoundAlreadyOpen(text, hint=Hint("close_round", task=task.name))
    for one in drafts:
        if one.number in rounds and one.number not in already:
            free = max(rounds) + 1
            kind = "an imported" if rounds[one.number].is_imported else "a collected"
            text = f"round {one.number} of {task.name} is {kind} round with other data; give this one another number"
            raise RoundNumberTaken(text, hint=Hint("renumber_round", task=task.name, round=one.number, number=free))
    return already


@dataclass(frozen=True)
class Change:
    """Who imports, why and when."""

    actor: str
    reason: str
    now: datetime


def add_rounds(session: Session, task: Task, drafts: Sequence[tuple[DraftRound, str]], change: Change) -> None:
    """Add rounds that are imported now, with the places of their archives; the task's draft comes after them."""
    lock_rounds(session, task)
    rounds = list_rounds(session, task)
    draft = next((one for one in rounds if one.status is RoundStatus.DRAFT), None)
    if draft is not None:
        numbers = [one.number for one in rounds if one is not draft] + [one.number for one, _ in drafts]
        draft.number = max(numbers) + 1
        session.flush()
    for one, where in drafts:
        _add_round(session, task, one, where, change)


def _add_round(session: Session, task: Task, one: DraftRound, where: str, change: Change) -> None:
    now = change.now
    manifest, origin = one.manifest, dict(one.manifest.origin or {})
    row = Round(
        task_id=task.id,
        number=one.number,
        spec=dict(manifest.spec),
        spec_sha256=manifest.spec_sha256,
        target_fooling=max(1, int(manifest.spec["rounds"].get("target_fooling", 1))),
        budget_cents=0,
        created_at=now,
        imported={"origin": origin, "figures": _figures(one)},
        texts_known=0,
    )
    session.add(row)
    session.flush()
    row.status, row.opened_at, row.validating_at, row.closed_at = RoundStatus.CLOSED, now, now, now
    row.frozen_at, row.archive_uri, row.archive_sha256 = now, where, manifest.sha256
    tallies: dict[tuple[str, bool], int] = {}
    for (status, fooled), number in one.tallies.items():
        tallies[status, bool(fooled)] = tallies.get((status, bool(fooled)), 0) + number
    session.add_all(
        RoundTally(round_id=row.id, status=ExampleStatus(status), fooled=fooled, examples=number)
        for (status, fooled), number in sorted(tallies.items())
    )
    after = {**origin, "archive": where, "sha256": manifest.sha256, "examples": dict(manifest.examples)}
    note(session, IMPORTED, row, actor=change.actor, reason=change.reason, now=now, of=row, after=after)
    session.flush()


def _figures(one: DraftRound) -> dict[str, Any]:
    unjudged: dict[str, int] = {}
    for (status, fooled), number in one.tallies.items():
        if fooled is None:
            unjudged[status] = unjudged.get(status, 0) + number
    splits = one.manifest.splits
    return {
        "votes": one.manifest.files["votes.parquet"].rows,
        "alpha": grouped_alpha(one.cast),
        "unjudged": unjudged,
        "train": splits["train"],
        "held_out": splits["held_out"],
        "rows": one.rows,
    }


def list_suites(session: Session, task: Task) -> list[Suite]:
    """Return the task's test suites by name."""
    return list(session.scalars(select(Suite).where(Suite.task_id == task.id).order_by(Suite.name)))


def find_suite(session: Session, task: Task, name: str) -> Suite:
    """Return the task's test suite of that name."""
    found = session.scalar(select(Suite).where(Suite.task_id == task.id, Suite.name == name))
    if found is None:
        raise SuiteNotFound(f"{task.name} has no test suite {name}", hint=Hint("list_suites", task=task.name))
    return found


def is_suite_known(session: Session, task: Task, draft: DraftRound) -> bool:
    """Return whether the suite is imported already; raise SuiteExists if another one has its name."""
    found = session.scalar(select(Suite).where(Suite.task_id == task.id, Suite.name == draft.manifest.suite))
    if found is not None and found.archive_sha256 != draft.manifest.sha256:
        text = f"{task.name} has a test suite {found.name} with other data; choose another name"
        raise SuiteExists(text, hint=Hint("list_suites", task=task.name))
    return found is not None


def add_suite(session: Session, task: Task, draft: DraftRound, where: str, change: Change) -> None:
    """Add a suite that is imported now."""
    manifest, origin = draft.manifest, dict(draft.manifest.origin or {})
    row = Suite(
        task_id=task.id,
        name=manifest.suite,
        hidden=bool(origin.get("hidden")),
        origin=origin,
        examples=draft.rows,
        archive_uri=where,
        archive_sha256=manifest.sha256,
        imported_at=change.now,
    )
    session.add(row)
    session.flush()
    after = {**origin, "archive": where, "sha256": manifest.sha256, "name": manifest.suite}
    note(session, IMPORTED, row, actor=change.actor, reason=change.reason, now=change.now, of=task, after=after)
