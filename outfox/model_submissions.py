"""Submitting a model, or its predictions, to the server of a task."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import quote

import requests

from outfox.arguments import checked_folder, checked_task, checked_token, checked_url, one_line
from outfox.errors import AccessDenied, InvalidArgument, ModelRefused, ServerError, ServerUnavailable

# Seconds to connect, and for the server to unpack and check a large model.
TIMEOUTS = (10.0, 600.0)
FORMS = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet", ".zip": "application/zip"}
UNAUTHORIZED, SERVER_FAILED = 401, 500


def submit_files(
    task: Any,
    model: Any,
    *,
    url: Any,
    token: Any,
    name: str | None,
    labels: Mapping[str, str] | None,
    on: str | Sequence[str] | None,
    anonymous: bool,
) -> dict[str, Any]:
    """Send a folder as a zip, or a file as it is; return what the server says about the submission."""
    path = checked_folder("model", model, "my-model")
    asked = {
        "name": name or path.stem,
        "visibility": "anonymous" if anonymous else "named",
        "labels": ",".join(f"{theirs}={ours}" for theirs, ours in (labels or {}).items()),
        "on": on if isinstance(on, str) else ",".join(on or ()),
    }
    with _opened(path) as (file, kind):
        return _ask("POST", task, "", url, token, params=asked, data=file, headers={"Content-Type": kind})


def list_submissions(task: Any, *, url: Any, token: Any) -> list[dict[str, Any]]:
    """Return the submissions of a token, newest first."""
    found = _ask("GET", task, "", url, token).get("submissions")
    return [dict(one) for one in found] if isinstance(found, list) else []


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    if path.is_dir():
        with TemporaryFile() as file:
            # Weights do not become smaller.
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
                for one in sorted(path.rglob("*")):
                    if one.is_file() and not any(part.startswith(".") for part in one.relative_to(path).parts):
                        packed.write(one, one.relative_to(path).as_posix())
            file.seek(0)
            yield file, FORMS[".zip"]
        return
    kind = FORMS.get(path.suffix.lower())
    if kind is None or not path.is_file():
        known = ", ".join(FORMS)
        raise InvalidArgument(f"`model` must be a model's folder or a file ({known}); there is none at {path}")
    with path.open("rb") as file:
        yield file, kind


def _ask(method: str, task: Any, path: str, url: Any, token: Any, **more: Any) -> dict[str, Any]:
    address = f"{checked_url(url)}/data/{quote(checked_task(task), safe='')}/submissions{path}"
    headers = {"Authorization": f"Bearer {checked_token(token)}", "Accept": "application/json"}
    headers |= more.pop("headers", {})
    try:
        with requests.request(method, address, headers=headers, timeout=TIMEOUTS, **more) as answer:
            return _content(address, answer)
    except requests.RequestException as error:
        raise ServerUnavailable(f"{address} does not answer; check `url` and try again") from error


def _content(address: str, answer: requests.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ServerError(f"{address} is not an answer of an Outfox server; check `url`")
    if answer.ok:
        return found
    why = one_line(str(found.get("error", "no reason was given")))
    if answer.status_code == UNAUTHORIZED:
        raise AccessDenied(f"{address} answers: {why}")
    if answer.status_code >= SERVER_FAILED:
        raise ServerError(f"{address} answers {answer.status_code}: {why}", retry=found.get("retry") is True)
    raise ModelRefused(why, reason=str(found.get("code", "")))
