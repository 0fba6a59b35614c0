"""Verdicts: what the target models answered to one text, whether they were fooled, and signed copies for browsers.

Named rules decide when a target counts as fooled. A further rule is a function `(prediction, target, settings) ->
bool`, registered with `fooled_rule` or by another package under the entry point group `outfox.fooled_rules`; task.yaml
then names it.
"""

import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid4

from itsdangerous import BadData, URLSafeSerializer

from common.errors import Hint
from common.messages import filled
from ml_backend.errors import FooledRuleError, VerdictError, VerdictNotTrusted
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from templates.spec import FooledRule, TaskSpec
from templates.text_checks import text_advice
from templates.texts import attempt_text

Rule = Callable[[Prediction, str, FooledRule], bool]

_RULES: dict[str, Rule] = {}
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
MIN_SECRET_LENGTH = 32
MAX_QUOTED_CHARS = 60
# The key of the inputs' hash in a stored verdict.
INPUTS_HASH = "inputs_hash"
_SALT = "outfox.verdict.2"


def fooled_rule(name: str) -> Callable[[Rule], Rule]:
    """Register a rule under a name that task.yaml can use."""

    def register(rule: Rule) -> Rule:
        if _RULES.setdefault(name, rule) is not rule:
            raise FooledRuleError(f"a fooled rule named `{name}` exists already; choose another name")
        return rule

    return register


def find_rule(name: str) -> Rule:
    """Return the rule of that name, built in or from another package."""
    if name in _RULES:
        return _RULES[name]
    for entry in entry_points(group="outfox.fooled_rules", name=name):
        rule: Rule = entry.load()
        return _RULES.setdefault(name, rule)
    raise FooledRuleError(f"unknown fooled rule `{name}`; known rules are {', '.join(sorted(_RULES))}")


@fooled_rule("label_differs")
def label_differs(prediction: Prediction, target: str, settings: FooledRule) -> bool:
    """Fooled when the most likely label is not the target label."""
    if not isinstance(prediction, LabelPrediction):
        raise FooledRuleError("label_differs compares labels, but this model predicts spans; use squad_f1")
    return prediction.label != target


@fooled_rule("squad_f1")
def squad_f1(prediction: Prediction, target: str, settings: FooledRule) -> bool:
    """Fooled when the word F1 of prediction and right answer is below the limit; the limit itself is not fooled."""
    if not isinstance(prediction, SpanPrediction):
        raise FooledRuleError("squad_f1 compares spans, but this model predicts labels; use label_differs")
    return f1_score(prediction.text, target) < settings.below


def ensemble_fooled(mode: str, fooled: Sequence[bool]) -> bool:
    """Return whether several models count as fooled together; a tie is not a majority."""
    if not fooled:
        raise VerdictError("no model answered, so there is no verdict")
    match mode:
        case "any":
            return any(fooled)
        case "all":
            return all(fooled)
        case "majority":
            return sum(fooled) * 2 > len(fooled)
        case _:
            raise FooledRuleError(f"unknown ensemble rule `{mode}`; use any, all or majority")


