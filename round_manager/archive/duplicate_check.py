"""A check of an archive: examples that are marked as duplicates of others in the same round are similar to them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from common.text import count
from round_manager.archive.files import REPAIR
from round_manager.archive.reader import table_batches
from round_manager.archive.tables import Columns
from round_manager.models import Duplicate, ExampleStatus
from round_manager.novelty.measure import MeasuredText, measured_examples


class DuplicateCheck:
    """Compares the duplicates of an archive with the texts that they repeat.

    Examples of other rounds, the seed and contexts are not in the archive; such duplicates are counted as unchecked.
    Withdrawn examples are left out: it is not decided again what they repeat.
    """

    def __init__(self, folder: Path, columns: Columns) -> None:
        self._folder = folder
        self._columns = columns
        self.unchecked: list[str] = []

    def problems(self) -> Iterator[str]:
        """Yield a problem if a duplicate is not similar to what it names, or names another duplicate."""
        marked: dict[str, tuple[str, str]] = {}
        for batch in table_batches(self._folder, "examples", ["id", "status", "duplicate", "duplicate_of"]):
            is_kept = pc.not_equal(batch["status"], ExampleStatus.WITHDRAWN.value)
            some = batch.filter(pc.and_(is_kept, batch["duplicate"].is_valid()))
            ids, hows, names = (some.column(name).to_pylist() for name in ("id", "duplicate", "duplicate_of"))
            marked.update(zip(ids, zip(hows, names, strict=True), strict=True))
        texts = self._texts({*marked, *(name for _, name in marked.values())})
        here = {one: said for one, said in marked.items() if said[1] in texts}
        wrong = sum(
            name in marked or not self._holds(texts[one], texts[name], how) for one, (how, name) in here.items()
        )
        if wrong:
            yield f"{count(wrong, 'duplicate is', 'duplicates are')} not similar to the example they name; {REPAIR}"
        elsewhere = len(marked) - len(here)
        if elsewhere:
            self.unchecked.append(f"{count(elsewhere, 'duplicate')} of texts outside the round")

    def _holds(self, one: MeasuredText, other: MeasuredText, how: str) -> bool:
        is_same = one.text == other.text
        is_near = one.is_near(other.text, self._columns.spec.duplicates.near)
        return one.context == other.context and (is_same if how == Duplicate.EXACT else is_near and not is_same)

    def _texts(self, wanted: set[str]) -> dict[str, MeasuredText]:
        spec, found = self._columns.spec, dict[str, MeasuredText]()
        names = {column: name for name, column in self._columns.written if name in spec.model_input}
        for batch in table_batches(self._folder, "examples", ["id", *names]) if wanted else ():
            rows = [row for row in batch.to_pylist() if row["id"] in wanted]
            fields = [{name: row[column] for column, name in names.items()} for row in rows]
            found.update(zip([row["id"] for row in rows], measured_examples(spec, fields), strict=True))
        return found
