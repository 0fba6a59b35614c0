"""Delivery of the ML backend's attempts to the database: directly, or by a signed POST to the web app."""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import requests

from common.errors import Hint
from ml_backend.errors import BackendError, Undeliverable
from ml_backend.serving.attempt_record import AttemptRecord
from plugin.errors import PluginError
from round_manager.errors import RoundManagerError
from round_manager.services.attempts import AttemptIntake

PATH = "/api/attempts"
TIME = "X-Outfox-Time"
SIGNATURE = "X-Outfox-Signature"
SIGNATURE_SECONDS = 300
MAX_BYTES = 8_000_000
CONNECT_TIMEOUT = 5
# SQLite waits 30 seconds for its lock before the web app reports that it is busy.
READ_TIMEOUT = 60
# The web app has checked the attempts and would give the same answer again. Other statuses can be fixed by an operator:
# a wrong secret, a wrong clock, another address.
REFUSED = (400, 413, 422)
UNAUTHORIZED = 401
_PURPOSE = b"outfox.post.1"

Deliver = Callable[[Sequence[AttemptRecord]], None]
Seconds = Callable[[], float]


class DeliveryFailed(BackendError):
    """Attempts could not be delivered now; they can be later."""

    retry = True


class InvalidSignature(PluginError):
    """A request is not signed with the shared secret, or was signed too long ago."""


def deliver_to(intake: AttemptIntake) -> Deliver:
    """Return a function that delivers attempts to a database within reach."""

    def deliver(attempts: Sequence[AttemptRecord]) -> None:
        try:
            result = intake.take(attempts)
        except RoundManagerError as error:
            raise DeliveryFailed(str(error), hint=error.hint) from error
        if result.refused:
            # The forwarder then delivers one by one; attempts that are already stored are not stored twice.
            raise Undeliverable(next(iter(result.refused.values())))

    return deliver


class AttemptSender:
    """Posts batches of attempts to the web app, signed.

    Raises Undeliverable for attempts that are refused for good, and DeliveryFailed otherwise.
    """

    def __init__(self, url: str, secrets: Sequence[str], *, seconds: Seconds = time.time) -> None:
        self._url = url.rstrip("/") + PATH
        self._secrets = tuple(secrets)
        self._seconds = seconds
        self._ahead = 0.0
        self._session: requests.Session | None = None

    def __call__(self, attempts: Sequence[AttemptRecord]) -> None:
        body = json.dumps({"tries": [one.to_json() for one in attempts]}).encode("ascii")
        if len(body) > MAX_BYTES:
            raise Undeliverable(f"the web app accepts {MAX_BYTES:,} bytes at a time, and this is {len(body):,}")
        answer = self._post(body)
        if answer.status_code == UNAUTHORIZED and self._follow_clock(answer):
            answer = self._post(body)
        if answer.status_code in REFUSED:
            raise Undeliverable(f"{self._url} refused the attempts (HTTP {answer.status_code}): {_reason(answer)}")
        if answer.status_code != requests.codes.ok:
            raise DeliveryFailed(f"{self._url} answered HTTP {answer.status_code}: {_reason(answer)}")
        refused = _refused(answer)
        if refused is None:
            text = f"{self._url} does not answer like the web app; check the setting web_url"
            raise DeliveryFailed(text, hint=Hint("list_settings"))
        if refused:
            # The forwarder then delivers one by one; attempts that are already stored are not stored twice.
            raise Undeliverable(str(refused[0].get("why", ""))[:500])

    def _post(self, body: bytes) -> requests.Response:
        # Created by the process that posts: a connection must not be shared over a fork.
        self._session = self._session or requests.Session()
        headers = {"Content-Type": "application/json", **sign(self._secrets, body, self._seconds() + self._ahead)}
        limits = (CONNECT_TIMEOUT, READ_TIMEOUT)
        try:
            return self._session.post(self._url, data=body, headers=headers, timeout=limits, allow_redirects=False)
        except requests.RequestException as error:
            text = f"{self._url} does not answer ({type(error).__name__})"
            raise DeliveryFailed(text, hint=Hint("start_web_app")) from error

    def _follow_clock(self, answer: requests.Response) -> bool:
        """Adopt the web app's clock if it differs from what was assumed; return whether it does."""
        try:
            theirs = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
        except (TypeError, ValueError):
            return False
        ahead = theirs - self._seconds()
        differs = abs(ahead - self._ahead) > READ_TIMEOUT
        self._ahead = ahead if differs else self._ahead
        return differs


def sign(secrets: Sequence[str], body: bytes, now: float) -> dict[str, str]:
    """Return the headers of a signed request; the last secret signs."""
    moment = str(int(now))
    return {TIME: moment, SIGNATURE: _signature(secrets[-1], moment, body)}


def check_signature(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> None:
    """Raise InvalidSignature unless one of the secrets signed the request recently."""
    moment, given = headers.get(TIME, ""), headers.get(SIGNATURE, "")
    if not moment or not given:
        raise InvalidSignature(f"the request is not signed; send {TIME} and {SIGNATURE}")
    wanted = [_signature(secret, moment, body).encode() for secret in secrets]
    if not any(hmac.compare_digest(one, given.encode("utf-8", "replace")) for one in wanted):
        raise InvalidSignature("the signature is wrong; give both processes the same OUTFOX_SECRET")
    # The time is parsed only after the signature is verified, so it is a number that we wrote.
    if abs(now - int(moment)) > SIGNATURE_SECONDS:
        text = f"the signature's time differs by more than {SIGNATURE_SECONDS} seconds; set both machines' clocks"
        raise InvalidSignature(text)


def _signature(secret: str, moment: str, body: bytes) -> str:
    key = hmac.digest(secret.encode(), _PURPOSE, hashlib.sha256)
    return hmac.new(key, moment.encode("utf-8", "replace") + b"." + body, hashlib.sha256).hexdigest()


def _reason(answer: requests.Response) -> str:
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
