"""Outfox's rounds in pandas.

    import outfox

    df = outfox.load("sentiment", rounds=[1, 2], path="archives")
    train = df[df["split"] == "train"]
    votes = outfox.votes("sentiment", path="archives")       # joins by votes["example"] == df["id"]
    outfox.export(df, form="datasets", to="sentiment-data")  # datasets.load_dataset("sentiment-data")

    df = outfox.load("sentiment", url="https://outfox.example.org", token="outfox-data-…")

`path` is a folder of archives, as `outfox round freeze` fills it, a task's folder in it, or one archive. `url` is where
`outfox serve` answers, with a token of the task's owner (`outfox data token`) unless the task is public; it gives the
very same, and what was loaded once is kept in ~/.cache/outfox (or below XDG_CACHE_HOME), so that it is not sent again.
No more than `outfox.CACHE_BYTES` (10 GiB) are kept there: what was used longest ago makes room.

With `verify=True`, which every function takes, files must have the hashes that their manifests tell. Whatever cannot be
done is an `OutfoxError` of one line that says what to do.

A row of `load` is an example: the fields of its task, the target (`label`, or `answer` with its place), the verdict
that the author saw (`model`, `prediction`, `confidence`, `fooled`, and every model's in `verdicts`), `status`, the
label that people agreed on (`gold_label`), `split` (train or held_out, for verified examples only), the raw `votes`,
who and when. People appear under pseudonyms, the same for authors and validators of one task. docs/rounds-data.md tells
every column.
"""

import base64
import errno
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from pyarrow import parquet

if TYPE_CHECKING:
    import requests

__all__ = ["OutfoxError", "attempts", "contexts", "export", "iter_load", "load", "metrics", "models", "votes"]

MANIFEST = "manifest.json"
NLI_LETTERS = {"entailment": "e", "neutral": "n", "contradiction": "c"}
COPY = "copy the archive again"
FORMAT = 1
TABLES = ("examples", "votes", "attempts", "contexts", "models")
SPLIT = r"[A-Za-z0-9_-]{1,64}"
ATTRS = "outfox"
# What archives call their own columns; a field of that name is `field_…` there.
OWN = frozenset(
    {
        "id", "round", "context", "author", "status", "split", "label", "answer", "answer_start", "gold_label",
        "gold_answer", "gold_answer_start", "model", "prediction", "confidence", "fooled", "verdicts", "judged_at",
        "votes", "tries", "active_ms", "source", "submitted_at", "decided_at", "example", "worker", "flag",
        "comment", "voted_at", "number", "latency_us", "asked_at",
    }
)  # fmt: skip
# What a message repeats of what others say.
MOST_SIGNS = 300
# What the marketplace never confirmed, and what must not be used, was not collected.
NOT_COLLECTED = ("unconfirmed", "withdrawn")
# What Python, pandas and Arrow say of values that are not of the kind that they should be.
NOT_UNDERSTOOD = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    pa.ArrowException,
)
Z95 = 1.959963984540054
# Seconds between tries; the last one's failure is told.
WAITS = (0.5, 1.0, 2.0, 4.0)
LATER = (429, 500, 502, 503, 504)
PARTIAL = 206
NO_TOKEN = 401
TIMEOUTS = (10.0, 60.0)
PIECE = 1 << 20
# Texts that are looked at together, and their first bytes.
PIECE_ROWS, PAGE = 1 << 16, 1 << 12
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
    """Something that cannot be loaded or exported; the message says in one line what to do about it."""


