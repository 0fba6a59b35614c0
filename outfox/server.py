"""Frozen rounds on an Outfox server, downloaded through the cache.

Downloads resume after a broken connection and stop when the server says that retrying is of no use. urllib3's `Retry`
does neither (it retries until the first byte of an answer, and does not read the answer), so the loop is ours.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn
from urllib.parse import quote

import requests

from outfox.archives import MANIFEST, RoundFiles, read_manifest, sha256_of
from outfox.arguments import checked_token, checked_url, one_line
from outfox.cache import FileCache
from outfox.errors import AccessDenied, DataCorrupt, ServerError, ServerUnavailable, TransferCorrupt
from outfox.evaluation_records import NAME as RECORD
from outfox.evaluation_records import read_record

# Seconds between attempts.
BACKOFF = (0.5, 1.0, 2.0, 4.0)
RETRY_STATUSES = (429, 500, 502, 503, 504)
PARTIAL_CONTENT = 206
UNAUTHORIZED = 401
# Seconds to connect, and between two pieces of an answer.
TIMEOUTS = (10.0, 60.0)
PIECE_BYTES = 1 << 20
SHA256 = re.compile("[0-9a-f]{64}")
REPORT = "report it to the server's operator"


@dataclass(frozen=True)
class RemoteRound(RoundFiles):
    """A frozen round on a server."""

    server: "ArchiveServer"
    base: str
    # The hash and size of the record of evaluations, which changes; nothing if there is none.
    listed_record: Mapping[str, Any]

    def record(self) -> dict[str, Any] | None:
        if not self.listed_record:
            return None
        address = f"{self.base}/{RECORD}"
        path = self.server.download(address, str(self.listed_record.get("sha256")), verify=True)
        return read_record(path.read_bytes(), address, self.manifest["sha256"], REPORT)

    def file(self, table: str, *, verify: bool) -> Path:
        name = f"{table}.parquet"
        entry = self.manifest["files"][name]
        return self.server.download(f"{self.base}/{name}", entry["sha256"], entry["size"], verify=verify)

    def remedy(self, *, verify: bool) -> str:
        return "report it to the task's owner" if verify else "load it with verify=True, which downloads it again"


class ArchiveServer:
    """An Outfox server; downloaded files are kept in the cache."""

    def __init__(self, url: Any, token: Any, cache_bytes: int) -> None:
        self._url, checked = checked_url(url), checked_token(token)
        self._session = requests.Session()
        if checked:
            # Not a header of the session: an entry in .netrc would replace it.
            self._session.auth = _BearerToken(checked)
        self._cache = FileCache(cache_bytes)

    def __str__(self) -> str:
        return self._url

    def archives(self, task: str) -> dict[int, Callable[[], RoundFiles]]:
        """Return the task's frozen rounds by number; each is opened by calling it."""
        base = f"{self._url}/data/{quote(task, safe='')}"
        try:
            rounds = {int(entry["round"]): entry for entry in json.loads(self._get(base, _content))["rounds"]}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ServerError(f"{base} is not an answer of an Outfox server; check `url`") from error
        return {number: partial(self._open, base, task, number, entry) for number, entry in rounds.items()}

    def _open(self, base: str, task: str, number: int, entry: dict[str, Any]) -> RemoteRound:
        base = f"{base}/rounds/{number}"
        if "problem" in entry:
            raise ServerError(f"{base}: {one_line(str(entry['problem']))}")
        # The manifest is small, and contains the hashes of all other files.
        file = self.download(f"{base}/{MANIFEST}", str(entry.get("manifest_sha256")), verify=True)
        manifest = read_manifest(file, REPORT, f"{base}/{MANIFEST}")
        if (manifest["task"], manifest["round"]) != (task, number):
            raise DataCorrupt(f"{base}/{MANIFEST} belongs to another round; {REPORT}")
        listed = entry.get("evaluations")
        return RemoteRound(manifest, self, base, listed if isinstance(listed, dict) else {})

    def content(self, path: str) -> bytes:
        """Return the content at a path of the server, without the cache."""
        found: bytes = self._get(f"{self._url}{path}", _content)
        return found

    def download(self, address: str, sha256: str, size: int | None = None, *, verify: bool) -> Path:
        """Return the file with that hash from the cache; download it first if necessary."""
        if not SHA256.fullmatch(sha256):  # It becomes a file name.
            raise DataCorrupt(f"{address} is listed with an invalid hash; {REPORT}")

        def download(file: BinaryIO) -> None:
            try:
                self._download(address, sha256, file)
            except TransferCorrupt:
                file.seek(0)
                file.truncate()
                self._download(address, sha256, file)

        return self._cache.get(sha256, Path(address).suffix, size, download, verify=verify)

    def _download(self, address: str, sha256: str, file: BinaryIO) -> None:
        def read(answer: requests.Response) -> None:
            if answer.status_code != PARTIAL_CONTENT:
                file.truncate(0)
                file.seek(0)
            for piece in answer.iter_content(PIECE_BYTES):
                file.write(piece)

        def headers() -> dict[str, str]:
            # After a broken connection, ask for the rest, provided that the file is still the same.
            return {"Range": f"bytes={file.tell()}-", "If-Range": f'"{sha256}"'} if file.tell() else {}

        self._get(address, read, headers)
        file.seek(0)
        if sha256_of(file) != sha256:
            raise TransferCorrupt(f"{address} was damaged during the download (its SHA-256 differs); load it again")

    def _get(self, address: str, read: Callable[[requests.Response], Any], headers: Any = dict) -> Any:
        """Request an address with retries, and return what `read` makes of the answer."""
        for delay in (*BACKOFF, None):
            try:
                sent = {"Accept-Encoding": "identity", **headers()}
                with self._session.get(address, headers=sent, stream=True, timeout=TIMEOUTS) as answer:
                    if delay is None or not _may_succeed_later(answer):
                        _check_status(address, answer)
                        return read(answer)
            except requests.exceptions.ContentDecodingError as error:
                raise TransferCorrupt(
                    f"{address} was damaged during the download (it cannot be decoded); load it again"
                ) from error
            except requests.RequestException as error:
                # requests' errors about malformed addresses are ValueErrors.
                if delay is None or isinstance(error, ValueError | requests.TooManyRedirects):
                    self._fail(error)
            time.sleep(delay or 0)
        raise AssertionError("the last attempt returns or raises")

    def _fail(self, error: requests.RequestException) -> NoReturn:
        why = _connection_problem(error)
        raise ServerUnavailable(f"{self._url} does not answer ({why}); check `url` and try again") from error


