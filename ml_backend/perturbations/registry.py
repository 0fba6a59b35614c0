"""The edits by name: those of Outfox, and those of other packages."""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points

from ml_backend.errors import PerturbationInvalid, PerturbationNotFound
from ml_backend.perturbations import people, typing_errors, writing_styles
from ml_backend.perturbations.edit import Axis, Edit

GROUP = "outfox.perturbations"
BUILT_IN = {edit.name: edit for edit in (*typing_errors.EDITS, *writing_styles.EDITS, *people.EDITS)}


@cache
def all_edits() -> dict[str, Edit]:
    """Return every edit by its name: Outfox's in their order, then those of other packages by name."""
    found = dict(BUILT_IN)
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            edit = entry.load()
        except Exception as error:
            raise PerturbationInvalid(f"perturbation {entry.name} cannot be loaded: {error}") from error
        if not isinstance(edit, Edit) or edit.name != entry.name:
            raise PerturbationInvalid(f"perturbation {entry.name} must be an `Edit` of that name")
        if edit.name in found:
            raise PerturbationInvalid(f"two perturbations are called {edit.name}; uninstall one of the packages")
        found[edit.name] = edit
    return found


def edits_for(axis: Axis, *, language: str, kind: str) -> tuple[Edit, ...]:
    """Return the edits of an axis that fit texts of a language and tasks of a kind."""
    return tuple(edit for edit in all_edits().values() if edit.axis == axis and edit.fits(language, kind))


def find_edits(names: Iterable[str]) -> tuple[Edit, ...]:
    """Return the edits of these names, in their order."""
    known = all_edits()
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise PerturbationNotFound(f"there is no perturbation {name}; there are {', '.join(known)}")
    return tuple(known[name] for name in wanted)


def edits_version(edits: Iterable[Edit]) -> str:
    """Return a text that changes if the results of these edits do, for the recipe of an evaluation."""
    named = ",".join(sorted(f"{edit.name}:{edit.version}" for edit in edits))
    return hashlib.sha256(named.encode()).hexdigest()[:12]
