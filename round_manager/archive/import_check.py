"""A check of an archive of imported data: its splits, contrast pairs and votes are what its manifest says.

Gold labels and splits are as they were published, so that nothing here determines them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.text import count
from outfox.errors import NotImportable
from outfox.imports.checks import RowRegister
from outfox.imports.drafts import drawn_split
from outfox.imports.problems import Problems
from outfox.imports.rows import USES
from outfox.imports.tables import differs
from outfox.manifests import RoundManifest
from round_manager.archive.reader import table_batches
from round_manager.archive.tables import Columns
from round_manager.models import ExampleStatus, Split

REPAIR = "import it again"
COLUMNS = ("id", "status", "split", "published_split", "original", "votes")


class ImportCheck:
    """Reads the examples of an imported round or suite once."""

    def __init__(self, folder: Path, manifest: RoundManifest, columns: Columns) -> None:
        self._folder = folder
        self._manifest = manifest
        self._columns = columns
        self._gold = "gold_answer" if columns.is_qa else "gold_label"
        self.unchecked = ["gold labels and splits, which are as published"]

    def problems(self) -> Iterator[str]:
        """Yield what does not agree with the manifest."""
        register, splits, published = RowRegister(), Counter[str | None](), Counter[str]()
        wrong = differ = line = 0
        for batch in table_batches(self._folder, "examples", [*COLUMNS, self._gold]):
            for row in batch.to_pylist():
                line += 1
                register.add(row["id"], row["original"], row["split"], 0, line)
                splits[row["split"]] += 1
                if row["published_split"] is not None:
                    published[row["published_split"]] += 1
                wrong += not self._fits(row)
                differ += self._differs(row)
        yield from self._counts(splits, published, differ)
        if wrong:
            yield f"{count(wrong, 'example has', 'examples have')} another split than was published; {REPAIR}"
        problems, stated = Problems(), self._manifest.splits
        register.check(problems, ["examples"], elsewhere=bool(stated.get("pairs_elsewhere")), drawn=False)
        try:
            problems.check()
        except NotImportable as found:
            yield f"{found}; {REPAIR}"
        pairs = {"parted_pairs": register.parted_pairs, "pairs_elsewhere": register.pairs_elsewhere}
        for name, number in pairs.items():
            if number != stated.get(name, 0):
                yield f"{name} is {number}, the manifest says {stated.get(name, 0)}; {REPAIR}"

    def _counts(self, splits: Counter[str | None], published: Counter[str], differ: int) -> Iterator[str]:
        stated, origin = self._manifest.splits, self._manifest.origin or {}
        found = {part.value: splits[part.value] for part in Split}
        if found != {name: stated.get(name) for name in found}:
            yield f"the splits have {found} examples, the manifest says otherwise; {REPAIR}"
        if dict(published) != stated.get("published"):
            yield f"the published splits are {dict(published)}, the manifest says {stated.get('published')}; {REPAIR}"
        if differ != origin.get("votes_differ", 0):
            yield f"{count(differ, 'published label differs', 'published labels differ')} from most votes; {REPAIR}"

    def _fits(self, row: Mapping[str, Any]) -> bool:
        """Return whether the split is the published one, or the one that is drawn where none was published."""
        split: str | None = row["split"]
        stated = self._manifest.splits
        if split is None:
            return True
        if self._manifest.suite:
            return split == str(Split.HELD_OUT)
        if "held_out_share" not in stated:
            return USES.get(str(row["published_split"]).lower()) == str(split)
        share = 0 if row["status"] == ExampleStatus.UNCHECKED else float(stated["held_out_share"])
        drawn = drawn_split(self._manifest.task, row["id"], row["original"], share)
        return drawn == str(split)

    def _differs(self, row: Mapping[str, Any]) -> bool:
        gold, name = row[self._gold], "answer" if self._columns.is_qa else "label"
        said = [vote[name] for vote in row["votes"] if vote[name] is not None]
        if self._columns.is_qa:
            return differs(["gold" if one == gold else "other" for one in said], "gold")
        return differs(said, gold)
