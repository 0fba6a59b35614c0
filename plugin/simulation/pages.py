"""The pages that a simulated worker uses: the marketplace's site, and a HIT's page in its frame.

Both are used as a browser does: by forms, and by the calls that the page's script makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests

from plugin.simulation.browser import Browser, Form, HtmlPage, SimulationPageError

ACCEPT = "/accept"
WORK = "/work/"
RETURN = "/return"
FIRST_ERROR = 400

Json = dict[str, Any]
Result = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Offer:
    """A group of HITs that the worker can accept."""

    title: str
    form: Form


@dataclass(frozen=True)
class AcceptedHit:
    """A HIT that the worker accepted: the address of its page, and of the frame in it."""

    assignment: str
    url: str
    frame: str


class MarketplaceSite:
    """One worker on the marketplace's site."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url

    def sign_in(self, link: str) -> None:
        """Sign in with an invitation link."""
        page = HtmlPage(_text(self._browser.get(link)))
        if not page.forms:
            raise SimulationPageError("the invitation is no longer valid")
        _text(self._browser.send(link, page.forms[0].fields))

    def offers(self) -> Sequence[Offer]:
        """Return what the worker can accept now."""
        page = HtmlPage(_text(self._browser.get(f"{self._url}/")))
        found = [form for form in page.forms if form.action.endswith(ACCEPT)]
        return [Offer(form.button.removeprefix("Accept "), form) for form in found]

    def unfinished(self) -> AcceptedHit | None:
        """Return a HIT of the worker's queue that is not submitted yet."""
        page = HtmlPage(_text(self._browser.get(f"{self._url}/queue")))
        for link in page.links:
            if link.startswith(WORK) and not link.endswith(RETURN):
                answer = self._browser.get(urljoin(self._url, link))
                if answer.ok:
                    return self._accepted(answer)
        return None

    def accept(self, offer: Offer) -> AcceptedHit | None:
        """Accept one HIT of the group; None if other workers have taken them all."""
        answer = self._browser.send(urljoin(self._url, offer.form.action), offer.form.fields)
        if answer.status_code >= FIRST_ERROR or WORK not in urlsplit(answer.url).path:
            return None
        return self._accepted(answer)

    def return_hit(self, hit: AcceptedHit) -> None:
        """Return the HIT, so that another worker can accept it."""
        url = f"{hit.url}{RETURN}"
        page = HtmlPage(_text(self._browser.get(url)))
        _text(self._browser.send(url, page.forms[-1].fields))

    def _accepted(self, answer: requests.Response) -> AcceptedHit:
        page = HtmlPage(answer.text)
        if not page.frames:
            raise SimulationPageError("the page of the HIT has no frame", retry=True)
        url = answer.url.split("?")[0]
        return AcceptedHit(urlsplit(url).path.rpartition("/")[2], url, page.frames[0])


def _text(answer: requests.Response) -> str:
    if not answer.ok:
        raise SimulationPageError(f"the marketplace answers status {answer.status_code}", retry=True)
    return answer.text


class HitPage:
    """The page of one HIT."""

    def __init__(self, browser: Browser, frame: str) -> None:
        self._browser = browser
        setup = HtmlPage(browser.get(frame).text).setup
        if setup["error"]:
            raise SimulationPageError(str(setup["error"]["text"]))
        self.kind = str(setup["kind"])
        self._token = str(setup["token"])
        self._api = urljoin(frame, setup["api"])
        self._marks: dict[int, str] = {}
        self.seconds = 0.0
        self._before_ms = 0

    def state(self) -> Json:
        """Return everything on the page."""
        state = self._browser.call("GET", f"{self._api}/state", self._token)
        self._marks = {one["item"]: one["mark"] for one in state["items"] if "mark" in one}
        if not self.seconds:
            # An earlier visit may have worked on it already.
            self._before_ms = state["active_ms"]
        return state

    def spend(self, seconds: float) -> None:
        """Count working time; the server accepts no more than has passed."""
        self.seconds += seconds

    def ask(self, item: int, result: Result) -> Json:
        """Ask the model and return its answer."""
        return self._post(f"/items/{item}/tries", {"result": result, "mark": self._marks[item]})

    def submit(self, item: int, result: Result) -> None:
        """Submit the item."""
        self._post(f"/items/{item}/hand-in", {"result": result, "mark": self._marks[item], **self._time()})

    def judge(self, item: int, result: Result) -> None:
        """Submit a judgement of the item."""
        self._post(f"/items/{item}/judgement", {"result": result, **self._time()})

    def answer_quiz(self, answers: Sequence[int]) -> Json:
        """Submit the answers and return the result."""
        return self._post("/quiz", {"answers": list(answers)})

    def report_time(self) -> None:
        """Report the total working time."""
        self._post("/beat", self._time())

    def finish(self) -> None:
        """Submit the HIT, here and then on the marketplace."""
        form = self._post("/finish", {})["submit"]
        answer = self._browser.send(form["url"], form["fields"])
        if not answer.ok:
            raise SimulationPageError(
                f"the marketplace refuses the submission: status {answer.status_code}", retry=True
            )

    def _time(self) -> Json:
        return {"active_ms": self._before_ms + round(self.seconds * 1_000)}

    def _post(self, path: str, body: Json) -> Json:
        return self._browser.call("POST", f"{self._api}{path}", self._token, body)


def text_result(name: str, about: str, text: str) -> Result:
    """Return a text as the editor serialises it."""
    return [{"from_name": name, "to_name": about, "type": "textarea", "value": {"text": [text]}}]


def choice_result(name: str, about: str, label: str) -> Result:
    """Return a choice as the editor serialises it."""
    return [{"from_name": name, "to_name": about, "type": "choices", "value": {"choices": [label]}}]
