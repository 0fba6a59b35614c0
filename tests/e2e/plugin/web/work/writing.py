"""Texts for the tests: some fool the task's own model, and some do not."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from ml_backend.targets.loading import load_target
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from ml_backend.verdict import Verdict, judge
from round_manager.models import Context, WorkItem, WorkSession
from templates import find_pack
from tests.e2e.plugin.web.work.stage import WorkStage

# Every n-th of a pack's rows belongs to one part of them.
STEP = 23
MOST_PARTS = 3
LONGEST = 250
WORD = r"[\w'-]"


@dataclass(frozen=True)
class Assigned:
    """A worker's context and target; the target is empty if the worker chooses it."""

    fields: Mapping[str, str]
    target: str | None


@dataclass(frozen=True)
class Texts:
    """One text that the model gets right and one that it does not; the target is a label, or words of the passage."""

    failing: str
    fooling: str
    target: str


class Reader:
    """The very model that answers on the page, asked beside it."""

    def __init__(self, name: str, model: Path) -> None:
        self.pack = find_pack(name)
        self.spec = self.pack.spec
        self.input = self.spec.with_role("input")[0].name
        self._predictor = load_target(model)

    @property
    def version(self) -> str:
        return self._predictor.version

    def verdict(self, given: Assigned, text: str, target: str | None) -> Verdict:
        (answer,) = self._predictor.predict([{**given.fields, self.input: text}])
        return self._verdict(given, text, answer, target)

    def sentence(self, given: Assigned, text: str, target: str | None) -> str:
        """Return the verdict that the page must show for the text."""
        return self.verdict(given, text, target).sentence(self.spec)

    def texts_for(self, given: Assigned, *, beginning: int = 0) -> Texts:
        """Return new texts; another beginning gives other ones, because only new texts earn a bonus."""
        answers: dict[str, tuple[str, Prediction]] = {}
        for place in range(beginning, beginning + MOST_PARTS):
            texts = self._candidates(given, place, following=beginning + 1)
            said = self._predictor.predict([{**given.fields, self.input: text} for text in texts])
            for text, answer in zip(texts, said, strict=True):
                # One text for each answer of the model is enough to choose from.
                answers.setdefault(answer.label if isinstance(answer, LabelPrediction) else answer.text, (text, answer))
            found = self._among(given, list(answers.values()))
            if found:
                return found
        raise AssertionError("the model answers everything alike")

    def _candidates(self, given: Assigned, place: int, following: int) -> list[str]:
        if self.spec.kind == "qa":
            # A model trained on a few rows gives nearly the same answer to all other questions.
            (passage,) = given.fields.values()
            pieces = [*re.split(r"(?<=[.])\s", passage), *re.split(r"(?<=[.;,])\s", passage)]
            return [f"{one.strip('., ')}?" for one in pieces if len(one) < LONGEST]
        # The rows themselves are known texts: each candidate begins like one row and ends like another.
        rows = [row.fields[self.input].split() for row in self.pack.seed[place % STEP :: STEP]]
        others = [*rows[following % len(rows) :], *rows[: following % len(rows)]]
        pairs = zip(rows, others, strict=True)
        return [" ".join([*one[: len(one) // 2], *other[len(other) // 2 :]]) for one, other in pairs]

    def _among(self, given: Assigned, answers: Sequence[tuple[str, Prediction]]) -> Texts | None:
        """One text that is answered right and one that is not, for the same target."""
        for right, answer in answers:
            for target in [given.target] if given.target else self._markable(given, answer):
                if self._verdict(given, right, answer, target).fooled:
                    continue
                for wrong, other in answers:
                    if self._verdict(given, wrong, other, target).fooled:
                        return Texts(right, wrong, target)
        return None

    def _markable(self, given: Assigned, answer: Prediction) -> Iterator[str]:
        """Yield parts of the model's answer that occur once in the passage, so that one drag selects them."""
        said = answer.text if isinstance(answer, SpanPrediction) else ""
        passage = given.fields[self.spec.with_role("context")[0].name]
        for piece in re.findall(rf"{WORD}+(?: {WORD}+)*", said):
            words = piece.split()
            for length in range(min(4, len(words)), 0, -1):
                some = " ".join(words[:length])
                # Once as whole words, and never within longer words.
                if passage.count(some) == 1 and re.search(rf"(?<!{WORD}){re.escape(some)}(?!{WORD})", passage):
                    yield some

    def _verdict(self, given: Assigned, text: str, answer: Prediction, target: str | None) -> Verdict:
        fields = {**given.fields, self.input: text}
        return judge(self.spec, fields, [(self.version, answer)], target, now=datetime.now(UTC))


def newest_session(stage: WorkStage) -> WorkSession:
    """Return the page that was opened last."""
    return stage.sessions()[-1]


def assigned(stage: WorkStage, work: WorkSession, item: int = 0) -> Assigned:
    """Return the context and target that a page shows."""
    with stage.store.read() as session:
        row = session.scalars(select(WorkItem).where(WorkItem.session_id == work.id, WorkItem.item == item)).one()
        return Assigned(session.get_one(Context, row.context_id).fields, row.label)
