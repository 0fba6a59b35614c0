"""The files of an import: each is read row by row, with the line of each row, in memory that does not grow with it."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from outfox.archives import MANIFEST, read_manifest, sha256_of
from outfox.arguments import reason
from outfox.imports.problems import Problems, refuse

Rows = Iterator[tuple[int, dict[str, Any]]]
MAX_LINE_BYTES = 1_000_000
# A file that is one document is read as a whole; a batch of a table is decoded in smaller parts beyond this.
MAX_DOCUMENT_BYTES = 500_000_000
MAX_BATCH_BYTES = 50_000_000
COMPRESSED = {
    b"PK\x03\x04": "zip",
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
}
BATCH = 5_000
PIECE = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SPLIT_NAMES = ("train", "dev", "validation", "valid", "test", "held_out")
# A split or a round in a file's name, between other words.
SPLIT_IN_NAME = re.compile(rf"(?:^|[-_.])({'|'.join(SPLIT_NAMES)})(?=$|[-_.])", re.IGNORECASE)
ROUND_IN_NAME = re.compile(r"(?:^|[-_./])(?:round|r)[-_]?0*([1-9][0-9]?)(?=$|[-_./])", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """One file, or a DataFrame, that is imported; `read` yields its rows with their lines."""

    name: str
    sha256: str
    read: Callable[[Problems], Rows]
    split: str | None = None
    round: int | None = None
    # The settings of the task, if the source is an archive.
    spec: Mapping[str, Any] | None = None
    path: Path | None = None


def open_sources(paths: Sequence[Path], kind: str | None) -> list[Source]:
    """Return the files, a folder's files one by one; `kind` is the format if the names do not tell it."""
    files: list[Path] = []
    for path in paths:
        files += _files_in(path) if path.is_dir() else [path]
    names = _names(files)
    found = []
    for path, name in zip(files, names, strict=True):
        sha256 = _checked_hash(path)
        form = kind or path.suffix.lower().removeprefix(".")
        if form not in READERS:
            raise refuse(name, "file_unknown", f"has no known format; use one of {', '.join(READERS)}")
        split, number = SPLIT_IN_NAME.search(path.stem), ROUND_IN_NAME.search(f"{path.parent.name}/{path.stem}")
        found.append(
            Source(
                name,
                sha256,
                _reader(READERS[form], path, name),
                split[1].lower() if split else None,
                int(number[1]) if number else None,
                path=path,
            )
        )
    return found


def _checked_hash(path: Path) -> str:
    """Return the hash of a regular file that is not packed."""
    try:
        # A pipe or a device could be read for ever.
        if path.exists() and not path.is_file():
            raise refuse(str(path), "file_unreadable", "is not a regular file; name a file")
        with path.open("rb") as file:
            start = file.read(max(map(len, COMPRESSED)))
            if packed := next((name for sign, name in COMPRESSED.items() if start.startswith(sign)), ""):
                raise refuse(str(path), "file_compressed", f"is packed ({packed}); unpack it first")
            file.seek(0)
            return sha256_of(file)
    except OSError as error:
        raise refuse(str(path), "file_unreadable", f"cannot be read{reason(error)}; name an existing file") from error


def count_rows(source: Source) -> int:
    """Return about how many rows a source has, for progress: those of a table, or the lines of a text."""
    if source.path is None or source.path.suffix == ".arrow":
        return 0
    try:
        if source.path.suffix == ".parquet":
            return int(parquet.read_metadata(source.path).num_rows)
        with source.path.open("rb") as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(PIECE), b""))
    except (OSError, pa.ArrowException):
        return 0  # Reading it says what is wrong.


