"""The settings of a task that exists only as imported archives, in the form in which archives store them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from outfox.arguments import quoted
from outfox.errors import InvalidArgument
from outfox.imports.forms import Form
from outfox.imports.problems import refuse

NLI = ("entailment", "neutral", "contradiction")
SENTIMENT = ("positive", "negative", "neutral")
HATE = ("hateful", "not_hateful")
NAME = re.compile("[a-z][a-z0-9_]{0,39}")
# The fields of each form with their roles, and its labels; the model reads the fields of the last item.
KNOWN: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "anli": ({"premise": "context", "hypothesis": "input", "reason": "reason"}, NLI, ("premise", "hypothesis")),
    "dynasent": ({"prompt": "context", "text": "input"}, SENTIMENT, ("text",)),
    "hatemoji": ({"text": "input"}, HATE, ("text",)),
    "hatecheck": ({"text": "input"}, HATE, ("text",)),
    "squad": ({"passage": "context", "question": "input", "answer": "span"}, (), ("question", "passage")),
}
NO_PAY = {"create_cents": 0, "fooled_bonus_cents": 0, "validate_cents": 0, "minimum_hourly_cents": 0}
NOT_ASKED = "Imported rounds have no authors here."


def new_spec(task: str, form: Form, labels: Sequence[str] | None, inputs: Sequence[str] | None) -> dict[str, Any]:
    """Return settings for a task that has no pack: the form's fields and labels, or those that are given."""
    fields, known_labels, known_inputs = KNOWN.get(form.name, ({}, (), ()))
    names = tuple(labels or known_labels)
    reads = tuple(inputs or known_inputs)
    is_qa = form.name == "squad"
    if not reads:
        raise InvalidArgument(f"the form {form.name} needs `inputs`, the one or two columns that a model reads")
    if not is_qa and len(names) < 2:
        raise InvalidArgument(f"the form {form.name} needs `labels`, such as ['positive', 'negative']")
    for what, given in (("task", [task]), ("labels", names), ("inputs", reads)):
        for name in given:
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise InvalidArgument(
                    f"`{what}` has {quoted(name)}; a name is up to 40 of a-z, 0-9 and _, a letter first"
                )
    roles = fields if not inputs else dict.fromkeys(reads, "input")
    return {
        "name": task,
        "title": task,
        "description": NOT_ASKED,
        "languages": ["en"],
        "kind": "qa" if is_qa else "classification",
        "labels": [{"name": name, "title": name} for name in names],
        "fields": [{"name": name, "role": role, "title": name} for name, role in roles.items()],
        "model_input": list(reads),
        "target": {"set_by": "annotator" if is_qa else "task"},
        "fooled": {"rule": "squad_f1" if is_qa else "label_differs"},
        "validation": {"policy": form.policy},
        "pay": NO_PAY,
        "budget": {"round_cents": 0, "task_cents": 0},
        "work": {},
        "rounds": {"held_out_share": 0.2},
        "model": {},
        "training": {},
        "messages": dict.fromkeys(("fooled", "not_fooled", "answered"), NOT_ASKED),
    }


def as_own(spec: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return the settings of an archive that is copied, under this name; refuse those that are not settings."""
    try:
        names = [task, *(one["name"] for one in (*spec["fields"], *spec["labels"])), *spec["model_input"]]
        roles = {one["name"]: one["role"] for one in spec["fields"]}
        valid = all(isinstance(name, str) and NAME.fullmatch(name) for name in names)
        valid &= set(spec["model_input"]) <= set(roles) and isinstance(spec["validation"], Mapping)
        valid &= isinstance(spec["rounds"], Mapping) and spec["kind"] in ("classification", "qa")
    except (KeyError, TypeError):
        valid = False
    if not valid:
        raise refuse(
            "manifest.json", "manifest_invalid", "does not have the settings of a task; copy the archive again"
        )
    return {**spec, "name": task}