def answer_words(text: str) -> list[str]:
    """Return the lower-cased words of an answer, without articles and punctuation, as SQuAD counts them."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(prediction: str, truth: str) -> bool:
    """Return whether two answers have the same words in the same order."""
    return answer_words(prediction) == answer_words(truth)


def f1_score(prediction: str, truth: str) -> float:
    """Return the F1 of the words of two answers, from 0 to 1."""
    ours, theirs = answer_words(prediction), answer_words(truth)
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


@dataclass(frozen=True)
class ModelOutput:
    """The prediction of one model version, and whether it was fooled (None while the right answer is not known)."""

    version: str
    prediction: str
    confidence: float
    probabilities: Mapping[str, float]
    fooled: bool | None


@dataclass(frozen=True)
class Verdict:
    """What the models answered to these inputs, judged against the right answer. Its id is unique."""

    id: UUID
    task: str
    inputs_hash: str
    target: str | None
    outputs: tuple[ModelOutput, ...]
    fooled: bool | None
    judged_at: datetime

    @cached_property
    def shown(self) -> ModelOutput:
        """The output that the annotator sees: the first one that agrees with the overall verdict."""
        return next((one for one in self.outputs if one.fooled == self.fooled), self.outputs[0])

    def is_about(self, spec: TaskSpec, fields: Mapping[str, str], target: str | None) -> bool:
        """Return whether this verdict is about exactly these inputs and this right answer."""
        same_inputs = self.inputs_hash == inputs_hash(spec, fields)
        return self.task == spec.name and same_inputs and self.target == target

    def sentence(self, spec: TaskSpec) -> str:
        """Return the message for the annotator, in the task's language."""
        message = {True: spec.messages.fooled, False: spec.messages.not_fooled, None: spec.messages.answered}
        shown = self.shown
        slots = {
            "prediction": _title(spec, shown.prediction),
            "confidence": f"{shown.confidence:.0%}",
            "target": _title(spec, self.target or ""),
        }
        return filled(message[self.fooled], slots)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON-compatible data; `from_json` reads it."""
        return {"id": str(self.id), "task": self.task, **self.to_record(), "fooled": self.fooled}

    def to_record(self) -> dict[str, Any]:
        """Return what examples and attempts store of a verdict next to their own columns (id, task, fooled)."""
        return {
            INPUTS_HASH: self.inputs_hash,
            "target": self.target,
            "said": [dict(vars(one)) for one in self.outputs],
            "judged_at": self.judged_at.isoformat(),
        }

    @classmethod
    def from_json(cls, value: Any) -> "Verdict":
        """Return the verdict that `to_json` wrote; raise VerdictError for anything else."""
        try:
            return _read_verdict(value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise VerdictError(f"invalid verdict ({type(error).__name__}: {error})") from error

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, verdict_id: UUID, task: str, fooled: bool | None) -> "Verdict":
        """Return the verdict that `to_record` stored, with the columns stored next to it."""
        return cls.from_json({**record, "id": str(verdict_id), "task": task, "fooled": fooled})


def shown_verdict(
    spec: TaskSpec, verdict: Verdict, attempt: int | None = None, texts: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a verdict as Label Studio shows it: with advice on the texts, the attempt's number and what it was about.

    The editor keeps a verdict on the page when its text changes, so the verdict quotes the text. Templates choose the
    colour by the number of line ends: one if the model was fooled, two after advice, else none.
    """
    sentence = " ".join(verdict.sentence(spec).split())
    written = next((texts[field.name] for field in spec.with_role("input") if texts.get(field.name)), "")
    about = [attempt_text(spec, attempt)] if attempt is not None else []
    about += [f"“{_shortened(written)}”"] if written else []
    note = f"({': '.join(about)})" if about else ""
    advice = text_advice(spec, texts)
    if advice is not None:
        return notice_lines(advice, f"{sentence} {note}".rstrip())
    return f"{sentence}\n{note}" if verdict.fooled else f"{sentence} {note}".rstrip()


def notice_lines(notice: str, rest: str = "") -> str:
    """Return a notice as Label Studio shows it: with two line ends, by which templates choose the colour."""
    return f"{' '.join(notice.split())}\n\n{rest}"


def _shortened(text: str) -> str:
    """Return the text in one line, with its beginning and its end if it is long: a change is mostly at either."""
    line = " ".join(text.split())
    half = MAX_QUOTED_CHARS // 2
    return line if len(line) <= MAX_QUOTED_CHARS else f"{line[:half].rstrip()} … {line[-half:].lstrip()}"


