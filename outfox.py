"""Outfox's rounds in pandas.

    import outfox

    df = outfox.load("sentiment", rounds=[1, 2], path="archives")
    train = df[df["split"] == "train"]
    votes = outfox.votes("sentiment", path="archives")       # joins by votes["example"] == df["id"]
    outfox.export(df, form="datasets", to="sentiment-data")  # datasets.load_dataset("sentiment-data")

    df = outfox.load("sentiment", url="https://outfox.example.org", token="outfox-data-…")

`path` is a folder of archives, as `outfox round freeze` fills it, or one archive of it. `url` is where `outfox serve`
answers, with a token of the task's owner (`outfox data token`) unless the task is public; it gives the very same, and
what was loaded once is kept in ~/.cache/outfox (or below XDG_CACHE_HOME), so that it is not sent again. No more than
`outfox.CACHE_BYTES` (10 GiB) are kept there: what was used longest ago makes room.

A row of `load` is an example: the fields of its task, the target (`label`, or `answer` with its place), the verdict
that the author saw (`model`, `prediction`, `confidence`, `fooled`, and every model's in `verdicts`), `status`, the
label that people agreed on (`gold_label`), `split` (train or held_out, for verified examples only), the raw `votes`,
who and when. People appear under pseudonyms, the same for authors and validators of one task. docs/rounds-data.md tells
every column.
"""

import base64
import hashlib
import json
import os
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

if TYPE_CHECKING:
    import requests

__all__ = ["OutfoxError", "attempts", "contexts", "export", "iter_load", "load", "metrics", "models", "votes"]

