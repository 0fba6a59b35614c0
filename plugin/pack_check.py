"""Everything that can be known to be wrong with a pack before it meets people."""

from collections.abc import Iterator

from ml_backend.errors import BackendError
from ml_backend.fooled_rules import find_rule
from plugin.labelstudio.interface import check_templates
from plugin.pack_costs import costs_of
from round_manager.errors import PolicyError
from round_manager.policies import find_policy
from templates import Pack, PackError, Problem
from templates.plurals import count


def check_pack(pack: Pack) -> list[Problem]:
    """Every problem of a pack's data, numbers and templates; none means that the task works."""
    problems = [*_numbers(pack), *_titles(pack), *_instructions(pack)]
    readable = True
    for name in ("contexts", "seed"):
        try:
            getattr(pack, name)
        except PackError as error:
            problems += error.problems
            readable = False
    # The samples that the templates are tried with are made from the data.
    if readable:
        problems += check_templates(pack)
    return problems


def _titles(pack: Pack) -> Iterator[Problem]:
    """Labels that people cannot tell apart."""
    met: dict[str, str] = {}
    for place, label in enumerate(pack.spec.labels):
        other = met.setdefault(label.title.casefold(), label.name)
        if other != label.name:
            text = f"`{label.title}` is also the title of the label {other}; give each a title of its own"
            line = pack.source.line_of(("labels", place, "title"))
            yield Problem("task.yaml", line, f"labels.{place}.title: {text}")


def _instructions(pack: Pack) -> Iterator[Problem]:
    try:
        if not pack.instructions.strip():
            yield Problem("instructions.md", None, "is empty; tell workers what to do")
    except PackError as error:
        yield from error.problems


def _numbers(pack: Pack) -> Iterator[Problem]:
    spec = pack.spec
    try:
        misfit = find_policy(spec.validation.policy).problem(spec.validation)
    except PolicyError as error:
        yield pack.problem("validation.policy", str(error))
    else:
        if misfit:
            yield pack.problem("validation", misfit)
        # The policy tells how many votes an example costs.
        yield from _budget(pack)
    try:
        find_rule(spec.fooled.rule)
    except BackendError as error:
        yield pack.problem("fooled.rule", str(error))
    if spec.pay.create_cents * 60 < spec.pay.minimum_hourly_cents:
        yield pack.problem(
            "pay.create_cents",
            f"{count(spec.pay.create_cents, 'cent')} would have to be earned in under a minute to reach "
            f"minimum_hourly_cents {spec.pay.minimum_hourly_cents}; raise create_cents",
        )


def _budget(pack: Pack) -> Iterator[Problem]:
    spec = pack.spec
    costs = costs_of(spec)
    if costs.round_examples < spec.rounds.target_fooling:
        examples = count(costs.round_examples, "validated example")
        yield pack.problem(
            "budget.round_cents",
            f"{spec.budget.round_cents} pays for {examples} at {costs.example_most} "
            f"cents each, fees included, but rounds.target_fooling is {spec.rounds.target_fooling}; raise the one or "
            "lower the other",
        )