class _Spoiled(OutfoxError):
    """What did not arrive as it is there: once more may help, and no third time."""


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
    return _table("examples", _asked(task, rounds, path, url, token, columns, verify=verify))


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
    most = _checked_chunk(chunk)
    # Asked for here, so that a mistake is told at once and not when the first rows are taken.
    return _chunks(_asked(task, rounds, path, url, token, columns, verify=verify), most)


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
    return _table("votes", _asked(task, rounds, path, url, token, columns, verify=verify))


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
    return _table("attempts", _asked(task, rounds, path, url, token, columns, verify=verify))


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
    return _table("contexts", _asked(task, rounds, path, url, token, columns, verify=verify))


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
    asked = _asked(task, rounds, path, url, token, verify=verify)
    frame = _table("models", asked)
    with _understood(asked, "models"):
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
    verify: bool = False,
) -> pd.DataFrame:
    """How often the models were fooled, with 95 % intervals (Wilson): a row for each round, also for an empty one.

    `mer` is fooled / collected, `vmer` is verified and fooled / collected; what was withdrawn or never confirmed is not
    collected. `author_seconds_per_verified` is the active time of all authors on what was collected / verified;
    checking and what was skipped or withdrawn, which `outfox round metrics` counts too, is not in it.
    """
    wanted = ["round", "status", "fooled", "split", "author", "tries", "active_ms"]
    asked = _asked(task, rounds, path, url, token, wanted, verify=verify)
    rows = []
    for archive in sorted(asked.archives, key=lambda one: int(one.manifest["round"])):
        alone = replace(asked, archives=[archive])
        found = _table("examples", alone)
        with _understood(alone, "examples"):
            rows.append({"round": int(archive.manifest["round"]), **_measured(found)})
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
    verify: bool = False,
) -> list[Path]:
    """Files in another form, for all rows that have a split: what `load` gave, or a task's name with `path` or `url`.

    `anli`, `squad` and `dynasent` are the forms of those data sets, in a file for each split; `datasets` is a folder
    that Hugging Face's `datasets.load_dataset` reads, with all columns. They are all there in the end, or everything is
    as it was; other files of a folder that was there before stay in it. `verify` is for a task's name, as in `load`.
    """
    if not isinstance(form, str) or form not in FORMS:
        raise OutfoxError(f"there is no form {_shown(form)}; choose one of {', '.join(sorted(FORMS))}")
    folder = _folder(to, "`to` is a folder, like 'data'")
    if isinstance(data, str):
        data = load(data, rounds, path=path, url=url, token=token, verify=verify)
    elif not isinstance(data, pd.DataFrame):
        what = "`data` is a DataFrame that `outfox.load` returned, or a task's name"
        raise OutfoxError(f"{what}, and {_shown(data)} is neither")
    elif _checked_verify(verify) or rounds is not None:
        raise OutfoxError("a DataFrame is exported as it is; give `rounds` and `verify` to `outfox.load`")
    about = data.attrs.get(ATTRS)
    if not isinstance(about, dict):
        raise OutfoxError("this DataFrame does not know its task; take one that `outfox.load` returned")
    try:
        chosen = _exportable(data, about)
        with _draft_of(folder) as draft:
            made = FORMS[form](chosen, about, draft)
    except KeyError as error:
        raise OutfoxError(f"this DataFrame {_lack(error)}; export one with all columns") from error
    except OSError as error:
        raise OutfoxError(
            f"cannot write {folder}{_why(error)}; name another folder, or free the disk or its rights"
        ) from error
    except NOT_UNDERSTOOD as error:
        what = f"this DataFrame has values that do not fit the form {form}"
        raise OutfoxError(f"{what}; export one as `outfox.load` returned it") from error
    return [folder / file.name for file in made]


@dataclass(frozen=True)
class _Archive(ABC):
    """A frozen round, wherever it is."""

    manifest: dict[str, Any]

    @property
    def about(self) -> dict[str, Any]:
        """What an export has to know about its task."""
        return _about(self.manifest)

    @abstractmethod
    def file(self, table: str, *, verify: bool) -> Path:
        """The Parquet file of a table, on this machine."""

    @abstractmethod
    def cure(self, *, verify: bool) -> str:
        """What to do about a file that cannot be used, once it was verified or was not."""