@dataclass(frozen=True)
class _BearerToken:
    """A token as an authentication of requests, which does not send it to other hosts after a redirect."""

    token: str

    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def _content(answer: requests.Response) -> bytes:
    return answer.content


def _may_succeed_later(answer: requests.Response) -> bool:
    return answer.status_code in RETRY_STATUSES and _error_body(answer).get("retry") is not False


def _check_status(address: str, answer: requests.Response) -> None:
    if answer.ok:
        return
    if answer.status_code == UNAUTHORIZED and "Authorization" not in answer.request.headers:
        raise AccessDenied(f"{address} requires a `token`; ask the task's owner for one")
    why = one_line(str(_error_body(answer).get("error", "is `url` the address of an Outfox server?")))
    message = f"{address} answers {answer.status_code}: {why}"
    if answer.status_code == UNAUTHORIZED:
        raise AccessDenied(message)
    raise ServerError(message, retry=_may_succeed_later(answer))


def _error_body(answer: requests.Response) -> dict[str, Any]:
    """Return the JSON object of an answer, or an empty one if it has none."""
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _connection_problem(error: Exception) -> str:
    match error:
        case requests.exceptions.SSLError():
            return "TLS certificate not trusted"
        case requests.exceptions.ProxyError():
            return "the proxy does not answer"
        case requests.exceptions.Timeout():
            return "timeout"
        case requests.exceptions.TooManyRedirects():
            return "too many redirects"
        case ValueError():
            return "invalid address"
    return "connection refused or lost"
