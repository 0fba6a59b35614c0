"""The browser of a simulated worker: requests with retries, and HTML read for its forms, links and frames.

PluginError
├── SimulationStopped     the simulation was asked to stop
└── SimulationPageError   a page is missing, refuses, or cannot be read; `retry` says whether it can pass
"""

import json
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import requests

from plugin.errors import PluginError

TIMEOUT_SECONDS = 30.0
# The delays of the page's own script.
DELAYS = (1.0, 2.0, 3.0, 5.0)
MAX_ATTEMPTS = 12
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500
SETUP = "setup"
# The header with the key that the page's script keeps in the browser.
BROWSER = "X-Outfox-Browser"
Attributes = list[tuple[str, str | None]]


class SimulationStopped(PluginError):
    """The simulation was asked to stop."""


class SimulationPageError(PluginError):
    """A page is missing, refuses, or cannot be read."""

    code = "simulation_site_error"

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry


class Browser:
    """The requests of one browser, with its own cookies, and with retries when a server asks for them."""

    def __init__(self, stop: threading.Event, delays: Sequence[float] = DELAYS) -> None:
        self._stop = stop
        self._delays = delays
        self._session = requests.Session()
        self._session.trust_env = False  # A proxy cannot reach this machine's ports.
        self._key = secrets.token_hex(16)
        self._lost_answer = False

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def take_lost_answer(self) -> bool:
        """Return whether an answer was lost since the last call, so that a request may have been handled twice."""
        lost, self._lost_answer = self._lost_answer, False
        return lost

    def get(self, url: str, *, token: str = "") -> requests.Response:
        """Return the answer to a GET, whatever its status."""
        return self._request("GET", url, token=token)

    def send(self, url: str, fields: Mapping[str, str]) -> requests.Response:
        """Submit a form and return the answer."""
        return self._request("POST", url, data=dict(fields))

    def call(self, method: str, url: str, token: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Call the page's API and return the answer; SimulationPageError if the server refuses."""
        answer = self._request(method, url, token=token, json=None if body is None else dict(body))
        try:
            found: dict[str, Any] = answer.json()
        except ValueError as error:
            raise SimulationPageError(
                f"the answer to {method} is not JSON, status {answer.status_code}", retry=True
            ) from error
        if not answer.ok:
            raise SimulationPageError(
                str(found.get("error", f"status {answer.status_code}")), retry=bool(found.get("retry"))
            )
        return found

    def _request(self, method: str, url: str, *, token: str = "", **content: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}", BROWSER: self._key} if token else {}
        for attempt in range(MAX_ATTEMPTS):
            if self._stop.is_set():
                raise SimulationStopped("the simulation was stopped")
            try:
                answer = self._session.request(method, url, headers=headers, timeout=TIMEOUT_SECONDS, **content)
            except requests.RequestException:
                self._lost_answer = True  # A restarted server is back in a few seconds.
            else:
                if answer.status_code != TOO_MANY_REQUESTS and answer.status_code < SERVER_ERROR:
                    return answer
            self._stop.wait(self._delays[min(attempt, len(self._delays) - 1)])
        raise SimulationPageError("a server does not respond", retry=True)


@dataclass
class Form:
    """A form: its address, its hidden fields and the label of its button."""

    action: str
    fields: dict[str, str] = field(default_factory=dict)
    button: str = ""


class HtmlPage(HTMLParser):
    """The forms, frames and links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.frames: list[str] = []
        self.links: list[str] = []
        self._in_form = self._in_setup = False
        self._setup = ""
        self.feed(text)
        self.close()

    @property
    def setup(self) -> dict[str, Any]:
        """The setup data of one of our pages."""
        try:
            found: dict[str, Any] = json.loads(self._setup)
        except ValueError as error:
            raise SimulationPageError("the frame does not show a page of a HIT", retry=True) from error
        return found

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        """Collect forms, frames, links and the setup."""
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._in_form = True
            self.forms.append(Form(given.get("action", "")))
        elif tag == "iframe":
            self.frames.append(given.get("src", ""))
        elif tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "script" and given.get("id") == SETUP:
            self._in_setup = True
        elif self._in_form and tag == "input" and given.get("type") == "hidden":
            self.forms[-1].fields[given.get("name", "")] = given.get("value", "")
        elif self._in_form and tag == "button":
            self.forms[-1].button = given.get("aria-label", "")

    def handle_endtag(self, tag: str) -> None:
        """Notice the end of a form or a script."""
        if tag == "form":
            self._in_form = False
        elif tag == "script":
            self._in_setup = False

    def handle_data(self, data: str) -> None:
        """Collect the text of the setup."""
        if self._in_setup:
            self._setup += data
