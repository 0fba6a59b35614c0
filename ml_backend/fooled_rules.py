"""When a model counts as fooled: named rules, and how several models' cases are put together.

A further rule is a function `(answer, target, settings) -> bool`, registered in the program with `fooled_rule` or by
another package under the entry point group `outfox.fooled_rules`; task.yaml then names it.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

from ml_backend.errors import VerdictError
from ml_backend.squad import f1_score
from ml_backend.targets.target import LabelPrediction, Prediction, SpanPrediction
from templates.spec import FooledRule

Rule = Callable[[Prediction, str, FooledRule], bool]

_RULES: dict[str, Rule] = {}


def fooled_rule(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule under a name that task.yaml can use."""

    def register(rule: Rule) -> Rule:
        if _RULES.setdefault(name, rule) is not rule:
            raise VerdictError(f"there is already a fooled rule `{name}`; choose another name")
        return rule

    return register


def find_rule(name: str) -> Rule:
    """The rule of that name, ours or another package's."""
    if name in _RULES:
        return _RULES[name]
    for entry in entry_points(group="outfox.fooled_rules", name=name):
        rule: Rule = entry.load()
        return _RULES.setdefault(name, rule)
    raise VerdictError(f"there is no fooled rule `{name}`; known are {', '.join(sorted(_RULES))}")


@fooled_rule("label_differs")
def label_differs(answer: Prediction, target: str, settings: FooledRule) -> bool:
    """Fooled when the likeliest label is not the target; for one text and for pairs."""
    if not isinstance(answer, LabelPrediction):
        raise VerdictError("label_differs judges labels, and this model answers with a span; use squad_f1")
    return answer.label != target


@fooled_rule("squad_f1")
def squad_f1(answer: Prediction, target: str, settings: FooledRule) -> bool:
    """Fooled when the two answers' word F1 is below the limit; the limit itself is not fooled."""
    if not isinstance(answer, SpanPrediction):
        raise VerdictError("squad_f1 judges spans, and this model answers with a label; use label_differs")
    return f1_score(answer.text, target) < settings.below


def ensemble_fooled(how: str, cases: Sequence[bool]) -> bool:
    """Whether models that were each fooled or not count as fooled together; a tie is no majority."""
    if not cases:
        raise VerdictError("no model answered, so nobody can say whether one was fooled")
    match how:
        case "any":
            return any(cases)
        case "all":
            return all(cases)
        case "majority":
            return sum(cases) * 2 > len(cases)
        case _:
            raise VerdictError(f"there is no ensemble rule `{how}`; use any, all or majority")