@dataclass(frozen=True)
class _FolderArchive(_Archive):
    folder: Path

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        found, cure = self.folder / name, self.cure(verify=verify)
        try:
            with found.open("rb") as file:
                right = not verify or _sha256(file) == self.manifest["files"][name]["sha256"]
        except FileNotFoundError as error:
            raise OutfoxError(f"{found} is missing; {cure}") from error
        except OSError as error:
            raise OutfoxError(f"cannot read {found}{_why(error)}; {cure}") from error
        if not right:
            raise OutfoxError(f"{found} was changed (its SHA-256 differs); {cure}")
        return found

    def cure(self, *, verify: bool) -> str:
        return COPY


@dataclass(frozen=True)
class _ServedArchive(_Archive):
    server: "_Server"
    base: str

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        entry = self.manifest["files"][name]
        return self.server.fetched(f"{self.base}/{name}", entry["sha256"], entry["size"], verify=verify)

    def cure(self, *, verify: bool) -> str:
        return (
            "it was frozen so; tell the task's owner" if verify else "load it with verify=True, which fetches it again"
        )


class _Folder:
    """Archives in a folder, those of one task, or one archive."""

    def __init__(self, path: str | Path) -> None:
        self._root = _folder(path, "`path` is a folder, like 'archives'")

    def __str__(self) -> str:
        return str(self._root)

    def archives(self, task: str) -> dict[int, Callable[[], _Archive]]:
        """The task's rounds that are there, by number, to be opened."""
        try:
            alone = (self._root / MANIFEST).is_file()
            # A folder with tables and no manifest is one that lost it: left out, nobody would miss its rounds.
            there = [*(self._root / task).glob("round-*")] or self._root.glob("round-*")
            kept = (one for one in there if any(one.glob("*.json*")) or any(one.glob("*.parquet")))
            folders = [self._root] if alone else list(kept)
        except OSError as error:
            raise OutfoxError(f"cannot read {self._root}{_why(error)}; name a folder that you may read") from error
        found = [(folder, _manifest(folder / MANIFEST, COPY)) for folder in folders]
        for folder, manifest in found:
            if not alone and folder.name != f"round-{manifest['round']}":
                raise OutfoxError(f"{folder / MANIFEST} is of round {manifest['round']}; {COPY}")
        return {
            int(manifest["round"]): partial(_FolderArchive, manifest, folder)
            for folder, manifest in found
            if manifest["task"] == task
        }


