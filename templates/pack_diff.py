"""What differs between two versions of a pack: settings, seed rows and contexts, and the lines of its texts."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from templates.pack import Pack, pack_files


@dataclass(frozen=True)
class SettingChange:
    """A setting with its values, None where it is missing."""

    setting: str
    before: Any
    after: Any


@dataclass(frozen=True)
class RowChanges:
    """How many rows of a file were added, removed or changed, by their ids."""

    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class PackDiff:
    """The difference between two packs; `texts` has a unified diff for each text that differs."""

    settings: Sequence[SettingChange]
    rows: Mapping[str, RowChanges]
    texts: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.settings or self.texts) or any(vars(one) != NOTHING for one in self.rows.values())


NOTHING = {"added": 0, "removed": 0, "changed": 0}


def diff_packs(old: Pack, new: Pack) -> PackDiff:
    """Return what differs between two packs."""
    before, after = (dict(_flat(pack.spec.model_dump(mode="json"))) for pack in (old, new))
    settings = [
        SettingChange(name, before.get(name), after.get(name))
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]
    rows = {
        "contexts": _rows({one.id: one for one in old.contexts}, {one.id: one for one in new.contexts}),
        "seed": _rows({one.id: one for one in old.seed}, {one.id: one for one in new.seed}),
    }
    names = dict.fromkeys([*pack_files(old.folder), *pack_files(new.folder)])
    texts = {name: text for name in names if name.endswith((".xml", ".md")) and (text := _text(old, new, name))}
    return PackDiff(settings, rows, texts)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _flat(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for place, part in enumerate(value):
            # A label or field keeps its name if another one is put before it.
            name = part.get("name", place) if isinstance(part, dict) else place
            yield from _flat(part, f"{path}.{name}")
    else:
        yield path, value


def _rows(before: Mapping[str, object], after: Mapping[str, object]) -> RowChanges:
    both = before.keys() & after.keys()
    changed = sum(before[name] != after[name] for name in both)
    return RowChanges(len(after) - len(both), len(before) - len(both), changed)


def _text(old: Pack, new: Pack, name: str) -> str:
    files = [pack.folder / name for pack in (old, new)]
    before, after = (file.read_text(encoding="utf-8-sig").splitlines() if file.is_file() else [] for file in files)
    lines = difflib.unified_diff(before, after, f"{old.spec.version}/{name}", f"{new.spec.version}/{name}", lineterm="")
    return "\n".join(lines)
