"""Training that gives the same weights for the same seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def reproducible(seed: int) -> Iterator[None]:
    """Deterministic algorithms and a seeded random generator inside; everything as before afterwards."""
    before = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    switches: Any = torch.utils.deterministic
    filled = switches.fill_uninitialized_memory
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Filling every new tensor costs time, and nothing here reads memory that it has not written.
        switches.fill_uninitialized_memory = False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warned_only)
            switches.fill_uninitialized_memory = filled