class _Server:
    """Archives of an `outfox serve`; what was fetched is kept on this machine under its hash."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url, right = _checked_url(url), _checked_token("" if token is None else token)
        try:
            import requests
        except ImportError as error:
            raise OutfoxError("reading from a server needs requests; install it with pip install requests") from error
        self._session = requests.Session()
        if right:
            # Not as a header of the session: a .netrc would replace it.
            self._session.auth = _Bearer(right)
        place = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        self._cache = _folder(place, "`XDG_CACHE_HOME` is a folder", "set XDG_CACHE_HOME") / "outfox"

    def __str__(self) -> str:
        return self._url

    def archives(self, task: str) -> dict[int, Callable[[], _Archive]]:
        """The task's rounds that are there, by number, to be opened."""
        base = self._address(task)
        try:
            rounds = {int(one["round"]): one for one in json.loads(self._tried(base, _content))["rounds"]}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise OutfoxError(f"{base} is not what `outfox serve` answers; check `url`") from error
        return {number: partial(self._open, task, number, one) for number, one in rounds.items()}

    def _open(self, task: str, number: int, listed: dict[str, Any]) -> _ServedArchive:
        base = f"{self._address(task)}/rounds/{number}"
        if "problem" in listed:
            raise OutfoxError(f"{base}: {_line(str(listed['problem']))}")
        # The manifest is small, and says what all other files must be.
        file = self.fetched(f"{base}/{MANIFEST}", str(listed.get("manifest_sha256")), verify=True)
        manifest = _manifest(file, "tell whoever runs the server", f"{base}/{MANIFEST}")
        if (manifest["task"], manifest["round"]) != (task, number):
            raise OutfoxError(f"{base}/{MANIFEST} is of another round; tell whoever runs the server")
        return _ServedArchive(manifest, self, base)

    def _address(self, task: str) -> str:
        return f"{self._url}/data/{quote(task, safe='')}"

    def fetched(self, address: str, sha256: str, size: int | None = None, *, verify: bool) -> Path:
        """The file of that hash (and size, where it is known) on this machine, sent now if it is not there."""
        if not HASH.fullmatch(sha256):  # It becomes the name of a file.
            raise OutfoxError(f"{address} is listed with a hash that is none; tell whoever runs the server")
        target = self._cache / f"{sha256}{Path(address).suffix}"
        try:
            if _is_whole(target, size) and not (verify and not _has_hash(target, sha256)):
                with suppress(OSError):  # A cache that may only be read is one, too.
                    os.utime(target)
                return target
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._fetch(address, sha256, target)
        except OSError as error:
            cure = "free the disk, or set XDG_CACHE_HOME to a folder that can be written"
            raise OutfoxError(f"cannot keep {target}{_why(error)}; {cure}") from error
        with suppress(OSError):  # What could not be tidied up is tidied up another time.
            _trim(self._cache, target)
        return target

    def _fetch(self, address: str, sha256: str, target: Path) -> None:
        """Brings the file to its place, where it is whole or not at all."""
        draft = self._cache / f".{uuid.uuid4().hex}"
        draft.touch(exist_ok=False)
        try:
            with draft.open("r+b") as file:
                try:
                    self._download(address, sha256, file)
                except _Spoiled:
                    file.seek(0)
                    file.truncate()
                    self._download(address, sha256, file)
                os.fsync(file.fileno())  # Else a machine that stops might leave an empty file under a right name.
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
        file.seek(0)
        if _sha256(file) != sha256:
            raise _Spoiled(f"{address} did not arrive as it is there (its SHA-256 differs); load it again")

    def _tried(self, address: str, take: Callable[["requests.Response"], Any], headers: Any = dict) -> Any:
        """What `take` makes of the answer; where trying again may help, it is done a few times."""
        import requests

        for wait in (*WAITS, None):
            try:
                asked = {"Accept-Encoding": "identity", **headers()}
                with self._session.get(address, headers=asked, stream=True, timeout=TIMEOUTS) as answer:
                    if wait is None or not _may_be_better_later(answer):
                        _check_answer(address, answer)
                        return take(answer)
            except requests.exceptions.ContentDecodingError as error:
                raise _Spoiled(
                    f"{address} did not arrive as it is there (it cannot be decoded); load it again"
                ) from error
            except requests.RequestException as error:
                # An address that is none is a ValueError too.
                if wait is None or isinstance(error, ValueError | requests.TooManyRedirects):
                    why = _silence(error)
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


def _may_be_better_later(answer: "requests.Response") -> bool:
    """Whether to ask again; a server of ours says where that is of no use."""
    return answer.status_code in LATER and _said(answer).get("retry") is not False


def _check_answer(address: str, answer: "requests.Response") -> None:
    if answer.status_code == NO_TOKEN and "Authorization" not in answer.request.headers:
        raise OutfoxError(f"{address} wants a `token`: ask the task's owner, who makes one with `outfox data token`")
    if not answer.ok:
        why = _said(answer).get("error", "is this where `outfox serve` answers?")
        raise OutfoxError(f"{address} answers {answer.status_code}: {_line(str(why))}")


def _said(answer: "requests.Response") -> dict[str, Any]:
    """What an answer that is an error says about itself, if it does."""
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


@dataclass(frozen=True)
class _Asked:
    """What somebody wants to have of a task."""

    archives: Sequence[_Archive]
    columns: list[str] | None
    verify: bool


def _asked(task: Any, rounds: Any, path: Any, url: Any, token: Any, columns: Any = None, *, verify: Any) -> _Asked:
    """What was asked for, whatever was given: every mistake in it is told before anything is read."""
    # A name that is no line of text is none, and would make more than a line of every message.
    if not isinstance(task, str) or not task.strip() or not task.isprintable():
        raise OutfoxError(f"`task` is the name of a task, like 'sentiment', and {_shown(task)} is none")
    numbers, names, right = _numbers(rounds), _wanted(columns), _checked_verify(verify)
    return _Asked(_archives(_place(path, url, token), task, numbers), names, right)


