"""What the next model of a task learns from and is measured on: its seed, and every closed round's splits.

No row to train on has the content of a held-out row, of the seed's or of any round's, whoever wrote it and in whatever
round: a copy of it is left out, and so is a second copy of a row that is used already.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from common.text import count
from ml_backend.hashing import rows_sha256
from ml_backend.manifest import DataSource
from round_manager.errors import NothingToLearn, RoundError
from round_manager.examples.submissions import content_sha256
from round_manager.models import AuditEntry, Example, ExampleStatus, Round, RoundStatus, Split, Task
from templates import SeedRow, TaskSpec

ROWS_AT_A_TIME = 1_000
SEED = "seed"
# The audit log's word for a round whose splitting came to its end.
SPLIT = "split"


@dataclass(frozen=True)
class HeldOut:
    """Rows that no model of the task learns from: the seed's, or a round's."""

    name: str
    round_id: int | None
    rows: tuple[SeedRow, ...]
    sha256: str


@dataclass(frozen=True)
class TrainingRows:
    """The rows to train on with the seed's held-out ones, where they come from, and all that models are measured on.

    The seed's held-out rows may choose an epoch; those of rounds choose nothing, so that they measure honestly.
    """

    rows: tuple[SeedRow, ...]
    sources: tuple[DataSource, ...]
    held_out: tuple[HeldOut, ...]
    last: Round


def training_rows(
    session: Session, task: Task, spec: TaskSpec, seed: Sequence[SeedRow], *, up_to: int | None = None
) -> TrainingRows:
    """The rows of all closed rounds, or of those up to a number; NothingToLearn where the last of them adds nothing."""
    rounds = [one for one in closed_rounds(session, task) if up_to is None or one.number <= up_to]
    if not rounds:
        raise RoundError(f"{task.name} has no closed round to learn from; `outfox round close {task.name}` closes one")
    for one in rounds:
        _check_split(session, task, one)
    held_out = [_held_out(SEED, None, [row for row in seed if row.split == "held_out"], spec)]
    for one in rounds:
        rows = [row for row in _examples(session, one, Split.HELD_OUT, spec) if row is not None]
        held_out.append(_held_out(f"round {one.number}", one.id, rows, spec))
    chooser = _Chooser(spec, {_content(row, spec) for part in held_out for row in part.rows})
    chooser.take(None, (row for row in seed if row.split == "train"))
    for one in rounds:
        chooser.take(one.number, _examples(session, one, Split.TRAIN, spec))
    if not chooser.sources[-1].rows:
        raise NothingToLearn(_nothing_new(task, rounds[-1], chooser.sources[-1].left_out))
    rows_of_all = (*chooser.rows, *held_out[0].rows)
    measured_on = tuple(part for part in held_out if part.rows)
    return TrainingRows(rows_of_all, tuple(chooser.sources), measured_on, rounds[-1])


def closed_rounds(session: Session, task: Task) -> list[Round]:
    """The task's closed rounds, the first one first."""
    closed = select(Round).where(Round.task_id == task.id, Round.status == RoundStatus.CLOSED)
    return list(session.scalars(closed.order_by(Round.number)))


class _Chooser:
    """Takes rows from one place after the other, each content once, and none that is held out."""

    def __init__(self, spec: TaskSpec, held_out: set[str]) -> None:
        self._spec = spec
        self._seen = held_out
        self.rows: list[SeedRow] = []
        self.sources: list[DataSource] = []

    def take(self, round_number: int | None, rows: Iterator[SeedRow | None]) -> None:
        taken, left_out = [], 0
        for row in rows:
            content = _content(row, self._spec) if row else None
            if row is None or content is None or content in self._seen:
                left_out += 1
                continue
            self._seen.add(content)
            taken.append(row)
        sha256 = rows_sha256(taken, self._spec)
        self.rows += taken
        self.sources.append(DataSource(round=round_number, sha256=sha256, rows=len(taken), left_out=left_out))


def _content(row: SeedRow, spec: TaskSpec) -> str:
    return content_sha256(spec, row.fields)


def _held_out(name: str, round_id: int | None, rows: Sequence[SeedRow], spec: TaskSpec) -> HeldOut:
    return HeldOut(name, round_id, tuple(rows), rows_sha256(rows, spec))


def rows_to_learn(session: Session, round: Round) -> int | None:
    """How many examples of a closed round are to train on, as was written down when all were split; None before."""
    written = select(AuditEntry.after).where(AuditEntry.round_id == round.id, AuditEntry.action == SPLIT)
    report = session.scalar(written.order_by(AuditEntry.id).limit(1))
    return None if report is None else int(report.get("train", 0))


def _check_split(session: Session, task: Task, round: Round) -> None:
    verified = exists().where(Example.round_id == round.id, Example.status == ExampleStatus.VERIFIED)
    if session.scalar(select(verified)) and rows_to_learn(session, round) is None:
        cure = f"`outfox round freeze {task.name} --round {round.number}` splits it"
        raise RoundError(f"round {round.number} of {task.name} is closed but not split yet; {cure}")


def _nothing_new(task: Task, last: Round, left_out: int) -> str:
    if left_out:
        return (
            f"every row of round {last.number} of {task.name} is a copy of another or does not fit the task any more"
            f" ({count(left_out, 'row')}); nothing is to be learned, and the model stays as it is"
        )
    return (
        f"round {last.number} of {task.name} has no verified example to train on; the model stays as it is,"
        f" and `outfox round open {task.name}` opens the next round against it"
    )


def _examples(session: Session, round: Round, split: Split, spec: TaskSpec) -> Iterator[SeedRow | None]:
    """The verified examples of one split as rows; None for one that does not fit the task any more."""
    columns = select(Example.public_id, Example.fields, Example.gold_label, Example.gold_answer)
    mine = (Example.round_id == round.id, Example.split == split, Example.status == ExampleStatus.VERIFIED)
    found = session.execute(columns.where(*mine).order_by(Example.id).execution_options(yield_per=ROWS_AT_A_TIME))
    for own_id, fields, label, answer in found:
        yield _row(str(own_id), split, fields, label, answer, spec)


def _row(
    own_id: str, split: Split, fields: dict[str, Any], label: str | None, answer: dict[str, Any] | None, spec: TaskSpec
) -> SeedRow | None:
    read = {name: fields.get(name) for name in spec.model_input}
    texts = {name: text for name, text in read.items() if isinstance(text, str) and text.strip()}
    if len(texts) < len(read):
        return None
    if spec.kind == "classification":
        return SeedRow(own_id, split.value, texts, label, None, None, {}) if label in spec.label_names else None
    text, start = (answer or {}).get("text"), (answer or {}).get("start")
    passage = texts[spec.model_input[1]]
    if not isinstance(text, str) or not text.strip():
        return None
    if not isinstance(start, int) or passage[start : start + len(text)] != text:
        start = passage.find(text)
    return SeedRow(own_id, split.value, texts, None, text, start, {}) if start >= 0 else None