def judge(
    spec: TaskSpec,
    fields: Mapping[str, str],
    predictions: Sequence[tuple[str, Prediction]],
    target: str | None,
    *,
    now: datetime,
) -> Verdict:
    """Return the verdict on the predictions of the pinned model versions, in the order of the pins."""
    if now.tzinfo is None:
        raise VerdictError("a verdict needs a time with a time zone")
    if target is not None and spec.kind == "classification" and target not in spec.label_names:
        raise VerdictError(f"the target is {target!r}, but the task's labels are {', '.join(spec.label_names)}")
    rule = find_rule(spec.fooled.rule)
    outputs = tuple(
        ModelOutput(
            version=version,
            prediction=prediction.text,
            confidence=prediction.confidence,
            probabilities=dict(prediction.probabilities),
            fooled=None if target is None else rule(prediction, target, spec.fooled),
        )
        for version, prediction in predictions
    )
    together = ensemble_fooled(spec.fooled.ensemble, [bool(one.fooled) for one in outputs])
    fooled = None if target is None else together
    return Verdict(uuid4(), spec.name, inputs_hash(spec, fields), target, outputs, fooled, now)


def inputs_hash(spec: TaskSpec, fields: Mapping[str, str]) -> str:
    """Return the hash of everything that the model reads, in the order in which it reads it."""
    missing = [name for name in spec.model_input if name not in fields]
    if missing:
        raise VerdictError(f"the model also reads `{missing[0]}`, which is missing")
    text = json.dumps([[name, fields[name]] for name in spec.model_input], ensure_ascii=False)
    # surrogatepass: a browser can send half an emoji, which must be hashed rather than crash.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class VerdictSigner:
    """Signs verdicts for one holder. The last secret signs; older ones still verify.

    The holder is the assignment or session that the verdict was shown to: a verdict copied to another is refused.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if not secrets or any(len(secret) < MIN_SECRET_LENGTH for secret in secrets):
            raise VerdictError(
                f"a signing secret needs at least {MIN_SECRET_LENGTH} characters", hint=Hint("check_installation")
            )
        # Escaped: half an emoji, which a browser can send, has no UTF-8 form.
        self._serializer = URLSafeSerializer(list(secrets), salt=_SALT, serializer_kwargs={"ensure_ascii": True})

    def sign(self, verdict: Verdict, holder: str) -> str:
        """Return the verdict as a token that a browser may carry."""
        return str(self._serializer.dumps([holder, verdict.to_json()]))

    def read(self, token: str, holder: str, *, now: datetime, max_age: timedelta) -> Verdict:
        """Return the verdict in a token; raise VerdictNotTrusted for a forged, expired or copied one."""
        try:
            signed_for, value = self._serializer.loads(token)
        except (BadData, TypeError, ValueError) as error:
            raise VerdictNotTrusted("the verdict was not signed here, or was changed on the way") from error
        if signed_for != holder:
            raise VerdictNotTrusted("the verdict was given to another holder")
        verdict = Verdict.from_json(value)
        if not timedelta(0) <= now - verdict.judged_at <= max_age:
            raise VerdictNotTrusted("the verdict has expired; ask the model again")
        return verdict


def _read_verdict(value: Any) -> Verdict:
    judged_at = datetime.fromisoformat(value["judged_at"])
    if judged_at.tzinfo is None:
        raise ValueError("judged_at has no time zone")
    outputs = tuple(_read_output(one) for one in value["said"])
    if not outputs:
        raise ValueError("no model output")
    return Verdict(
        UUID(value["id"]),
        _text(value["task"]),
        _text(value[INPUTS_HASH]),
        None if value["target"] is None else _text(value["target"]),
        outputs,
        _optional_bool(value["fooled"]),
        judged_at,
    )


def _read_output(value: Any) -> ModelOutput:
    return ModelOutput(
        _text(value["version"]),
        _text(value["prediction"]),
        float(value["confidence"]),
        {_text(label): float(share) for label, share in value["probabilities"].items()},
        _optional_bool(value["fooled"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _optional_bool(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError("neither a boolean nor null")
    return value


def _title(spec: TaskSpec, answer: str) -> str:
    return spec.label_title(answer) if answer in spec.label_names else answer