def _place(path: Any, url: Any, token: Any) -> _Folder | _Server:
    if (path is None) == (url is None):
        raise OutfoxError("give `path`, a folder of archives, or `url`, where `outfox serve` answers")
    return _Folder(path) if path is not None else _Server(url, token)


def _checked_verify(verify: Any) -> bool:
    if not isinstance(verify, bool | np.bool_):
        raise OutfoxError(f"`verify` is True or False, and {_shown(verify)} is neither")
    return bool(verify)


def _checked_chunk(chunk: Any) -> int:
    if isinstance(chunk, bool) or not isinstance(chunk, Integral) or int(chunk) < 1:
        raise OutfoxError(f"`chunk` must be 1 or more rows, and {_shown(chunk)} is not")
    return int(chunk)


def _folder(path: Any, what: str, cure: str = "name the folder in full") -> Path:
    """The folder that was meant; a mistake is told with what should have been given."""
    try:
        found = Path(path).expanduser()
        if b"\0" in os.fsencode(found):
            raise ValueError("no system has such a name")
    except RuntimeError as error:
        raise OutfoxError(f"cannot tell which home {path} is in; {cure}") from error
    except (TypeError, ValueError) as error:
        raise OutfoxError(f"{what}, and {_shown(path)} is none") from error
    return found


def _shown(value: Any) -> str:
    """A value as a message repeats it."""
    return _line(repr(value), 60)


def _line(text: str, most: int = MOST_SIGNS) -> str:
    """What others say, in one line that no terminal takes for orders."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 10 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _why(error: OSError) -> str:
    """What the system says, after what cannot be done; libraries put words of their own where it says nothing."""
    return f": {error.strerror}" if error.strerror else ""


def _lack(error: KeyError, what: str = "column") -> str:
    """What is not there, by its name where that can be known: pandas tells several in a sentence of its own."""
    name = str(error.args[0]) if error.args else ""
    return f"has no {what} {_shown(name)}" if re.fullmatch(r"[\w.]+", name) else f"lacks {what}s"


def _silence(error: Exception) -> str:
    """Why a server does not answer, as far as one can know from here."""
    import requests

    match error:
        case requests.exceptions.SSLError():
            return "it speaks no https that this machine trusts"
        case requests.exceptions.ProxyError():
            return "the proxy on the way does not"
        case requests.exceptions.Timeout():
            return "it takes too long"
        case requests.exceptions.TooManyRedirects():
            return "it only leads elsewhere"
        case ValueError():
            return "it is no address"
    return "nobody is there, or the line was cut"


def _checked_url(url: Any) -> str:
    """The address without a slash at its end; it is not repeated in the error, because there may be a token in it."""
    right = isinstance(url, str) and url.isprintable() and not set(" ?#") & set(url)
    try:
        parts = urlsplit(url if right else "")
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        right = False
    if not right:
        like = "it is where `outfox serve` answers, like https://outfox.example.org"
        raise OutfoxError(f"check `url`: {like}, and a token goes into `token`")
    return str(url).rstrip("/")


def _checked_token(token: Any) -> str:
    """The token as it was made, without the line's end of the file that it may come from."""
    right = token.strip() if isinstance(token, str) else None
    if right is None or not right.isascii() or not right.isprintable() or " " in right:
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


def _has_hash(path: Path, sha256: str) -> bool:
    with path.open("rb") as file:
        return _sha256(file) == sha256


def _sha256(file: Any) -> str:
    """The hash of an open file, from where it is read to its end."""
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


