"""A line to a server: requests of one browser, which waits and tries again where the server asks for it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from plugin.simulation.errors import SiteTrouble, Stopped

SECONDS_TO_ANSWER = 30.0
# As the page's own script waits.
WAITS = (1.0, 2.0, 3.0, 5.0)
PATIENCE = 12
TOO_FAST = 429
SERVERS_FAULT = 500


class Line:
    """One browser's requests; its cookies are its own."""

    def __init__(self, stop: threading.Event, waits: Sequence[float] = WAITS) -> None:
        self._stop = stop
        self._waits = waits
        self._session = requests.Session()
        self._session.trust_env = False  # a proxy knows nothing of this machine's ports
        self._had_trouble = False

    def close(self) -> None:
        """Ends its connections."""
        self._session.close()

    def forget_trouble(self) -> bool:
        """Whether an answer was lost since this was last asked, so that something may have happened twice."""
        had, self._had_trouble = self._had_trouble, False
        return had

    def get(self, url: str, *, token: str = "") -> requests.Response:
        """The answer, whatever it is, once there is one."""
        return self._insist("GET", url, token=token)

    def send(self, url: str, fields: Mapping[str, str]) -> requests.Response:
        """What a form gets for an answer."""
        return self._insist("POST", url, data=dict(fields))

    def call(self, method: str, url: str, token: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a page's script; a SiteTrouble where the server refuses."""
        answer = self._insist(method, url, token=token, json=None if body is None else dict(body))
        try:
            found: dict[str, Any] = answer.json()
        except ValueError as error:
            raise SiteTrouble(f"{method} was answered with no JSON, status {answer.status_code}", retry=True) from error
        if not answer.ok:
            raise SiteTrouble(str(found.get("error", f"status {answer.status_code}")), retry=bool(found.get("retry")))
        return found

    def _insist(self, method: str, url: str, *, token: str = "", **content: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for attempt in range(PATIENCE):
            if self._stop.is_set():
                raise Stopped("the simulation ends")
            try:
                answer = self._session.request(method, url, headers=headers, timeout=SECONDS_TO_ANSWER, **content)
            except requests.RequestException:
                self._had_trouble = True  # A server that is started again is back in a few seconds.
            else:
                if answer.status_code != TOO_FAST and answer.status_code < SERVERS_FAULT:
                    return answer
            self._stop.wait(self._waits[min(attempt, len(self._waits) - 1)])
        raise SiteTrouble("a server does not answer", retry=True)
