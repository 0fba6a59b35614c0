"""Perturbations: seeded edits of texts, for robustness and fairness.

An edit leaves the right answer as it is, and declares which characters it may change, and for which languages and kinds
of tasks it is made. docs/perturbations.md lists all edits. A package adds its own `Edit` under the entry point group
`outfox.perturbations`.
"""

from ml_backend.perturbations.edit import Change, Draw, Edit, Text, in_each_text
from ml_backend.perturbations.perturbed_rows import PerturbedRow, perturb
from ml_backend.perturbations.registry import all_edits, edits_for, edits_version, find_edits

__all__ = [
    "Change", "Draw", "Edit", "PerturbedRow", "Text", "all_edits", "edits_for", "edits_version", "find_edits",
    "in_each_text", "perturb",
]  # fmt: skip