def _archives(place: _Folder | _Server, task: str, asked: list[int] | None) -> list[_Archive]:
    """The archives of the task's rounds: those that are wanted, or all by number."""
    found = place.archives(task)
    if not found:
        raise OutfoxError(f"there is no archive of {task} at {place}; `outfox round freeze {task}` makes one")
    numbers = sorted(found) if asked is None else asked
    missing = [number for number in numbers if number not in found]
    if missing:
        there = ", ".join(map(str, sorted(found)))
        raise OutfoxError(f"round {missing[0]} of {task} is not at {place}; there are rounds {there}")
    return [found[number]() for number in numbers]


def _numbers(rounds: Any) -> list[int] | None:
    """Round numbers, each once, in any form that means them: NumPy's too, and 2.0, which pandas makes of 2."""
    if rounds is None:
        return None
    given = _several(rounds, "`rounds` is a number like 2, or several like [1, 2]", Real)
    for one in given:
        if isinstance(one, bool) or one != one // 1:
            raise OutfoxError(f"`rounds` is a number like 2, or several like [1, 2], and {_shown(one)} is none")
    return list(dict.fromkeys(int(one) for one in given))


def _wanted(columns: Any) -> list[str] | None:
    """The names of columns, each once."""
    if columns is None:
        return None
    return list(
        dict.fromkeys(_several(columns, "`columns` is a name like 'text', or several like ['text', 'split']", str))
    )


def _several(given: Any, what: str, kind: type) -> list[Any]:
    """What was given, alone or with others; a mistake is told with what should have been given."""
    alone = isinstance(given, str | bytes | Real) or not hasattr(given, "__iter__")
    try:
        found = [given] if alone else list(given)
    except TypeError:  # An array of no dimension says that it can be gone through.
        found = [given]
    if not found:
        raise OutfoxError(f"{what.split()[0]} is empty; leave it out to have all")
    for one in found:
        if not isinstance(one, kind):
            raise OutfoxError(f"{what}, and {_shown(one)} is none")
    return found


def _manifest(file: Path, cure: str, address: str = "") -> dict[str, Any]:
    """What is in an archive; that everything is there which is read later, whoever wrote it."""
    name = address or str(file)
    try:
        manifest: dict[str, Any] = json.loads(file.read_bytes())
        known = manifest["format"] == FORMAT
    except OSError as error:
        raise OutfoxError(f"{name} cannot be read{_why(error)}; {cure}") from error
    except (ValueError, RecursionError) as error:
        raise OutfoxError(f"{name} is not JSON; {cure}") from error
    except (TypeError, KeyError) as error:
        raise OutfoxError(f"{name} is not the manifest of an archive; {cure}") from error
    if not known:
        raise OutfoxError(f"{name} is of another format than this outfox reads; install the one that wrote it")
    try:
        number, texts = manifest["round"], [manifest["task"], manifest["kind"]]
        about = _about(manifest)
        texts += [name for key in ("labels", "inputs", "contexts", "reasons") for name in about[key]]
        entries = [manifest["files"][f"{table}.parquet"] for table in TABLES]
        texts += [entry["sha256"] for entry in entries]
        numbers = [number, *(entry["size"] for entry in entries)]
        fits = all(isinstance(one, str) for one in texts) and all(type(one) is int for one in numbers)
    except KeyError as error:
        raise OutfoxError(f"{name} {_lack(error, 'part')}; {cure}") from error
    except (TypeError, AttributeError) as error:
        raise OutfoxError(f"{name} has parts of another kind than every archive has; {cure}") from error
    if not fits:
        raise OutfoxError(f"{name} has values that no archive has; {cure}")
    return manifest


def _table(table: str, asked: _Asked) -> pd.DataFrame:
    frames, schemas = [], []
    for archive in asked.archives:
        with _opened(archive, table, asked) as (source, file, names):
            # Not by `file`, which reads a column on one core; and no folder's name means a column.
            frames.append(_frame(parquet.read_table(source, columns=names, partitioning=None), names))
            schemas.append(file.schema_arrow)
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    frame.attrs[ATTRS] = asked.archives[-1].about | _schema_told(schemas)
    return frame