MANIFEST = "manifest.json"
FORMAT = 1
TABLES = ("examples", "votes", "attempts", "contexts", "models")
SPLIT = r"[A-Za-z0-9_-]{1,64}"
ATTRS = "outfox"
# What the marketplace never confirmed, and what must not be used, was not collected.
NOT_COLLECTED = ("unconfirmed", "withdrawn")
Z95 = 1.959963984540054
# Seconds between tries; the last one's failure is told.
WAITS = (0.5, 1.0, 2.0, 4.0)
LATER = (429, 500, 502, 503, 504)
PARTIAL = 206
TIMEOUTS = (10.0, 60.0)
PIECE = 1 << 20
# What is kept of files that were fetched; those that were used longest ago go first.
CACHE_BYTES = 10 * 2**30
# What was used so lately may be in somebody's hands; a draft that is older was left by a process that died.
SECONDS_IN_USE = 60.0
SECONDS_OF_A_DRAFT = 24 * 3600.0
HASH = re.compile("[0-9a-f]{64}")
# A column's type follows from the archive, not from whether some of the rows that were read have no value.
TYPES = {pa.int32(): pd.Int64Dtype(), pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
# What can be chosen in DynaSent and is no label of its models.
MIXED = "mixed"
Rounds = int | Iterable[int] | None
Columns = str | Iterable[str] | None


class OutfoxError(Exception):
    """Something that cannot be loaded; the message says what to do about it."""


def load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """The examples of a task's rounds (default: all that are there), one row each.

    Few columns are read much faster than all: `columns=["text", "gold_label", "split"]`. With `verify`, the files must
    have the hashes that their manifests tell. Whole numbers are Int64 and yes or no is boolean, also where some are
    missing.
    """
    return _table("examples", _archives(_place(path, url, token), task, rounds), columns, verify=verify)


def iter_load(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    chunk: int = 100_000,
    verify: bool = False,
) -> Iterator[pd.DataFrame]:
    """The same examples as `load` gives, some at a time, for rounds that do not fit into memory."""
    if chunk < 1:
        raise OutfoxError("`chunk` must be 1 or more rows")
    wanted = _wanted(columns)
    for archive in _archives(_place(path, url, token), task, rounds):
        with _opened(archive, "examples", wanted, verify=verify) as (file, names):
            for batch in file.iter_batches(batch_size=chunk, columns=names):
                frame = _frame(pa.Table.from_batches([batch]), names)
                frame.attrs[ATTRS] = archive.about | _schema_told([file.schema_arrow])
                yield frame


def votes(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Every vote, one row each; `example` is the example's `id`, `worker` the validator."""
    return _table("votes", _archives(_place(path, url, token), task, rounds), columns, verify=verify)


def attempts(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """Every question that people put to the models, also those that became no example."""
    return _table("attempts", _archives(_place(path, url, token), task, rounds), columns, verify=verify)


def contexts(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    columns: Columns = None,
    verify: bool = False,
) -> pd.DataFrame:
    """What people wrote for; `id` is the examples' `context`."""
    return _table("contexts", _archives(_place(path, url, token), task, rounds), columns, verify=verify)


def models(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
    verify: bool = False,
) -> pd.DataFrame:
    """The model versions that each round was played against, with their hashes and what they learned from."""
    frame = _table("models", _archives(_place(path, url, token), task, rounds), None, verify=verify)
    for name in ("files", "data", "settings", "metrics"):
        frame[name] = [json.loads(text) for text in frame[name]]
    return frame


def metrics(
    task: str,
    rounds: Rounds = None,
    *,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
) -> pd.DataFrame:
    """How often the models were fooled, with 95 % intervals (Wilson): a row for each round, also for an empty one.

    `mer` is fooled / collected, `vmer` is verified and fooled / collected; what was withdrawn or never confirmed is not
    collected.
    """
    wanted = ["round", "status", "fooled", "split", "author", "tries", "active_ms"]
    rows = []
    found_at = {int(one.manifest["round"]): one for one in _archives(_place(path, url, token), task, rounds)}
    for number, archive in sorted(found_at.items()):
        found = _table("examples", [archive], wanted, verify=False)
        collected = found[~found["status"].isin(NOT_COLLECTED)]
        fooled = collected[collected["fooled"]]
        verified = fooled[fooled["status"] == "verified"]
        row: dict[str, Any] = {"round": number, "collected": len(collected), "fooled": len(fooled)}
        row["verified_fooling"] = len(verified)
        for name, count in (("mer", len(fooled)), ("vmer", len(verified))):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = _wilson(count, len(collected))
        row["example_tries_per_fool"] = _per(collected["tries"].sum(), len(fooled))
        # Where the time of one is not known, that of all is not.
        seconds = collected["active_ms"].sum(skipna=False) / 1_000
        row["author_seconds_per_verified"] = float("nan") if pd.isna(seconds) else _per(seconds, len(verified))
        row["authors"] = collected["author"].nunique()
        row |= {part: int((found["split"] == part).sum()) for part in ("train", "held_out")}
        rows.append(row)
    return pd.DataFrame(rows)


def export(
    data: pd.DataFrame | str,
    form: str,
    to: str | Path,
    *,
    rounds: Rounds = None,
    path: str | Path | None = None,
    url: str | None = None,
    token: str | None = None,
) -> list[Path]:
    """Files in another form, for all rows that have a split: what `load` gave, or a task's name with `path` or `url`.

    `anli`, `squad` and `dynasent` are the forms of those data sets, in a file for each split; `datasets` is a folder
    that Hugging Face's `datasets.load_dataset` reads, with all columns.
    """
    if form not in FORMS:
        raise OutfoxError(f"there is no form {form!r}; choose one of {', '.join(sorted(FORMS))}")
    if isinstance(data, str):
        data = load(data, rounds, path=path, url=url, token=token)
    about = data.attrs.get(ATTRS)
    if about is None:
        raise OutfoxError("this DataFrame does not know its task; take one that `outfox.load` returned")
    folder = _expanded(to, "name the folder in full")
    try:
        chosen = data[data["split"].notna()]
        if chosen.empty:
            raise OutfoxError(f"no example of {about['task']} here has a split; verified ones of other rounds may")
        for part in chosen["split"].unique():
            # It becomes a file's name, and an archive may be anybody's.
            if not re.fullmatch(SPLIT, str(part)):
                raise OutfoxError(f"{part!r} is no split; use letters, digits, - and _")
        folder.mkdir(parents=True, exist_ok=True)
        return FORMS[form](chosen, about, folder)
    except KeyError as error:
        raise OutfoxError(f"this DataFrame has no column {error}; export one with all columns") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise OutfoxError(f"this DataFrame has values that do not fit the form {form}: {error}") from error
    except OSError as error:
        raise OutfoxError(f"cannot write {folder}: {error.strerror or error}; free the disk or its rights") from error


@dataclass(frozen=True)
class _Archive(ABC):
    """A frozen round, wherever it is."""

    manifest: dict[str, Any]
    cure = "copy the archive again"

    @property
    def about(self) -> dict[str, Any]:
        """What an export has to know about its task."""
        return _about(self.manifest)

    @abstractmethod
    def file(self, table: str, *, verify: bool) -> Path:
        """The Parquet file of a table, on this machine."""


@dataclass(frozen=True)
class _FolderArchive(_Archive):
    folder: Path

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        found = self.folder / name
        if not found.is_file():
            raise OutfoxError(f"{found} is missing; {self.cure}")
        if verify and _sha256(found) != self.manifest["files"][name]["sha256"]:
            raise OutfoxError(f"{found} was changed (its SHA-256 differs); {self.cure}")
        return found


@dataclass(frozen=True)
class _ServedArchive(_Archive):
    server: "_Server"
    base: str
    cure = "load it with verify=True, which fetches it again"

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        entry = self.manifest["files"][name]
        return self.server.fetched(f"{self.base}/{name}", entry["sha256"], entry["size"], verify=verify)


class _Folder:
    """Archives in a folder, or one archive."""

    def __init__(self, path: str | Path) -> None:
        self._root = _expanded(path, "name the folder in full")

    def __str__(self) -> str:
        return str(self._root)

    def archives(self, task: str) -> dict[int, Callable[[], _Archive]]:
        """The task's rounds that are there, by number, to be opened."""
        alone = (self._root / MANIFEST).is_file()
        folders = [self._root] if alone else [one.parent for one in (self._root / task).glob(f"round-*/{MANIFEST}")]
        found = [(folder, _manifest(folder / MANIFEST)) for folder in folders]
        return {
            int(manifest["round"]): partial(_FolderArchive, manifest, folder)
            for folder, manifest in found
            if manifest["task"] == task
        }


class _Server:
    """Archives of an `outfox serve`; what was fetched is kept on this machine under its hash."""

    def __init__(self, url: str, token: str | None) -> None:
        import requests

        self._url = _checked_url(url)
        self._session = requests.Session()
        if right := _checked_token(token or ""):
            # Not as a header of the session: a .netrc would replace it.
            self._session.auth = _Bearer(right)
        place = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        self._cache = _expanded(place, "set XDG_CACHE_HOME") / "outfox"

    def __str__(self) -> str:
        return self._url

    def archives(self, task: str) -> dict[int, Callable[[], _Archive]]:
        """The task's rounds that are there, by number, to be opened."""
        base = f"{self._url}/data/{quote(task, safe='')}"
        try:
            rounds = {int(one["round"]): one for one in json.loads(self._tried(base, _content))["rounds"]}
        except (ValueError, KeyError, TypeError) as error:
            raise OutfoxError(f"{base} is not what `outfox serve` answers; check `url`") from error
        return {number: partial(self._open, f"{base}/rounds/{number}", one) for number, one in rounds.items()}

    def _open(self, base: str, listed: dict[str, Any]) -> _ServedArchive:
        if "problem" in listed:
            raise OutfoxError(f"{base}: {listed['problem']}")
        # The manifest is small, and says what all other files must be.
        file = self.fetched(f"{base}/{MANIFEST}", str(listed.get("manifest_sha256")), verify=True)
        return _ServedArchive(_manifest(file), self, base)

    def fetched(self, address: str, sha256: str, size: int | None = None, *, verify: bool) -> Path:
        """The file of that hash (and size, where it is known) on this machine, sent now if it is not there."""
        if not HASH.fullmatch(sha256):  # It becomes the name of a file.
            raise OutfoxError(f"{address} is listed with a hash that is none; tell whoever runs the server")
        target = self._cache / f"{sha256}{Path(address).suffix}"
        try:
            if _is_whole(target, size) and not (verify and _sha256(target) != sha256):
                with suppress(OSError):  # A cache that may only be read is one, too.
                    os.utime(target)
                return target
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fetch(address, sha256, target)
        except OSError as error:
            cure = "free the disk, or set XDG_CACHE_HOME to a folder that can be written"
            raise OutfoxError(f"cannot keep {target}: {error.strerror or error}; {cure}") from error
        with suppress(OSError):  # What could not be tidied up is tidied up another time.
            _trim(self._cache, target)
        return target

    def _fetch(self, address: str, sha256: str, target: Path) -> None:
        """Brings the file to its place, where it is whole or not at all."""
        draft = self._cache / f".{uuid.uuid4().hex}"
        draft.touch(exist_ok=False)
        try:
            with draft.open("r+b") as file:
                self._download(address, sha256, file)
                file.flush()
                os.fsync(file.fileno())  # Else a machine that stops might leave an empty file under a right name.
            if _sha256(draft) != sha256:
                raise OutfoxError(f"{address} did not arrive as it is there (its SHA-256 differs); load it again")
            draft.replace(target)
        finally:
            with suppress(OSError):  # What went wrong before is to be told.
                draft.unlink(missing_ok=True)

    def _download(self, address: str, sha256: str, file: BinaryIO) -> None:
        def take(answer: "requests.Response") -> None:
            if answer.status_code != PARTIAL:
                file.truncate(0)
                file.seek(0)
            for piece in answer.iter_content(PIECE):
                file.write(piece)

        def rest() -> dict[str, str]:
            # After a break only what is missing is sent, if it is still the same file.
            return {"Range": f"bytes={file.tell()}-", "If-Range": f'"{sha256}"'} if file.tell() else {}

        self._tried(address, take, rest)

    def _tried(self, address: str, take: Callable[["requests.Response"], Any], headers: Any = dict) -> Any:
        """What `take` makes of the answer; where trying again may help, it is done a few times."""
        import requests

        for wait in (*WAITS, None):
            try:
                asked = {"Accept-Encoding": "identity", **headers()}
                with self._session.get(address, headers=asked, stream=True, timeout=TIMEOUTS) as answer:
                    if wait is None or answer.status_code not in LATER:
                        _check_answer(address, answer)
                        return take(answer)
            except requests.RequestException as error:
                # An address that is none is a ValueError too.
                if wait is None or isinstance(error, ValueError):
                    why = type(error).__name__
                    raise OutfoxError(f"{self._url} does not answer ({why}); check `url` and try again") from error
            time.sleep(wait or 0)
        raise AssertionError("the last try returns or raises")


@dataclass(frozen=True)
class _Bearer:
    """A token as requests sends it; to no other host than the one that was asked."""

    token: str

    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def _content(answer: "requests.Response") -> bytes:
    return answer.content


def _check_answer(address: str, answer: "requests.Response") -> None:
    if answer.ok:
        return
    try:
        why = str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        why = "is this where `outfox serve` answers?"
    raise OutfoxError(f"{address} answers {answer.status_code}: {why}")


def _place(path: str | Path | None, url: str | None, token: str | None) -> _Folder | _Server:
    if (path is None) == (url is None):
        raise OutfoxError("give `path`, a folder of archives, or `url`, where `outfox serve` answers")
    return _Folder(path) if path is not None else _Server(str(url), token)


def _expanded(path: str | Path, cure: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise OutfoxError(f"cannot tell which home {path} is in; {cure}") from error


def _checked_url(url: str) -> str:
    """The address without a slash at its end; it is not repeated in the error, because there may be a token in it."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        right = False
    if not right or "?" in url or "#" in url:
        like = "it is where `outfox serve` answers, like https://outfox.example.org"
        raise OutfoxError(f"check `url`: {like}, and a token goes into `token`")
    return url.rstrip("/")


def _checked_token(token: str) -> str:
    """The token as it was made, without the line's end of the file that it may come from."""
    right = token.strip()
    if not right.isascii() or not right.isprintable() or " " in right:
        raise OutfoxError("`token` has signs in it that no token has; copy it again, as `outfox data token` showed it")
    return right


def _is_whole(file: Path, size: int | None) -> bool:
    return file.is_file() and size in (None, file.stat().st_size)


def _trim(folder: Path, newest: Path) -> None:
    """Removes what was used longest ago, until the rest is small enough; what is just being used stays."""
    now, kept = time.time(), []
    for path in folder.iterdir():
        with suppress(OSError):  # Others have the same cache, and some systems keep a file that is open.
            found = path.stat()
            if not path.name.startswith("."):
                kept.append((found.st_mtime, found.st_size, path))
            elif now - found.st_mtime > SECONDS_OF_A_DRAFT:
                path.unlink()
    left = sum(size for _, size, _ in kept)
    for used, size, path in sorted(kept):
        if left <= CACHE_BYTES or now - used < SECONDS_IN_USE:
            return
        if path != newest:
            with suppress(OSError):
                path.unlink()
                left -= size


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _about(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    roles = {field["name"]: field["role"] for field in spec["fields"]}
    return {
        "task": manifest["task"],
        "kind": manifest["kind"],
        "labels": [label["name"] for label in spec["labels"]],
        "inputs": list(spec["model_input"]),
        "contexts": [name for name, role in roles.items() if role == "context"],
        "reasons": [name for name, role in roles.items() if role == "reason"],
    }


def _archives(place: _Folder | _Server, task: str, rounds: Rounds) -> list[_Archive]:
    """The archives of the task's rounds: those that are wanted, each once, or all by number."""
    asked = None if rounds is None else _numbers(rounds)
    found = place.archives(task)
    if not found:
        raise OutfoxError(f"there is no archive of {task} at {place}; `outfox round freeze {task}` makes one")
    numbers = sorted(found) if asked is None else asked
    missing = [number for number in numbers if number not in found]
    if missing:
        there = ", ".join(map(str, sorted(found)))
        raise OutfoxError(f"round {missing[0]} of {task} is not at {place}; there are rounds {there}")
    return [found[number]() for number in numbers]


def _numbers(rounds: Any) -> list[int]:
    """Round numbers, however they come: a number, or several; NumPy's too, and 2.0, which pandas makes of 2."""
    given = [rounds] if isinstance(rounds, str | Real) or not hasattr(rounds, "__iter__") else list(rounds)
    if not given:
        raise OutfoxError("`rounds` is empty; leave it out to have all")
    for one in given:
        if isinstance(one, bool) or not isinstance(one, Real) or one != one // 1:
            raise OutfoxError(f"`rounds` is a number like 2, or several like [1, 2], and {one!r} is none")
    return list(dict.fromkeys(int(one) for one in given))


def _wanted(columns: Columns) -> list[str] | None:
    """The names of columns, each once."""
    if columns is None:
        return None
    names = [columns] if isinstance(columns, str) else list(dict.fromkeys(columns))
    if not names:
        raise OutfoxError("`columns` is empty; leave it out to have all")
    return names


def _manifest(file: Path) -> dict[str, Any]:
    """What is in an archive; that everything is there which is read later, whoever wrote it."""
    try:
        manifest: dict[str, Any] = json.loads(file.read_bytes())
        known = manifest["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise OutfoxError(f"{file} cannot be read; copy the archive again") from error
    if not known:
        raise OutfoxError(f"{file.parent} is of another format than this outfox reads; install the one that wrote it")
    try:
        number, texts = manifest["round"], [manifest["task"], manifest["kind"]]
        about = _about(manifest)
        texts += [name for key in ("labels", "inputs", "contexts", "reasons") for name in about[key]]
        entries = [manifest["files"][f"{table}.parquet"] for table in TABLES]
        texts += [entry["sha256"] for entry in entries]
        numbers = [number, *(entry["size"] for entry in entries)]
        fits = all(isinstance(one, str) for one in texts) and all(type(one) is int for one in numbers)
    except (TypeError, KeyError, AttributeError) as error:
        raise OutfoxError(f"{file} lacks what every archive has ({error}); copy the archive again") from error
    if not fits:
        raise OutfoxError(f"{file} has values that no archive has; copy the archive again")
    return manifest


def _table(table: str, archives: Sequence[_Archive], columns: Columns, *, verify: bool) -> pd.DataFrame:
    frames, schemas, wanted = [], [], _wanted(columns)
    for archive in archives:
        with _opened(archive, table, wanted, verify=verify) as (file, names):
            frames.append(_frame(file.read(columns=names), names))
            schemas.append(file.schema_arrow)
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    frame.attrs[ATTRS] = archives[-1].about | _schema_told(schemas)
    return frame


@contextmanager
def _opened(
    archive: _Archive, table: str, wanted: list[str] | None, *, verify: bool
) -> Iterator[tuple[parquet.ParquetFile, list[str]]]:
    """A table's file, and the names of the columns that are to be read."""
    source = archive.file(table, verify=verify)
    try:
        with parquet.ParquetFile(source, pre_buffer=True) as file:
            known = file.schema_arrow.names
            for name in wanted or ():
                if name not in known:
                    raise OutfoxError(f"{archive.about['task']} has no column {name!r}; there are {', '.join(known)}")
            yield file, known if wanted is None else wanted
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OutfoxError(f"{source} was spoiled and cannot be read; {archive.cure}") from error


def _frame(table: pa.Table, names: list[str]) -> pd.DataFrame:
    return table.select(names).to_pandas(types_mapper=TYPES.get)


def _schema_told(schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """The archives' schema, as a text: pandas writes what a frame knows about itself as JSON."""
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowTypeError:  # A name meant something else in an earlier round.
        schema = schemas[-1]
    return {"schema": base64.b64encode(schema.remove_metadata().serialize()).decode()}


def _wilson(count: int, of: int) -> tuple[float, float, float]:
    """A share, and the 95 % interval that it stands for."""
    if of == 0:
        return float("nan"), 0.0, 1.0
    share, z2 = count / of, Z95**2 / of
    middle = (share + z2 / 2) / (1 + z2)
    half = (Z95 / (1 + z2)) * ((share * (1 - share) + z2 / 4) / of) ** 0.5
    return share, max(0.0, middle - half), min(1.0, middle + half)


def _per(total: float, count: int) -> float:
    return float(total) / count if count else float("nan")


def _in_anli_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 2 or about["kind"] == "qa":
        raise OutfoxError(f"ANLI's form is for tasks with a premise and a hypothesis, {about['task']} has not both")
    premise, hypothesis = (_field(frame, name) for name in about["inputs"])
    reason = _field(frame, about["reasons"][0]).fillna("") if about["reasons"] else pd.Series("", frame.index)
    # Its three labels are written by their first letters.
    label, said = (frame[name].str[0] if _is_nli(about) else frame[name] for name in ("gold_label", "prediction"))
    rows = {
        "uid": frame["id"],
        # Its own files say `context`, and `datasets` says `premise`.
        "context": premise,
        "premise": premise,
        "hypothesis": hypothesis,
        "label": label,
        "model_label": said,
        "reason": reason,
        "round": frame["round"],
    }
    return _lines(pd.DataFrame(rows), frame["split"], folder)


def _is_nli(about: dict[str, Any]) -> bool:
    return set(about["labels"]) == {"entailment", "neutral", "contradiction"}


def _in_dynasent_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 1 or about["kind"] == "qa":
        raise OutfoxError(f"DynaSent's form is for tasks with one text and labels, {about['task']} is another kind")
    prompts = _prompts(frame, about)
    first = [said[0] if said is not None and len(said) else {} for said in frame["verdicts"]]
    rows = {
        # Archives do not tell where votes were cast.
        "hit_ids": [[] for _ in prompts],
        "sentence": _field(frame, about["inputs"][0]),
        "sentence_author": frame["author"],
        "has_prompt": [prompt is not None for prompt in prompts],
        "prompt_data": prompts,
        "model_1_label": frame["prediction"],
        "model_1_probs": [said.get("probabilities") for said in first],
        "text_id": frame["id"],
        "label_distribution": [_voters(cast, [*about["labels"], MIXED]) for cast in frame["votes"]],
        "gold_label": frame["gold_label"],
        "round": frame["round"],
    }
    return _lines(pd.DataFrame(rows), frame["split"], folder)


def _prompts(frame: pd.DataFrame, about: dict[str, Any]) -> list[dict[str, Any] | None]:
    """What each author was shown, under DynaSent's names; a review has a rating there, a context has none."""
    shown = frame[[_field(frame, name).name for name in about["contexts"]]]
    texts = ["\n".join(text for text in row if isinstance(text, str)) for row in shown.itertuples(index=False)]
    return [
        {
            "indices_into_review_text": [0, len(text)],
            "review_rating": None,
            "prompt_sentence": text,
            "review_id": context,
        }
        if text
        else None
        for text, context in zip(texts, frame["context"], strict=True)
    ]


def _voters(cast: Iterable[dict[str, Any]], labels: Sequence[str]) -> dict[str, list[str]]:
    voters: dict[str, list[str]] = {label: [] for label in labels}
    for vote in cast:
        if vote["label"] is not None:
            voters.setdefault(vote["label"], []).append(vote["worker"])
    return voters


def _in_squad_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if about["kind"] != "qa":
        raise OutfoxError(f"SQuAD's form is for question answering, {about['task']} is {about['kind']}")
    question, passage = about["inputs"]
    made = []
    for part, rows in frame.groupby("split"):
        data = []
        for (title, text), asked in rows.groupby(["context", _field(rows, passage).name], dropna=False, sort=False):
            questions = [
                {"id": row["id"], "question": row[_field(rows, question).name],
                 "answers": [{"text": row["gold_answer"], "answer_start": int(row["gold_answer_start"])}]}
                for row in asked.to_dict("records")
            ]  # fmt: skip
            title = title if isinstance(title, str) else about["task"]
            data.append({"title": title, "paragraphs": [{"context": text, "qas": questions}]})
        file = folder / f"{part}.json"
        file.write_text(_json({"version": "1.1", "data": data}), encoding="utf-8")
        made.append(file)
    return made


def _in_datasets_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    # One table for all splits: a column that is empty in one of them has the same type in the others.
    table = _arrow(frame, about)
    made = []
    for part in sorted(frame["split"].unique()):
        made.append(folder / f"{part}.parquet")
        parquet.write_table(table.filter(pa.compute.equal(table["split"], part)), made[-1])
    files = "".join(f"      - split: {file.stem}\n        path: {file.name}\n" for file in made)
    card = f"---\nconfigs:\n  - config_name: default\n    data_files:\n{files}---\n\n# {about['task']}\n"
    (folder / "README.md").write_text(card, encoding="utf-8")
    return [*made, folder / "README.md"]


def _arrow(frame: pd.DataFrame, about: dict[str, Any]) -> pa.Table:
    """The frame with the archive's own types: nothing tells them where a column has no value, or no vote."""
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(about["schema"])))
    return pa.table({str(name): _arrow_column(frame[name], schema) for name in frame.columns})


def _arrow_column(column: pd.Series, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    if column.name in schema.names:
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError):  # Somebody has made something else of it.
            return pa.array(column, schema.field(column.name).type, from_pandas=True)
    return pa.array(column, from_pandas=True)


def _field(frame: pd.DataFrame, name: str) -> pd.Series:
    """The column of a task's field."""
    return frame[f"field_{name}"] if f"field_{name}" in frame else frame[name]


def _lines(rows: pd.DataFrame, split: pd.Series, folder: Path) -> list[Path]:
    made = []
    for part in sorted(split.unique()):
        made.append(folder / f"{part}.jsonl")
        with made[-1].open("w", encoding="utf-8") as file:
            for row in rows[split == part].to_dict("records"):
                file.write(_json(row) + "\n")
    return made


def _json(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """The value as JSON has it: null where pandas has one of its signs for what is missing."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if pd.isna(value) else value


FORMS = {
    "anli": _in_anli_form,
    "datasets": _in_datasets_form,
    "dynasent": _in_dynasent_form,
    "squad": _in_squad_form,
}
