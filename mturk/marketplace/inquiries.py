"""Asks requesters' web apps what their HITs hold: signed, with a short time limit, and never needed.

A worker waits for the answer, so an app that does not answer in time is left alone for a while, and its HITs are
offered as those of any other requester. Addresses come from the operator of the marketplace, never from requesters.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import requests

from crowd.errors import CrowdError
from crowd.inquiries import PATH, SIGNATURE, Inquiry, InquiryAnswer, InquiryUnreadable, sign_inquiry

# To connect, and to read the answer.
TIMEOUT = (0.5, 1.5)
KEPT_SECONDS, MOST_KEPT = 5.0, 5_000
LEFT_ALONE_SECONDS = 15.0
MOST_BYTES = 1_000_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WebApp:
    """A requester's web app, and the secrets of their access keys, the newest first."""

    requester_id: str
    url: str
    secrets: tuple[str, ...] = field(repr=False)


class Inquirer:
    """Asks web apps and remembers their answers for some seconds; safe to use from several threads."""

    def __init__(self, time_now: Callable[[], float] = time.monotonic) -> None:
        self._time = time_now
        self._answers: OrderedDict[tuple[str, Inquiry], tuple[float, InquiryAnswer]] = OrderedDict()
        self._left_alone: dict[str, float] = {}
        self._lock = threading.Lock()

    def ask(self, app: WebApp, inquiry: Inquiry, now: datetime, *, fresh: bool = False) -> InquiryAnswer | None:
        """Return the answer, or None if there is none; a fresh one is not an earlier answer to the same inquiry."""
        with self._lock:
            known = None if fresh else self._answers.get((app.url, inquiry))
            if known is not None and self._time() - known[0] < KEPT_SECONDS:
                return known[1]
            if self._time() < self._left_alone.get(app.url, 0.0):
                return None
        try:
            answer = _post(app, inquiry, now)
        except (requests.RequestException, CrowdError) as error:
            # Without the message, which may name addresses that belong in no log.
            _log.warning("a requester's web app did not answer", extra={"data": {"error": type(error).__name__}})
            with self._lock:
                self._left_alone[app.url] = self._time() + LEFT_ALONE_SECONDS
            return None
        with self._lock:
            self._answers[app.url, inquiry] = (self._time(), answer)
            self._answers.move_to_end((app.url, inquiry))
            while len(self._answers) > MOST_KEPT:
                self._answers.popitem(last=False)
        return answer


def _post(app: WebApp, inquiry: Inquiry, now: datetime) -> InquiryAnswer:
    body = inquiry.to_json()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        SIGNATURE: sign_inquiry(body, app.secrets, now=now),
    }
    with requests.Session() as session:
        # Neither a proxy nor a password of this machine is meant for it.
        session.trust_env = False
        url = f"{app.url.rstrip('/')}{PATH}"
        with session.post(url, body, headers=headers, timeout=TIMEOUT, stream=True, allow_redirects=False) as answer:
            if answer.status_code != requests.codes.ok:
                raise InquiryUnreadable(f"the web app answers with HTTP {answer.status_code}")
            return InquiryAnswer.from_json(answer.raw.read(MOST_BYTES, decode_content=True))
