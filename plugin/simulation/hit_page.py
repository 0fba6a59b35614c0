"""A HIT's page in its frame, used by the very calls that the page's script makes."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from plugin.simulation.errors import SiteTrouble
from plugin.simulation.html_page import HtmlPage
from plugin.simulation.line import Line

Json = dict[str, Any]
Result = Sequence[Mapping[str, Any]]


class HitPage:
    """One page, opened from the frame's address."""

    def __init__(self, line: Line, frame: str) -> None:
        self._line = line
        setup = HtmlPage(line.get(frame).text).setup
        if setup["error"]:
            raise SiteTrouble(str(setup["error"]["text"]))
        self.kind = str(setup["kind"])
        self._token = str(setup["token"])
        self._api = urljoin(frame, setup["api"])
        self._marks: dict[int, str] = {}
        self.seconds = 0.0
        self._before_ms = 0

    def state(self) -> Json:
        """Everything on the page."""
        state = self._line.call("GET", f"{self._api}/state", self._token)
        self._marks = {one["item"]: one["mark"] for one in state["items"] if "mark" in one}
        if not self.seconds:
            # An earlier visit may have begun it.
            self._before_ms = state["active_ms"]
        return state

    def spend(self, seconds: float) -> None:
        """So long they work on it; the server believes no more than has passed."""
        self.seconds += seconds

    def ask(self, item: int, result: Result) -> Json:
        """What the model says to what is written."""
        return self._post(f"/items/{item}/tries", {"result": result, "mark": self._marks[item]})

    def hand_in(self, item: int, result: Result) -> None:
        """The item, written."""
        self._post(f"/items/{item}/hand-in", {"result": result, "mark": self._marks[item], **self._time()})

    def judge(self, item: int, result: Result) -> None:
        """The item, judged."""
        self._post(f"/items/{item}/judgement", {"result": result, **self._time()})

    def answer_quiz(self, answers: Sequence[int]) -> Json:
        """What became of the answers."""
        return self._post("/quiz", {"answers": list(answers)})

    def tell_time(self) -> None:
        """How long the page was worked on, in all."""
        self._post("/beat", self._time())

    def finish(self) -> None:
        """Hands the HIT in, here and then on the marketplace."""
        form = self._post("/finish", {})["submit"]
        answer = self._line.send(form["url"], form["fields"])
        if not answer.ok:
            raise SiteTrouble(f"the marketplace does not take the work in: status {answer.status_code}", retry=True)

    def _time(self) -> Json:
        return {"active_ms": self._before_ms + round(self.seconds * 1_000)}

    def _post(self, path: str, body: Json) -> Json:
        return self._line.call("POST", f"{self._api}{path}", self._token, body)


def written(name: str, about: str, text: str) -> Result:
    """A text as the editor serialises it."""
    return [{"from_name": name, "to_name": about, "type": "textarea", "value": {"text": [text]}}]


def chosen(name: str, about: str, label: str) -> Result:
    """A choice as the editor serialises it."""
    return [{"from_name": name, "to_name": about, "type": "choices", "value": {"choices": [label]}}]
