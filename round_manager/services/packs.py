"""Check a task pack before workers see it."""

from collections.abc import Callable, Iterator

from common.text import count
from ml_backend.checkpoint import named_directory
from ml_backend.errors import BackendError
from ml_backend.manifest import FILE, read_manifest
from ml_backend.verdict import find_rule
from round_manager.errors import PolicyError
from round_manager.money.prices import pack_costs
from round_manager.policies import find_policy
from templates import Pack, PackError, Problem, pack_files
from templates.leftovers import pack_warnings
from templates.markup import check_markup
from templates.rows import MAX_PROBLEMS, text_key
from templates.texts import lookalikes

# Checks both templates with Label Studio's own code.
TemplateCheck = Callable[[Pack], list[Problem]]


def warn_about(pack: Pack) -> list[Problem]:
    """Return what the author of a valid pack should look at: texts and a model of another task, placeholders."""
    return [*pack_warnings(pack), *_base_warnings(pack)]


def _base_warnings(pack: Pack) -> Iterator[Problem]:
    """Yield a base model that is a version of another task."""
    folder = named_directory(pack.model_base())
    if folder is None or not (folder / FILE).is_file():
        return
    try:
        task = read_manifest(folder).task
    except BackendError as error:
        yield pack.problem("model.base", error.code, str(error))
        return
    if task != pack.spec.name:
        yield pack.problem("model.base", "base_model_of_other_task", f"is a model of the task `{task}`")


def check_pack(pack: Pack, check_templates: TemplateCheck) -> list[Problem]:
    """Return every problem of a pack's settings, data and templates."""
    problems = [*_settings_problems(pack), *_lookalike_problems(pack), *_model_problems(pack)]
    problems += _instructions_problems(pack)
    readable = True
    for name in ("contexts", "seed"):
        try:
            getattr(pack, name)
        except PackError as error:
            problems += error.problems
            readable = False
    if not readable:
        # Label Studio's check needs samples, which are made from the data.
        return [*problems, *check_markup(pack)]
    return [*problems, *_leaks(pack), *check_templates(pack)]


def _leaks(pack: Pack) -> Iterator[Problem]:
    """Yield held-out rows that a model would be evaluated on after training on the same text."""
    keys = [(row, text_key(row, pack.spec)) for row in pack.seed]
    trained = {key: row.id for row, key in keys if row.split == "train"}
    leaks = [(row.id, trained[key]) for row, key in keys if row.split == "held_out" and key in trained]
    for held_out, train in leaks[:MAX_PROBLEMS]:
        text = f"the held-out row {held_out} has the same text as the training row {train}; remove one"
        yield Problem("seed.jsonl", None, "held_out_leak", text)
    if len(leaks) > MAX_PROBLEMS:
        more = count(len(leaks) - MAX_PROBLEMS, "more held-out row")
        yield Problem(
            "seed.jsonl", None, "more_problems", f"has {more} with the text of a training row; fix these first"
        )


def _lookalike_problems(pack: Pack) -> Iterator[Problem]:
    """Yield labels, reasons and answers that people cannot distinguish."""
    spec = pack.spec
    labels = spec.labels
    for index, first in lookalikes(label.title for label in labels):
        text = f"`{labels[index].title}` looks like the title of the label {labels[first].name}"
        yield pack.problem(f"labels.{index}.title", "texts_look_alike", f"{text}; choose different titles")
    lists = {"validation.flag_reasons": spec.validation.flag_reasons}
    lists |= {f"fields.{index}.choices": field.choices for index, field in enumerate(spec.fields)}
    questions = spec.quiz.questions if spec.quiz else ()
    lists |= {f"quiz.questions.{index}.choices": question.choices for index, question in enumerate(questions)}
    for setting, texts in lists.items():
        for index, first in lookalikes(texts):
            text = f"`{texts[index]}` looks like `{texts[first]}` above it; reword or remove it"
            yield pack.problem(f"{setting}.{index}", "texts_look_alike", text)


def _model_problems(pack: Pack) -> Iterator[Problem]:
    directory = named_directory(pack.model_base())
    if directory is not None and not directory.is_dir():
        fix = "write a directory (relative to the pack, or absolute), `embedded` or a hub id"
        yield pack.problem(
            "model.base", "model_not_found", f"the directory `{pack.spec.model.base}` does not exist; {fix}"
        )


def _instructions_problems(pack: Pack) -> Iterator[Problem]:
    for name in pack_files(pack.folder):
        try:
            if name.endswith(".md") and name != "README.md" and not pack.text(name).strip():
                yield Problem(name, None, "file_empty", "is empty; write the workers' instructions")
        except PackError as error:
            yield from error.problems


def _settings_problems(pack: Pack) -> Iterator[Problem]:
    spec = pack.spec
    try:
        policy = find_policy(spec.validation.policy)
    except PolicyError as error:
        yield pack.problem("validation.policy", error.code, str(error))
    else:
        if misfit := policy.problem(spec.validation):
            setting = "first_votes" if spec.validation.first_votes < policy.first_votes else "max_votes"
            yield pack.problem(f"validation.{setting}", "setting_conflict", misfit)
        # The policy determines how many votes an example costs.
        yield from _budget_problems(pack)
    try:
        find_rule(spec.fooled.rule)
    except BackendError as error:
        yield pack.problem("fooled.rule", error.code, str(error))
    if spec.pay.create_cents * 60 < spec.pay.minimum_hourly_cents:
        yield pack.problem(
            "pay.create_cents",
            "pay_too_low",
            f"at {count(spec.pay.create_cents, 'cent')}, a HIT would have to take less than a minute to reach "
            f"minimum_hourly_cents {spec.pay.minimum_hourly_cents}; raise create_cents",
        )


def _budget_problems(pack: Pack) -> Iterator[Problem]:
    spec = pack.spec
    costs = pack_costs(spec)
    # Without a budget, nothing is posted on a crowd.
    if not spec.budget.round_cents:
        return
    if costs.round_examples < spec.rounds.target_fooling:
        examples = count(costs.round_examples, "validated example")
        yield pack.problem(
            "budget.round_cents",
            "budget_too_small",
            f"{spec.budget.round_cents} pays for {examples} at {costs.example_most} cents each, fees included, but "
            f"rounds.target_fooling is {spec.rounds.target_fooling}; raise the budget or lower the target",
        )
