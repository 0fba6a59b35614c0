"""A newcomer who tries the demo through HTTP, as browsers do: writes in Label Studio, then works on the marketplace."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests

from plugin.simulation.browser import Browser, HtmlPage
from plugin.simulation.pages import Offer, text_result
from plugin.simulation.sentences import SimulationRecord, write
from plugin.simulation.worker import CHECK, QUIZ, SimulatedProfile, SimulatedWorker, VisitResult
from templates import TaskSpec

PROFILE = SimulatedProfile(
    number=1,
    seed=str(time.time_ns()),
    skill=1.0,
    error_rate=0.0,
    patience=10,
    pace=1.0,
    honest=True,
    likes_checking=False,
    title="Newcomer",
)
SECONDS_BETWEEN_VISITS = 1.0
SECONDS_TO_ANSWER = 60


@dataclass
class OwnerInLabelStudio:
    """The owner, logged in to Label Studio with the e-mail address and the password that the demo prints."""

    url: str
    project: int
    pause: Callable[[float], None]
    attempts: list[float] = field(default_factory=list)
    _session: requests.Session = field(default_factory=requests.Session)

    def log_in(self, email: str, password: str) -> None:
        """Fill in the login form."""
        login = f"{self.url}/user/login/"
        page = HtmlPage(self._session.get(login, timeout=SECONDS_TO_ANSWER).text)
        token = next(form.fields["csrfmiddlewaretoken"] for form in page.forms if "csrfmiddlewaretoken" in form.fields)
        form = {"csrfmiddlewaretoken": token, "email": email, "password": password}
        answer = self._session.post(login, data=form, headers={"Referer": login}, timeout=SECONDS_TO_ANSWER)
        assert answer.ok, answer.status_code
        assert "login" not in answer.url, "the login was refused"

    def write(self, spec: TaskSpec) -> None:
        """Write on the first task until the model is fooled, at most as often as is allowed, and submit."""
        task = self._get(f"tasks/?project={self.project}&page_size=1")["tasks"][0]
        (backend,) = self._get(f"ml/?project={self.project}")
        (shown,), (text,) = spec.with_role("context"), spec.with_role("input")
        rng = Random(PROFILE.seed)
        for _ in range(spec.work.tries):
            draft = write(task["data"][shown.name], task["data"]["target"], rng, skill=1.0)
            result = text_result(text.name, shown.name, draft.text)
            self.pause(60)
            asked = {"task": task["id"], "context": {"result": result}}
            said = self._post(f"ml/{backend['id']}/interactive-annotating", asked)
            self.attempts.append(time.monotonic())
            if "You fooled the model" in str(said):
                break
        self._post(f"tasks/{task['id']}/annotations/?project={self.project}", {"result": result, "lead_time": 60})

    def _get(self, path: str) -> Any:
        answer = self._session.get(f"{self.url}/api/{path}", timeout=SECONDS_TO_ANSWER)
        answer.raise_for_status()
        return answer.json()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        headers = {"X-CSRFToken": self._session.cookies.get("csrftoken", ""), "Referer": self.url}
        answer = self._session.post(f"{self.url}/api/{path}", json=body, headers=headers, timeout=SECONDS_TO_ANSWER)
        answer.raise_for_status()
        return answer.json()


class NewcomerOnMarketplace:
    """A worker with the invitation that the demo prints: takes the quiz, and writes until the model is fooled."""

    def __init__(
        self, invitation: str, spec: TaskSpec, record: SimulationRecord, pause: Callable[[float], None]
    ) -> None:
        self._stop = threading.Event()
        site = "/".join(invitation.split("/")[:3])
        self._worker = SimulatedWorker(PROFILE, spec, Browser(self._stop), site, record, wants=self._wants, pause=pause)
        self._worker.sign_in(invitation)

    def write(self) -> VisitResult:
        """Take the quiz if it is offered, and write one example after the other until one fools the model."""
        while True:
            done = self._worker.work()
            if done.fooled:
                return done
            time.sleep(SECONDS_BETWEEN_VISITS)

    def _wants(self, offer: Offer) -> bool:
        return offer.title.startswith(QUIZ) or not offer.title.startswith(CHECK)
