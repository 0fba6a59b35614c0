"""Packs as files: exported as a zip with a manifest, imported from a zip or a folder.

What is imported is hostile until it is checked: names, sizes as they are read and not as they are declared, links,
anything that is not a plain text, and the hashes of the manifest. Hidden files, such as `.git`, are left out.
"""

import hashlib
import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from common.zip_files import TOO_LARGE, UNREADABLE, EntryRefused, ZipLimits, check_path, is_hidden, read_zip
from templates.errors import InvalidPackName, PackExists, PackNotCreated, PackRefused, Problem
from templates.pack import NAME, Pack, write_pack

MANIFEST = "pack.json"
FORMAT = 1
MEGABYTE = 1_000_000
MAX_ENTRIES, MAX_FILE_BYTES, MAX_BYTES = 500, 20 * MEGABYTE, 50 * MEGABYTE
MAX_DEPTH = 3
# Texts and data; whatever is not in this list is not part of a pack.
SUFFIXES = frozenset({".yaml", ".xml", ".md", ".jsonl", ".csv", ".txt", ".json", ".po"})
BARE_NAMES = frozenset({"LICENSE", "LICENCE", "NOTICE"})
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PROGRAMS = (b"#!", b"\x7fELF", b"MZ", b"PK\x03\x04", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
_LIMITS = ZipLimits(MAX_ENTRIES, MAX_FILE_BYTES, MAX_BYTES)
_CODES = {TOO_LARGE: "pack_too_large", UNREADABLE: "pack_unreadable"}
# Equal packs give equal zips.
_DATE = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16

Files = dict[str, bytes]


@dataclass(frozen=True)
class PackRecord:
    """What identifies a shared pack: `sha256` is a hash over the names and contents of its files."""

    name: str
    version: str
    author: str
    licence: str
    sha256: str


@dataclass(frozen=True)
class Imported:
    """An imported pack; `verified` says whether a manifest vouched for its files."""

    pack: Pack
    record: PackRecord
    verified: bool


@dataclass(frozen=True)
class Exported:
    """A pack in a file; `left_out` names what is in its folder and not in the file."""

    file: Path
    record: PackRecord
    left_out: tuple[str, ...]


def export_pack(pack: Pack, file: Path) -> Exported:
    """Write a pack to a zip; the same pack gives the same bytes."""
    files, left_out = {}, []
    for path in sorted(pack.folder.rglob("*")):
        name = path.relative_to(pack.folder).as_posix()
        if path.is_dir() or is_hidden(name):
            continue
        if path.is_symlink() or _fault_of_name(name):
            left_out.append(name)
        elif name != MANIFEST:
            files[name] = path.read_bytes()
    _check(files)
    record = record_of(pack, files)
    manifest = {
        "format": FORMAT,
        **vars(record),
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    files[MANIFEST] = (json.dumps(manifest, ensure_ascii=False, indent=2) + "\n").encode()
    if file.exists():
        raise PackExists(f"{file} already exists; choose another name or remove it")
    draft = file.with_name(f".outfox-{file.name}")
    try:
        with zipfile.ZipFile(draft, "w") as packed:
            for name, data in sorted(files.items()):
                entry = zipfile.ZipInfo(f"{pack.spec.name}/{name}", _DATE)
                entry.external_attr, entry.compress_type = _PLAIN_FILE, zipfile.ZIP_DEFLATED
                packed.writestr(entry, data)
        draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise PackNotCreated(f"cannot write {file}: {error.strerror}; choose another place") from error
    return Exported(file, record, tuple(left_out))


def record_of(pack: Pack, files: Mapping[str, bytes]) -> PackRecord:
    """Return what identifies a pack with these files."""
    lines = (f"{name}\0{hashlib.sha256(data).hexdigest()}\n" for name, data in sorted(files.items()))
    spec, digest = pack.spec, hashlib.sha256("".join(lines).encode())
    return PackRecord(spec.name, spec.version, spec.author, spec.licence, digest.hexdigest())


def read_source(source: Path) -> Files:
    """Return the files of a zip or a folder, by their paths in it; raise PackRefused if it cannot be trusted."""
    if source.is_dir():
        return _read_folder(source)
    try:
        if not source.is_file():
            raise _refused(source.name, "pack_unreadable", "is neither a file nor a folder")
        if source.stat().st_size > MAX_BYTES:
            raise _refused(source.name, "pack_too_large", f"is larger than {MAX_BYTES // MEGABYTE} MB")
        with source.open("rb") as file:
            return _read_zip(file, source.name)
    except OSError as error:
        raise PackRefused(
            [Problem(source.name, None, "pack_unreadable", f"cannot be read: {error.strerror}")]
        ) from error


def import_pack(files: Files, parent: Path, *, inside: str = "", name: str = "", replace: bool = False) -> Imported:
    """Check the files of a source and write its pack to a new folder below `parent`.

    `inside` is the pack's folder in the source, if it holds several; `name` is a new name for the task. With
    `replace`, an earlier version of the pack is replaced.
    """
    if name and not NAME.fullmatch(name):
        raise InvalidPackName(f"`{name}` is not a valid task name; use small letters, digits and _, a letter first")
    chosen = _below(files, _pack_folder(files, inside))
    manifest = chosen.pop(MANIFEST, None)
    _check(chosen)
    if manifest is not None:
        _verify(chosen, manifest)
    texts = {path: data.decode("utf-8-sig") for path, data in chosen.items()}
    found = re.search(r"(?m)^name:[ \t]*['\"]?([a-z][a-z0-9_]{0,39})['\"]?[ \t]*(?:#.*)?$", texts["task.yaml"])
    if found is None:
        raise _refused("task.yaml", "name_missing", "has no line with a valid `name`")
    if name:
        texts["task.yaml"] = texts["task.yaml"][: found.start()] + f"name: {name}" + texts["task.yaml"][found.end() :]
    folder = parent / (name or found[1])
    if replace:
        _check_replaceable(folder)
    pack = write_pack(folder, texts, replace=replace)
    return Imported(pack, record_of(pack, chosen), verified=manifest is not None)


def _check_replaceable(folder: Path) -> None:
    """Raise PackExists if the folder has something that no import brings back, such as a base model."""
    others = [path for path in _walk(folder) if _fault_of_name(path.relative_to(folder).as_posix())]
    if others:
        raise PackExists(f"{others[0]} is not a file of a pack, and would be lost; move it first")


def _read_zip(file: BinaryIO, name: str) -> Files:
    files: Files = {}
    total = 0
    try:
        for entry, reader in read_zip(file, name, _LIMITS):
            mode = entry.external_attr >> 16
            if stat.S_IFMT(mode) != stat.S_IFDIR and mode & 0o111:
                raise _refused(entry.filename, "program_not_allowed", "is executable; a pack has texts only")
            data = b"".join(reader.pieces())
            total += len(data)
            _add(files, entry.filename, data, total)
    except EntryRefused as error:
        raise _refused(error.name, _CODES.get(error.code, error.code), error.text) from error
    return files


def _read_folder(folder: Path) -> Files:
    files: Files = {}
    total = 0
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise _refused(name, "link_not_allowed", "is a link or a device; a pack has plain files only")
        if status.st_mode & 0o111:
            raise _refused(name, "program_not_allowed", "is executable; a pack has texts only")
        with path.open("rb") as opened:
            data = opened.read(min(MAX_FILE_BYTES, MAX_BYTES - total) + 1)
        total += len(data)
        _add(files, name, data, total)
    return files


def _walk(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder that is not a folder, without following links, and nothing hidden."""
    for parent, folders, names in os.walk(folder, followlinks=False):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        folders[:] = [name for name in folders if not is_hidden(name) and name not in links]
        yield from (Path(parent) / name for name in sorted([*names, *links]) if not is_hidden(name))


def _add(files: Files, name: str, data: bytes, total: int) -> None:
    if len(data) > MAX_FILE_BYTES or total > MAX_BYTES or len(files) >= MAX_ENTRIES:
        limits = (
            f"{MAX_FILE_BYTES // MEGABYTE} MB for a file, {MAX_BYTES // MEGABYTE} MB and {MAX_ENTRIES} files in all"
        )
        raise _refused(name, "pack_too_large", f"is too large; the limits are {limits}")
    try:
        check_path(name, files)
    except EntryRefused as error:
        raise _refused(error.name, error.code, error.text) from error
    files[name] = data


def _pack_folder(files: Files, inside: str) -> str:
    folders = sorted({path.rpartition("/")[0] for path in files if path.rpartition("/")[2] == "task.yaml"})
    if inside:
        folders = [folder for folder in folders if inside.strip("/") in (folder, PurePosixPath(folder).name)]
    if not folders:
        raise _refused(inside or "task.yaml", "file_missing", "is missing: there is no folder with a task.yaml")
    if "" in folders:
        return ""
    if len(folders) > 1:
        raise _refused("task.yaml", "pack_ambiguous", f"is in several folders: {', '.join(folders[:20])}; name one")
    return folders[0]


def _below(files: Files, folder: str) -> Files:
    start = f"{folder}/" if folder else ""
    return {path.removeprefix(start): data for path, data in files.items() if path.startswith(start)}


def _check(files: Mapping[str, bytes]) -> None:
    """Raise PackRefused for every file that is not a plain text of a pack."""
    problems = [
        Problem(name, None, *fault)
        for name, data in sorted(files.items())
        if (fault := _fault_of_name(name) or _fault_of_content(data))
    ]
    if problems:
        raise PackRefused(problems)


def _fault_of_name(name: str) -> tuple[str, str] | None:
    path = PurePosixPath(name)
    if len(path.parts) > MAX_DEPTH or not all(_PART.fullmatch(part) for part in path.parts):
        return "path_not_allowed", "has a name or a depth that packs cannot have"
    if path.suffix.lower() not in SUFFIXES and path.name not in BARE_NAMES:
        return "file_not_allowed", f"cannot be part of a pack; only {', '.join(sorted(SUFFIXES))} files can"
    return None


def _fault_of_content(data: bytes) -> tuple[str, str] | None:
    if data.startswith(_PROGRAMS):
        return "program_not_allowed", "is a program; a pack has texts only"
    if b"\0" in data:
        return "file_not_utf8", "is not a text"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "file_not_utf8", "is not UTF-8; save the file as UTF-8"
    return None


def _verify(files: Files, manifest: bytes) -> None:
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    try:
        content: Any = json.loads(manifest)
        listed = content["files"] if content["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refused(MANIFEST, "manifest_invalid", "is not the manifest of a pack") from error
    if listed != hashes:
        changed = sorted(name for name in {*hashes, *(listed or {})} if (listed or {}).get(name) != hashes.get(name))
        named = ", ".join(str(name)[:60] for name in changed[:5]) or "its format"
        raise _refused(MANIFEST, "manifest_differs", f"does not describe these files: {named}; get the pack again")


def _refused(name: str, code: str, text: str) -> PackRefused:
    return PackRefused([Problem(name[:100], None, code, text)])