def archive_sources(paths: Sequence[Path]) -> list[Source]:
    """Return the examples of archives: a folder with a manifest, or a folder of such folders."""
    folders: list[Path] = []
    for path in paths:
        folders += [path] if (path / MANIFEST).is_file() else sorted(file.parent for file in path.glob(f"*/{MANIFEST}"))
        if not folders:
            raise refuse(str(path), "folder_empty", "has no archive; name a folder with a manifest.json")
    found = []
    for folder in folders:
        for file in (folder / MANIFEST, folder / "examples.parquet"):
            if file.is_symlink():
                raise refuse(str(file), "file_link", "is a symbolic link; copy the archive with the files themselves")
        manifest = read_manifest(folder / MANIFEST, "copy the archive again")
        (source,) = open_sources([folder / "examples.parquet"], "parquet")
        if source.sha256 != manifest["files"]["examples.parquet"]["sha256"]:
            raise refuse(str(folder), "file_corrupt", "was changed (its SHA-256 differs); copy the archive again")
        name = f"{folder.name}/examples.parquet"
        found.append(replace(source, name=name, split=None, round=int(manifest["round"]), spec=manifest["spec"]))
    return found


def _reader(read: Callable[[Path, str, Problems], Rows], path: Path, name: str) -> Callable[[Problems], Rows]:
    return lambda problems: read(path, name, problems)


def _files_in(folder: Path) -> list[Path]:
    """Return the data files of a folder, such as a data set of Hugging Face; parts of one split in order."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower()[1:] in IN_FOLDERS and path.is_file())
    files = [path for path in files if path.name not in NOT_DATA]
    if links := [path for path in files if path.is_symlink()]:
        # A folder from elsewhere must not name other files of this machine.
        raise refuse(str(links[0]), "file_link", "is a symbolic link; name the file itself, or copy it into the folder")
    if not files:
        raise refuse(str(folder), "folder_empty", f"has no file in one of the formats {', '.join(IN_FOLDERS)}")
    return files


def _names(files: Sequence[Path]) -> list[str]:
    """Return names that tell the files apart: the last parts of their paths."""
    for length in range(1, max((len(file.absolute().parts) for file in files), default=1) + 1):
        names = ["/".join(file.absolute().parts[-length:]) for file in files]
        if len(set(names)) == len(names):
            return names
    raise refuse(str(files[0]), "file_repeated", "is named twice; name each file once")


def _json_lines(path: Path, name: str, problems: Problems) -> Rows:
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            line = raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw
            if len(line) > MAX_LINE_BYTES:
                raise refuse(name, "line_too_long", f"line {number} is longer than {MAX_LINE_BYTES:,} bytes")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except UnicodeDecodeError:
                problems.add(name, number, "file_not_utf8", "is not UTF-8; save the file as UTF-8")
            except (ValueError, RecursionError):
                problems.add(name, number, "json_invalid", "is not valid JSON; write one object per line")
            else:
                if isinstance(row, dict):
                    yield number, row
                else:
                    problems.add(name, number, "json_invalid", "is not an object; write one object per line")


def _delimited(path: Path, name: str, problems: Problems) -> Rows:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    # The limit is one for the whole process: other readers have their own.
    before = csv.field_size_limit(MAX_LINE_BYTES)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            header = next(rows, None)
            if not header:
                raise refuse(name, "file_empty", "has no header; write the names of the columns on the first line")
            if repeated := sorted({one for one in header if header.count(one) > 1}):
                raise refuse(name, "column_repeated", f"has the column {repeated[0]!r} twice; rename one")
            for row in rows:
                if len(row) == len(header):
                    yield rows.line_num, {one: value or None for one, value in zip(header, row, strict=True)}
                elif row:
                    text = f"has {len(row)} values, the header has {len(header)}; check the quotes"
                    problems.add(name, rows.line_num, "values_differ", text)
        except csv.Error as error:
            problems.add(name, rows.line_num, "csv_invalid", f"is not valid CSV ({error})")
        except UnicodeDecodeError:
            problems.add(name, rows.line_num + 1, "file_not_utf8", "is not UTF-8 here; save the file as UTF-8")
        finally:
            csv.field_size_limit(before)


def _parquet(path: Path, name: str, problems: Problems) -> Rows:
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
        # Texts stay encoded until their size is known: a small file can have a huge text on every row.
        texts = [one.name for one in schema if pa.types.is_string(one.type) or pa.types.is_binary(one.type)]
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            batches = file.iter_batches(batch_size=BATCH)
            yield from _numbered((part for one in batches for part in _decoded(one, name)), _class_names(schema))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise refuse(name, "file_corrupt", "is not a valid Parquet file; copy it again") from error


def _decoded(batch: pa.RecordBatch, name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows with plain texts, a few at a time if the texts are long; refuse huge ones."""
    size = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            lengths = pc.binary_length(column.dictionary)
            if (pc.max(lengths).as_py() or 0) > MAX_LINE_BYTES:
                raise refuse(name, "cell_too_long", f"has a text of more than {MAX_LINE_BYTES:,} bytes; shorten it")
            size += pc.sum(lengths.take(column.indices)).as_py() or 0
    step = max(1, batch.num_rows * MAX_BATCH_BYTES // max(size, MAX_BATCH_BYTES))
    for at in range(0, batch.num_rows, step):
        part = batch.slice(at, step)
        plain = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in part.columns]
        yield pa.RecordBatch.from_arrays(plain, names=part.schema.names)


