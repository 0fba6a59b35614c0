"""Everything that can be known to be wrong with a pack before it meets people."""

from collections.abc import Iterator

from common.text import count
from ml_backend.checkpoint import named_directory
from ml_backend.errors import BackendError
from ml_backend.fooled_rules import find_rule
from plugin.labelstudio.template_check import check_templates
from round_manager.errors import PolicyError
from round_manager.policies import find_policy
from round_manager.tasks.affordability import pack_costs
from templates import Pack, PackError, Problem, SeedRow
from templates.likeness import likeness, lookalikes
from templates.markup import check_markup
from templates.rows import MOST_PROBLEMS


def check_pack(pack: Pack) -> list[Problem]:
    """Every problem of a pack's data, numbers and templates; none means that the task works."""
    problems = [*_numbers(pack), *_lookalikes(pack), *_base_model(pack), *_instructions(pack)]
    readable = True
    for name in ("contexts", "seed"):
        try:
            getattr(pack, name)
        except PackError as error:
            problems += error.problems
            readable = False
    if not readable:
        # The samples that Label Studio tries the templates with are made from the data.
        return [*problems, *check_markup(pack)]
    return [*problems, *_leaks(pack), *check_templates(pack)]


def _leaks(pack: Pack) -> Iterator[Problem]:
    """Texts that a model would be measured on after it has learnt them."""

    def read(row: SeedRow) -> tuple[str, ...]:
        return tuple(likeness(row.fields[name]) for name in pack.spec.model_input)

    learnt = {read(row): row.id for row in pack.seed if row.split == "train"}
    found = [(row.id, learnt[read(row)]) for row in pack.seed if row.split == "held_out" and read(row) in learnt]
    for held_out, trained in found[:MOST_PROBLEMS]:
        text = f"row {held_out} is held out, and row {trained} to train on has the same text; remove one"
        yield Problem("seed.jsonl", None, text)
    if len(found) > MOST_PROBLEMS:
        more = count(len(found) - MOST_PROBLEMS, "more row")
        yield Problem("seed.jsonl", None, f"has {more} like that, held out and to train on; mend these first")


def _lookalikes(pack: Pack) -> Iterator[Problem]:
    """Labels, reasons and answers that people cannot tell apart."""
    spec = pack.spec
    labels = spec.labels
    for place, first in lookalikes(label.title for label in labels):
        text = f"`{labels[place].title}` looks like the title of the label {labels[first].name}"
        yield pack.problem(f"labels.{place}.title", f"{text}; give each a title of its own")
    lists = {"validation.flag_reasons": spec.validation.flag_reasons}
    lists |= {f"fields.{place}.choices": field.choices for place, field in enumerate(spec.fields)}
    questions = spec.quiz.questions if spec.quiz else ()
    lists |= {f"quiz.questions.{place}.choices": question.choices for place, question in enumerate(questions)}
    for setting, texts in lists.items():
        for place, first in lookalikes(texts):
            text = f"`{texts[place]}` looks like `{texts[first]}` above it; word it differently, or remove it"
            yield pack.problem(f"{setting}.{place}", text)


def _base_model(pack: Pack) -> Iterator[Problem]:
    directory = named_directory(pack.model_base())
    if directory is not None and not directory.is_dir():
        cure = "write a directory (relative to the pack, or absolute), `embedded` or a hub id"
        yield pack.problem("model.base", f"is the path `{pack.spec.model.base}`, where no directory is; {cure}")


def _instructions(pack: Pack) -> Iterator[Problem]:
    try:
        if not pack.instructions.strip():
            yield Problem("instructions.md", None, "is empty; tell workers what to do")
    except PackError as error:
        yield from error.problems


def _numbers(pack: Pack) -> Iterator[Problem]:
    spec = pack.spec
    try:
        policy = find_policy(spec.validation.policy)
    except PolicyError as error:
        yield pack.problem("validation.policy", str(error))
    else:
        if misfit := policy.problem(spec.validation):
            few = "first_votes" if spec.validation.first_votes < policy.first_votes else "max_votes"
            yield pack.problem(f"validation.{few}", misfit)
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
    costs = pack_costs(spec)
    if costs.round_examples < spec.rounds.target_fooling:
        examples = count(costs.round_examples, "validated example")
        yield pack.problem(
            "budget.round_cents",
            f"{spec.budget.round_cents} pays for {examples} at {costs.example_most} "
            f"cents each, fees included, but rounds.target_fooling is {spec.rounds.target_fooling}; raise the one or "
            "lower the other",
        )
