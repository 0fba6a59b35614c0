"""The figures of one round: error rates with their intervals, and the agreement of validators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

# pandas takes a while to import, and most who measure agreement do not need it.
if TYPE_CHECKING:
    import pandas as pd

# The marketplace never confirmed the first; the second must not be used.
NOT_COLLECTED = ("unconfirmed", "withdrawn")
Z95 = 1.959963984540054
PAIR = 2


def round_metrics(examples: pd.DataFrame) -> dict[str, Any]:
    """Return the metrics of one round's examples.

    Rates are of the examples of which it is known whether they fooled the model: imported rounds can lack that.
    """
    import pandas as pd

    collected = examples[~examples["status"].isin(NOT_COLLECTED)]
    judged = collected[collected["fooled"].notna()]
    fooled = judged[judged["fooled"].astype(bool)]
    verified = fooled[fooled["status"] == "verified"]
    row: dict[str, Any] = {"collected": len(collected), "fooled": len(fooled), "verified_fooling": len(verified)}
    for name, count in (("mer", len(fooled)), ("vmer", len(verified))):
        row[name], row[f"{name}_low"], row[f"{name}_high"] = _wilson_interval(count, len(judged))
    tries = collected["tries"].sum(skipna=False)
    row["example_tries_per_fool"] = float("nan") if pd.isna(tries) else _ratio(tries, len(fooled))
    # If the time of one example is unknown, so is the sum.
    seconds = collected["active_ms"].sum(skipna=False) / 1_000
    row["author_seconds_per_verified"] = float("nan") if pd.isna(seconds) else _ratio(seconds, len(verified))
    row["authors"] = collected["author"].nunique()
    return row | {split: int((examples["split"] == split).sum()) for split in ("train", "held_out")}


def krippendorff_alpha(votes: Iterable[Iterable[str]]) -> float | None:
    """Return Krippendorff's alpha of labels, from the votes on each example.

    Examples with fewer than two votes are left out. None if all votes have the same label, or there are none.
    """
    return grouped_alpha(Counter(tuple(sorted(cast)) for cast in votes))


def grouped_alpha(groups: Mapping[tuple[str, ...], int]) -> float | None:
    """Return the same from the number of examples that have these votes."""
    values: Counter[str] = Counter()
    disagreement = 0.0
    for cast, examples in groups.items():
        if len(cast) >= PAIR:
            counts = Counter(cast)
            pairs = (len(cast) ** 2 - sum(count**2 for count in counts.values())) / (len(cast) - 1)
            disagreement += examples * pairs
            values += Counter({value: examples * count for value, count in counts.items()})
    total = values.total()
    expected = total**2 - sum(count**2 for count in values.values())
    return 1 - (total - 1) * disagreement / expected if expected else None


def _wilson_interval(count: int, total: int) -> tuple[float, float, float]:
    """Return a proportion and its 95 % Wilson score interval."""
    if total == 0:
        return float("nan"), 0.0, 1.0
    share, z2 = count / total, Z95**2 / total
    middle = (share + z2 / 2) / (1 + z2)
    half = (Z95 / (1 + z2)) * ((share * (1 - share) + z2 / 4) / total) ** 0.5
    return share, max(0.0, middle - half), min(1.0, middle + half)


def _ratio(total: float, count: int) -> float:
    return float(total) / count if count else float("nan")
