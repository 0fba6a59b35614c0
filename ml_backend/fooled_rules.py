"""When a target counts as fooled: named rules, SQuAD's word F1, and how the verdicts of several models combine.

A further rule is a function `(prediction, target, settings) -> bool`, registered with `fooled_rule` or by another
package under the entry point group `outfox.fooled_rules`; task.yaml then names it.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

from ml_backend.errors import FooledRuleError, VerdictError
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from templates.spec import FooledRule

Rule = Callable[[Prediction, str, FooledRule], bool]

_RULES: dict[str, Rule] = {}
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


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
