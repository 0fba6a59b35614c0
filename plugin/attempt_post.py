"""Tries by post: from a backend that does not reach the database to the web app that does."""

import json
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from ml_backend.errors import BackendError
from ml_backend.serving.attempt_record import AttemptRecord
from ml_backend.serving.errors import Undeliverable
from plugin.post_signature import signed

PATH = "/api/attempts"
MOST_BYTES = 8_000_000
SECONDS_TO_CONNECT = 5
# SQLite waits 30 seconds for its lock before the web app says that it is busy.
SECONDS_TO_ANSWER = 60
# The web app has looked at the tries and will say the same again. All else can be mended by whoever runs it: a wrong
# secret, a clock that is wrong, another address.
REFUSED = (400, 413, 422)
UNAUTHORIZED = 401
Seconds = Callable[[], float]


class NotTaken(BackendError):
    """Tries that nobody takes now; later somebody may."""

    code = "not_taken"
    retry = True


class AttemptPost:
    """Posts batches of tries, signed; raises Undeliverable for what is refused for good, NotTaken for the rest."""

    def __init__(self, url: str, secrets: Sequence[str], *, seconds: Seconds = time.time) -> None:
        self._url = url.rstrip("/") + PATH
        self._secrets = tuple(secrets)
        self._seconds = seconds
        self._ahead = 0.0
        self._session: requests.Session | None = None

    def __call__(self, tries: Sequence[AttemptRecord]) -> None:
        body = json.dumps({"tries": [one.to_json() for one in tries]}).encode("ascii")
        if len(body) > MOST_BYTES:
            raise Undeliverable(f"the web app takes {MOST_BYTES:,} bytes at a time, and this is {len(body):,}")
        answer = self._post(body)
        if answer.status_code == UNAUTHORIZED and self._follow_clock(answer):
            answer = self._post(body)
        if answer.status_code in REFUSED:
            raise Undeliverable(f"{self._url} refused the tries (HTTP {answer.status_code}): {_said(answer)}")
        if answer.status_code != requests.codes.ok:
            raise NotTaken(f"{self._url} takes no tries now (HTTP {answer.status_code}): {_said(answer)}")
        refused = _refused(answer)
        if refused is None:
            raise NotTaken(f"{self._url} does not answer like `outfox serve`; check the setting web_url")
        if refused:
            # The sink then delivers one by one; those that are stored already are stored once all the same.
            raise Undeliverable(str(refused[0].get("why", ""))[:500])

    def _post(self, body: bytes) -> requests.Response:
        # Made by the process that posts: a connection must not be shared over a fork.
        self._session = self._session or requests.Session()
        headers = {"Content-Type": "application/json", **signed(self._secrets, body, self._seconds() + self._ahead)}
        limits = (SECONDS_TO_CONNECT, SECONDS_TO_ANSWER)
        try:
            return self._session.post(self._url, data=body, headers=headers, timeout=limits, allow_redirects=False)
        except requests.RequestException as error:
            raise NotTaken(
                f"{self._url} does not answer ({type(error).__name__}); is `outfox serve` running?"
            ) from error

    def _follow_clock(self, answer: requests.Response) -> bool:
        """Whether the web app's clock is another one than was thought; from now on it is followed."""
        try:
            theirs = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
        except (TypeError, ValueError):
            return False
        ahead = theirs - self._seconds()
        moved = abs(ahead - self._ahead) > SECONDS_TO_ANSWER
        self._ahead = ahead if moved else self._ahead
        return moved


def _said(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"])[:500]
    except (ValueError, KeyError, TypeError):
        return answer.reason or "no reason was given"


def _refused(answer: requests.Response) -> list[dict[str, Any]] | None:
    try:
        refused = answer.json()["refused"]
    except (ValueError, KeyError, TypeError):
        return None
    return refused if isinstance(refused, list) and all(isinstance(one, dict) for one in refused) else None
