"""Checks across the rows of a round: every id once, and every original there; in a few bytes per row."""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from outfox.imports.problems import Problems
from outfox.imports.rows import HELD_OUT, TRAIN

# What a split is in the array of splits.
CODES = {None: 0, TRAIN: 1, HELD_OUT: 2}


class RowRegister:
    """Remembers the ids of a round's rows as 64-bit hashes: those of a million rows differ, but for one case in 10⁷.

    Python salts the hashes for every process, so ids that collide cannot be chosen.
    """

    def __init__(self) -> None:
        self._ids, self._lines, self._files = array("q"), array("q"), array("H")
        self._splits = bytearray()
        # The place of every row that names an original, and the hash of that.
        self._contrasts, self._originals = array("q"), array("q")
        self.parted_pairs = 0
        self.pairs_elsewhere = 0

    def add(self, own: str, original: str | None, split: str | None, file: int, line: int) -> None:
        """Add a row with this id."""
        if original is not None:
            self._contrasts.append(len(self._ids))
            self._originals.append(hash(original))
        self._ids.append(hash(own))
        self._lines.append(line)
        self._files.append(file)
        self._splits.append(CODES[split])

    def check(self, problems: Problems, files: Sequence[str], *, elsewhere: bool, drawn: bool) -> None:
        """Add a problem for every repeated id, missing original and chain of originals; count parted pairs.

        With `elsewhere`, an original may be missing. With `drawn`, the splits are ours: an original must
        not name another one, so that all examples of a group are on one side.
        """
        ids = np.frombuffer(self._ids, np.int64)
        order = np.argsort(ids, kind="stable")
        for place in order[1:][np.diff(ids[order]) == 0][:1_000]:
            self._report(problems, files, int(place), "id_duplicate", "has an id that another row has; make ids unique")
        contrasts, originals = (np.frombuffer(one, np.int64) for one in (self._contrasts, self._originals))
        if not len(contrasts):
            return
        found = np.minimum(np.searchsorted(ids[order], originals), len(ids) - 1)
        places = order[found]
        there = ids[places] == originals
        self.pairs_elsewhere = int((~there).sum())
        if not elsewhere:
            for place in contrasts[~there][:1_000]:
                text = "names an original that is not in this round; import both, or leave the link out"
                self._report(problems, files, int(place), "original_missing", text)
        if drawn:
            self._check_chains(problems, files, contrasts[there], places[there])
        sides = np.frombuffer(self._splits, np.uint8)
        one, other = sides[contrasts[there]], sides[places[there]]
        parted = (one != other) & (one > 0) & (other > 0)
        pairs = np.sort(np.column_stack([contrasts[there], places[there]])[parted], axis=1)
        self.parted_pairs = len(np.unique(pairs, axis=0))

    def _check_chains(
        self, problems: Problems, files: Sequence[str], contrasts: NDArray[np.int64], places: NDArray[np.int64]
    ) -> None:
        """Add a problem for a row whose original names a third one."""
        following = np.full(len(self._ids), -1)
        following[contrasts] = places
        third = following[places]
        for place in contrasts[third >= 0][:1_000]:
            text = "names an original that has another original; name the first one"
            self._report(problems, files, int(place), "original_chain", text)

    def _report(self, problems: Problems, files: Sequence[str], place: int, code: str, text: str) -> None:
        problems.add(files[self._files[place]], self._lines[place], code, text)