def _chunks(asked: _Asked, chunk: int) -> Iterator[pd.DataFrame]:
    for archive in asked.archives:
        with _opened(archive, "examples", asked) as (_, file, names):
            # Arrow has a largest number of rows; there are no more than those of the file.
            most = max(1, min(chunk, file.metadata.num_rows))
            for batch in file.iter_batches(batch_size=most, columns=names):
                frame = _frame(pa.Table.from_batches([batch]), names)
                frame.attrs[ATTRS] = archive.about | _schema_told([file.schema_arrow])
                yield frame


@contextmanager
def _opened(archive: _Archive, table: str, asked: _Asked) -> Iterator[tuple[Path, parquet.ParquetFile, list[str]]]:
    """A table's file, where it is and opened, and the names of the columns that are to be read."""
    source = archive.file(table, verify=asked.verify)
    try:
        with parquet.ParquetFile(source, pre_buffer=True) as file:
            known = file.schema_arrow.names
            for name in asked.columns or ():
                if name not in known:
                    task, there = archive.about["task"], ", ".join(known)
                    raise OutfoxError(f"{task} has no column {_shown(name)}; there are {there}")
            yield source, file, known if asked.columns is None else asked.columns
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        cure = archive.cure(verify=asked.verify)
        raise OutfoxError(f"{source} was spoiled and cannot be read; {cure}") from error


@contextmanager
def _understood(asked: _Asked, table: str) -> Iterator[None]:
    """Tells values in one line that fit no archive's table: an archive may be anybody's."""
    try:
        yield
    except NOT_UNDERSTOOD as error:
        archive = asked.archives[-1]
        raise OutfoxError(
            f"{table}.parquet has values that no archive has; {archive.cure(verify=asked.verify)}"
        ) from error


def _frame(table: pa.Table, names: list[str]) -> pd.DataFrame:
    # pandas takes texts without a look at them: what is no UTF-8 would be an error wherever it is first looked at.
    pieces = [piece for column in table.columns for piece in _text_pieces(column)]
    with ThreadPoolExecutor(pa.cpu_count()) as threads:
        checked = (threads.map if table.num_rows > PIECE_ROWS else map)(_check_texts, pieces)
        # What a file says about an index would change its columns.
        frame = table.select(names).replace_schema_metadata().to_pandas(types_mapper=TYPES.get)
        for _ in checked:
            pass
    return frame


def _text_pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """A column's texts, some at a time; those in lists are decoded by pandas itself."""
    is_coded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if is_coded else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        for chunk in column.chunks:
            texts = chunk.dictionary if is_coded else chunk
            yield from (texts.slice(start, PIECE_ROWS) for start in range(0, len(texts), PIECE_ROWS))


def _check_texts(texts: pa.Array) -> None:
    """ArrowInvalid where one is no UTF-8; Arrow looks at each by itself, which takes much longer than to find ASCII."""
    _, offsets, content = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    first, last = np.frombuffer(offsets, width)[[texts.offset, texts.offset + len(texts)]]
    signs = np.frombuffer(b"" if content is None else content, np.int8)[first:last]
    # What is not ASCII mostly shows that at once.
    if signs[:PAGE].min(initial=0) < 0 or signs.min(initial=0) < 0:
        texts.validate(full=True)


def _schema_told(schemas: Sequence[pa.Schema]) -> dict[str, str]:
    """The archives' schema, as a text: pandas writes what a frame knows about itself as JSON."""
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # A name meant something else in an earlier round.
        schema = schemas[-1]
    return {"schema": base64.b64encode(schema.remove_metadata().serialize()).decode()}


