"""A verified example as a row that models are trained and evaluated on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from round_manager.models import Split
from templates import SeedRow, TaskSpec


def row_of_example(
    own_id: str,
    split: Split,
    fields: Mapping[str, Any],
    label: str | None,
    answer: Mapping[str, Any] | None,
    spec: TaskSpec,
    extra: Mapping[str, Any] = MappingProxyType({}),
) -> SeedRow | None:
    """Return the row; None if the example no longer fits the task."""
    read = {name: fields.get(name) for name in spec.model_input}
    texts = {name: text for name, text in read.items() if isinstance(text, str) and text.strip()}
    if len(texts) < len(read):
        return None
    if spec.kind == "classification":
        return SeedRow(own_id, split.value, texts, label, None, None, extra) if label in spec.label_names else None
    text, start = (answer or {}).get("text"), (answer or {}).get("start")
    passage = texts[spec.model_input[1]]
    if not isinstance(text, str) or not text.strip():
        return None
    if not isinstance(start, int) or passage[start : start + len(text)] != text:
        start = passage.find(text)
    return SeedRow(own_id, split.value, texts, None, text, start, extra) if start >= 0 else None
