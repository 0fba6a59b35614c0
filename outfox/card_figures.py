"""The figures and the known limits of a data card, computed from the rows and from what the archives state."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from outfox.card_facts import (
    NOT_STATED,
    CardFacts,
    RoundCard,
    at,
    counts,
    known,
    list_at,
    number_at,
    percent,
    text_at,
)  # fmt: skip
from outfox.markdown import code, escaped, table

# The statuses of examples that no split has; unconfirmed ones are not in the archive.
UNUSED = ("disputed", "unchecked", "flagged", "pending", "withdrawn")
# The rule of splits since which duplicates are in no part.
SPLIT_RULE = 3


def figures(facts: CardFacts) -> Iterator[str]:
    """Return the section on figures: rates of the rounds, and what the splits contain."""
    head = (
        "round", "collected", "fooled the target", "verified and fooled", "MER (95 %)", "vMER (95 %)",
        "attempts per fool", "agreement",
    )  # fmt: skip
    yield "Of all examples in the archives of these rounds, whatever their status:\n\n"
    yield table(head, [_round_figures(one) for one in facts.rounds])
    yield (
        "\nMER (model error rate): fooled / collected. vMER: verified and fooled / collected. Wilson intervals. "
        "Attempts count those that led to an example. Agreement: Krippendorff's alpha of the votes on labels.\n\n"
        "Of the exported examples:\n\n"
    )
    qa = facts.about["kind"] == "qa"
    columns = [] if qa else list(counts(facts.rows, "gold_label"))
    rows = [
        [code(str(split)), f"{len(part):,}", _fooled(part), *(_balance(part, label) for label in columns)]
        for split, part in facts.rows.groupby("split", sort=True)
    ]
    yield table(("split", "examples", "fooled the target", *(code(label) for label in columns)), rows)
    measured = [_model_figures(one, row) for one in facts.rounds for row in list_at(one.facts, "evaluations")]
    if measured:
        yield "\nModels on the held-out examples of the archives, in points, with 95 % bootstrap intervals:\n\n"
        yield table(("round", "model", "rows", "metric", "points"), measured)


def _model_figures(one: RoundCard, row: Any) -> list[str]:
    interval = [number for number in (at(row, "low"), at(row, "high")) if isinstance(number, int | float)]
    ends = f" ({interval[0]:.1f} to {interval[1]:.1f})" if len(interval) == 2 else ""
    value = at(row, "value")
    points = f"{value:.1f}{ends}" if isinstance(value, int | float) else NOT_STATED
    return [str(one.number), code(text_at(row, "model")), known(number_at(row, "n")), text_at(row, "metric"), points]


def _round_figures(one: RoundCard) -> list[str]:
    row = one.metrics
    if row is None:
        return [str(one.number), *[NOT_STATED] * 7]
    rates = [
        f"{percent(row[name])} ({percent(row[f'{name}_low'])} to {percent(row[f'{name}_high'])})"
        if row["collected"]
        else NOT_STATED
        for name in ("mer", "vmer")
    ]
    tries = f"{row['example_tries_per_fool']:.1f}" if row["fooled"] else NOT_STATED
    numbers = [f"{row[name]:,}" for name in ("collected", "fooled", "verified_fooling")]
    alpha = NOT_STATED if one.alpha is None else f"{one.alpha:.2f}"
    return [str(one.number), *numbers, *rates, tries, alpha]


def _fooled(rows: pd.DataFrame) -> str:
    return f"{counts(rows, 'fooled').get('True', 0):,}" if "fooled" in rows else NOT_STATED


def _balance(rows: pd.DataFrame, label: str) -> str:
    many = counts(rows, "gold_label").get(label, 0)
    return f"{many:,} ({percent(many / len(rows))})"


def known_limits(facts: CardFacts) -> Iterator[str]:
    """Return the limits that follow from the method, and those that the archives state."""
    yield (
        "The texts were written to fool these target models, so a model's score on them is a score on hard cases for "
        "those models. It is not an estimate of its accuracy elsewhere."
    )
    for one in facts.rounds:
        if found := "; ".join(_round_limits(one)):
            yield f"Round {one.number}: {found}."
    if len(facts.rounds) > 1:
        yield "Targets differ between rounds, so a label's share or an error rate can differ for that reason alone."
    simulated, total = facts.simulated
    if simulated == total > 0:
        yield "All workers are simulated. The texts fill sentence patterns, and repeat them."
    if facts.validators.total:
        yield "Labels are the agreement of a few votes, and validators can be wrong together."


def _round_limits(one: RoundCard) -> Iterator[str]:
    if one.archived is None:
        yield "the archive is unknown, so no rates are stated"
    elif not one.is_complete:
        yield f"exported from {len(one.rows):,} of the archive's {one.archived:,} examples, so no rates are stated"
    if unconfirmed := number_at(one.facts, "examples", "unconfirmed"):
        yield f"{unconfirmed:,} examples that the marketplace never confirmed are not in the archive"
    if withheld := number_at(one.facts, "withheld"):
        yield f"{withheld:,} verified examples that serve as gold are withheld, and not in the rates either"
    unused = {name: number_at(one.facts, "examples", name) for name in UNUSED}
    if any(unused.values()):
        listed = ", ".join(f"{many:,} {name}" for name, many in unused.items() if many)
        yield f"in the archive, but in no split: {listed}"
    exact, near = (number_at(one.facts, "splits", name) for name in ("exact_duplicates", "near_duplicates"))
    # Earlier rules used the first of several equal texts.
    if exact is not None and near is not None and (number_at(one.facts, "splits", "rule") or 0) >= SPLIT_RULE:
        yield f"duplicates of known texts, in no split: {exact:,} exact, {near:,} near"
    by_worker = at(one.facts, "splits", "by_worker")
    if isinstance(by_worker, bool):
        yield "split by worker: no author is in both parts" if by_worker else "split by example, not by worker"
    if note := text_at(one.facts, "splits", "note"):
        yield escaped(note.rstrip("."))
