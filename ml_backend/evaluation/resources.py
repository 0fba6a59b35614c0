"""The axes memory and price: what a process that only answers needs, and what 1,000 rows cost where that is known."""

from collections.abc import Sequence

from ml_backend.evaluation.values import ALL, AxisResult, Value
from ml_backend.targets.footprint import peak_bytes
from ml_backend.targets.sources import ModelSource
from ml_backend.targets.target import Row, Target

MEMORY, PRICE = "memory", "price"
ROWS = 256
MIB = 1 << 20
PRICED_ROWS = 1_000
MILLIONTHS = 1_000_000
MEMORY_RECIPE = {"axis": MEMORY, "version": 1, "rows": ROWS, "process": "fresh", "peak": "VmHWM"}
PRICE_RECIPE = {"axis": PRICE, "version": 1}


def memory(source: ModelSource, rows: Sequence[Row]) -> AxisResult:
    """Return the peak memory (MiB) of a fresh process that loads the model and answers the rows."""
    peak = peak_bytes(source, rows)
    if peak is None:
        return AxisResult(MEMORY, MEMORY_RECIPE, "memory_mb", [], note="the model runs elsewhere")
    return AxisResult(MEMORY, MEMORY_RECIPE, "memory_mb", [Value("memory_mb", ALL, len(rows), peak / MIB)])


def price(target: Target, rows: int) -> AxisResult:
    """Return the highest price of 1,000 rows, one call each, where the target states what a call costs."""
    cost = target.capabilities.cost_per_call
    if cost is None:
        return AxisResult(PRICE, PRICE_RECIPE, "price_per_1000", [], note="no price of a call is known")
    value = Value("price_per_1000", ALL, rows, PRICED_ROWS * cost / MILLIONTHS)
    return AxisResult(PRICE, PRICE_RECIPE, "price_per_1000", [value])