def _measured(found: pd.DataFrame) -> dict[str, Any]:
    """How often the models were fooled in one round; what `metrics` tells of it."""
    collected = found[~found["status"].isin(NOT_COLLECTED)]
    fooled = collected[collected["fooled"]]
    verified = fooled[fooled["status"] == "verified"]
    row: dict[str, Any] = {"collected": len(collected), "fooled": len(fooled), "verified_fooling": len(verified)}
    for name, count in (("mer", len(fooled)), ("vmer", len(verified))):
        row[name], row[f"{name}_low"], row[f"{name}_high"] = _wilson(count, len(collected))
    row["example_tries_per_fool"] = _per(collected["tries"].sum(), len(fooled))
    # Where the time of one is not known, that of all is not.
    seconds = collected["active_ms"].sum(skipna=False) / 1_000
    row["author_seconds_per_verified"] = float("nan") if pd.isna(seconds) else _per(seconds, len(verified))
    row["authors"] = collected["author"].nunique()
    return row | {part: int((found["split"] == part).sum()) for part in ("train", "held_out")}


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


def _exportable(data: pd.DataFrame, about: dict[str, Any]) -> pd.DataFrame:
    """The rows that have a split."""
    chosen = data[data["split"].notna()]
    if chosen.empty:
        raise OutfoxError(f"no example of {about['task']} here has a split; verified ones of other rounds may")
    for part in chosen["split"].unique():
        # It becomes a file's name, and an archive may be anybody's.
        if not re.fullmatch(SPLIT, str(part)):
            raise OutfoxError(f"{_shown(part)} is no split; use letters, digits, - and _")
    return chosen


@contextmanager
def _draft_of(folder: Path) -> Iterator[Path]:
    """Where to write what is all in the folder at the end of the block; where that fails, everything is as it was."""
    there = folder.is_dir()
    if folder.exists() and not there:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    missing = [one for one in (folder.parent, *folder.parent.parents) if not one.exists()]
    # In the folder, if there is one: it may be a disk of its own, or all that one may write.
    draft = (folder if there else folder.parent) / f".{uuid.uuid4().hex}"
    try:
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
        draft.mkdir()
        yield draft
        if there:
            _replace(draft, folder)
            draft.rmdir()
        else:
            draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        for one in missing:
            with suppress(OSError):  # Others may have put something there.
                one.rmdir()
        raise


def _replace(draft: Path, folder: Path) -> None:
    """Moves the draft's files into the folder; where one cannot go there, those that were there are back."""
    files, placed = sorted(draft.iterdir()), []
    # Beside the draft, which is removed whatever happens: what was there before must not be.
    before = draft.with_name(f"{draft.name}-before")
    before.mkdir()
    try:
        for file in files:
            place = folder / file.name
            if place.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with suppress(FileNotFoundError):
                place.rename(before / file.name)
        for file in files:
            file.rename(folder / file.name)
            placed.append(folder / file.name)
    except BaseException:
        for place in placed:
            place.unlink()
        for old in before.iterdir():
            old.rename(folder / old.name)
        before.rmdir()
        raise
    shutil.rmtree(before, ignore_errors=True)


def _in_anli_form(frame: pd.DataFrame, about: dict[str, Any], folder: Path) -> list[Path]:
    if len(about["inputs"]) != 2 or about["kind"] == "qa":
        raise OutfoxError(f"ANLI's form is for tasks with a premise and a hypothesis, {about['task']} has not both")
    premise, hypothesis = (_field(frame, name) for name in about["inputs"])
    reason = _field(frame, about["reasons"][0]).fillna("") if about["reasons"] else pd.Series("", frame.index)
    label, said = (_letters(frame[name]) if _is_nli(about) else frame[name] for name in ("gold_label", "prediction"))
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
    return set(about["labels"]) == set(NLI_LETTERS)


def _letters(labels: pd.Series) -> pd.Series:
    """ANLI's three labels as it writes them."""
    other = labels[~labels.isin(NLI_LETTERS) & labels.notna()]
    if len(other):
        known = ", ".join(NLI_LETTERS)
        raise OutfoxError(f"{_shown(other.iloc[0])} in {labels.name} is no label of ANLI's form, which has {known}")
    return labels.map(NLI_LETTERS)


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
    renamed = name in OWN and f"field_{name}" in frame
    return frame[f"field_{name}" if renamed else name]


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
