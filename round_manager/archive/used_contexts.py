"""The contexts that a round's work was written for, whose texts are never in memory all at once."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import select

from round_manager.models import Context
from round_manager.plain_rows import PlainRows, chunks


class UsedContexts:
    """Remembers which contexts it met, by their numbers alone, and tells of them when all were met."""

    def __init__(self, plain: PlainRows) -> None:
        self._plain = plain
        self._met: NDArray[np.int64] = np.array([], np.int64)

    def meet(self, contexts: pa.Array) -> None:
        """Remember those that are not null."""
        self._met = np.union1d(self._met, contexts.unique().drop_null().to_numpy())

    def batches(self, size: int) -> Iterator[tuple[pa.Array, bytes]]:
        """All that were met, by their keys, some at a time: the keys, and the fields as JSON, one to a line.

        Where none was, there is one batch with nothing in it, so that a table has a form in any case.
        """
        order = pc.sort_indices(self._keys(self._met)).to_numpy()
        for first in range(0, max(1, len(order)), size):
            numbers = self._met[order[first : first + size]]
            fields = {}
            for some in chunks(numbers.tolist()):
                shown = select(Context.id, self._plain.json(Context.fields)).where(Context.id.in_(some))
                fields.update({row[0]: row[1] for row in self._plain.fetch(shown)})
            yield self._keys(numbers), "\n".join(fields[number] for number in numbers.tolist()).encode()

    def _keys(self, numbers: NDArray[np.int64]) -> pa.Array:
        found = [pa.array([], pa.string())]
        for some in chunks(numbers.tolist()):
            rows = self._plain.fetch(select(Context.id, Context.key).where(Context.id.in_(some)))
            keys = {row[0]: row[1] for row in rows}
            found.append(pa.array([keys[number] for number in some], pa.string()))
        return pa.concat_arrays(found)
