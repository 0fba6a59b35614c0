"""A simulated worker on the marketplace's site: signs in by a link, takes work, gives it back."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import requests

from plugin.simulation.errors import SiteTrouble
from plugin.simulation.html_page import Form, HtmlPage
from plugin.simulation.line import Line

ACCEPT = "/accept"
WORK = "/work/"
RETURN = "/return"
MOVED_ON = 400


@dataclass(frozen=True)
class Offer:
    """Work that could be taken: a group of HITs."""

    title: str
    form: Form


@dataclass(frozen=True)
class Taken:
    """Work that was taken: where its page is, and the frame in it."""

    assignment: str
    url: str
    frame: str


class MarketVisit:
    """One worker's visit; everything goes through pages and forms, as in a browser."""

    def __init__(self, line: Line, url: str) -> None:
        self._line = line
        self._url = url

    def sign_in(self, link: str) -> None:
        """Presses the button behind an invitation."""
        page = HtmlPage(_text(self._line.get(link)))
        if not page.forms:
            raise SiteTrouble("the invitation does not work any more")
        _text(self._line.send(link, page.forms[0].fields))

    def offers(self) -> Sequence[Offer]:
        """What this worker may take now."""
        page = HtmlPage(_text(self._line.get(f"{self._url}/")))
        found = [form for form in page.forms if form.action.endswith(ACCEPT)]
        return [Offer(form.button.removeprefix("Accept "), form) for form in found]

    def unfinished(self) -> Taken | None:
        """Work that this worker took before and has not handed in, by their queue."""
        page = HtmlPage(_text(self._line.get(f"{self._url}/queue")))
        for link in page.links:
            if link.startswith(WORK) and not link.endswith(RETURN):
                answer = self._line.get(urljoin(self._url, link))
                if answer.ok:
                    return self._taken(answer)
        return None

    def take(self, offer: Offer) -> Taken | None:
        """Accepts one HIT of the group; None where somebody else was quicker."""
        answer = self._line.send(urljoin(self._url, offer.form.action), offer.form.fields)
        if answer.status_code >= MOVED_ON or WORK not in urlsplit(answer.url).path:
            return None
        return self._taken(answer)

    def give_back(self, taken: Taken) -> None:
        """Returns the work, so that somebody else can take it."""
        url = f"{taken.url}{RETURN}"
        page = HtmlPage(_text(self._line.get(url)))
        _text(self._line.send(url, page.forms[-1].fields))

    def _taken(self, answer: requests.Response) -> Taken:
        page = HtmlPage(answer.text)
        if not page.frames:
            raise SiteTrouble("the work has no frame", retry=True)
        url = answer.url.split("?")[0]
        return Taken(urlsplit(url).path.rpartition("/")[2], url, page.frames[0])


def _text(answer: requests.Response) -> str:
    if not answer.ok:
        raise SiteTrouble(f"the marketplace answers with status {answer.status_code}", retry=True)
    return answer.text