def _arrow(path: Path, name: str, problems: Problems) -> Rows:
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
            pieces = (batch.slice(at, BATCH) for batch in stream for at in range(0, batch.num_rows, BATCH))
            yield from _numbered(pieces, _class_names(stream.schema))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise refuse(name, "file_corrupt", "is not a valid Arrow file; copy it again") from error


def _numbered(batches: Iterator[pa.RecordBatch], classes: Mapping[str, list[str]]) -> Rows:
    number = 0
    for batch in batches:
        for row in batch.to_pylist():
            number += 1
            for column, names in classes.items():
                # `datasets` writes -1 for a label that is not given.
                at = row[column]
                row[column] = names[at] if isinstance(at, int) and 0 <= at < len(names) else None
            yield number, row


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the labels of columns that `datasets` stores as numbers, from its notes in the schema."""
    try:
        notes = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {name: list(one["names"]) for name, one in notes.items() if one.get("_type") == "ClassLabel"}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _squad(path: Path, name: str, problems: Problems) -> Rows:
    """Yield the questions of a SQuAD file, which is one JSON document and is read as a whole."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise refuse(name, "file_too_large", f"is larger than {MAX_DOCUMENT_BYTES:,} bytes; split it")
        articles = json.loads(path.read_bytes())["data"]
        for number, (title, place, passage, question) in enumerate(
            (
                (article.get("title"), place, paragraph["context"], question)
                for article in articles
                for place, paragraph in enumerate(article["paragraphs"])
                for question in paragraph["qas"]
            ),
            1,
        ):
            answers = question.get("answers") or [{}]
            first = {"answer": answers[0].get("text"), "answer_start": answers[0].get("answer_start")}
            context = None if title is None else f"{title}/{place}"
            rest = {key: value for key, value in question.items() if key != "answers"}
            yield number, {**rest, "context": passage, "title": context, **first}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise refuse(name, "squad_invalid", "is not in SQuAD's form: data, paragraphs, qas, answers") from error


def frame_source(frame: Any) -> Source:
    """Return a pandas DataFrame as a source; its hash is that of its values."""
    import pandas as pd

    hashed = pd.util.hash_pandas_object(frame.astype(str), index=False).to_numpy()

    def read(_problems: Problems) -> Rows:
        for start in range(0, len(frame), BATCH):
            piece = frame.iloc[start : start + BATCH]
            for number, row in enumerate(piece.to_dict("records"), start + 1):
                yield number, {str(name): _plain(value) for name, value in row.items()}

    return Source("DataFrame", sha256_of_bytes(hashed.tobytes()), read)


def sha256_of_bytes(data: bytes) -> str:
    """Return the hash of some bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    import pandas as pd

    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | dict | tuple):
        return value
    return None if pd.isna(value) else value


READERS: dict[str, Callable[[Path, str, Problems], Rows]] = {
    "jsonl": _json_lines,
    "csv": _delimited,
    "tsv": _delimited,
    "parquet": _parquet,
    "arrow": _arrow,
    "squad": _squad,
}
IN_FOLDERS = ("jsonl", "csv", "tsv", "parquet", "arrow")
# `datasets.save_to_disk` and our own exports write these next to the data.
NOT_DATA = ("dataset_info.json", "state.json", "dataset_dict.json", "manifest.json", "README.md")
