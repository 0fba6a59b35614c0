"""A worker's page without a marketplace around it, in front of a model whose answers are plain to see.

The model says the label that a text names, else the first one; for a question, a word that it shares with the passage.
"""

from collections.abc import Callable
from urllib.parse import parse_qsl

from playwright.sync_api import Locator, Page, Request, expect

from round_manager.models import Hit, HitKind
from tests.e2e.browser import SCREENSHOTS, Complaints
from tests.integration.plugin.web.work.work_site import WorkSite

FORM = "/mturk/externalSubmit"
OpenSite = Callable[..., WorkSite]
OpenTab = Callable[[], "BarePage"]


class BarePage:
    """A page in a tab, the forms that it submitted to the marketplace, and its script errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.forms: list[dict[str, str]] = []
        self.calls: list[str] = []
        self._complaints = Complaints()
        self._complaints.listen_to(page)
        page.on("request", self._noted)

    @property
    def complaints(self) -> list[str]:
        """Return the errors in scripts and responses."""
        return self._complaints.heard

    def open(
        self, site: WorkSite, hit: Hit, worker: str = "W1", *, wait: bool = True, language: str = "", **told: str
    ) -> "BarePage":
        """Open the HIT's link as the marketplace's frame does, and wait until it is loaded."""
        chosen = f"&lang={language}" if language else ""
        submit_to = f"{site.settings.crowd_site_url}/s/a-pass"
        known = {"assignmentId": f"AS-{hit.key}-{worker}", "workerId": worker, "turkSubmitTo": submit_to}
        self.page.goto(site.address(hit, **known | told) + chosen, wait_until="load" if wait else "commit")
        return self

    def ready(self) -> "BarePage":
        """Wait until the page is ready for work, and close the instructions."""
        self.in_state("ready")
        if self.there("instructions").get_attribute("open") is not None:
            self.there("instructions-close").click()
        return self

    def in_state(self, state: str) -> None:
        expect(self.page.locator("body")).to_have_attribute("data-state", state)

    def there(self, name: str) -> Locator:
        """Return the element with that id."""
        return self.page.locator(f"#{name}")

    def box(self, field: str) -> Locator:
        """Return the text box of a field."""
        return self.page.locator(f"#editor textarea[name='{field}'], #editor textarea[name^='{field}:']").first

    def ask(self, field: str, text: str) -> None:
        self.box(field).fill(text)
        self.there("ask").click()

    def sees(self, outcome: str, sentence: str = "") -> None:
        """Expect that the panel shows this outcome and these words."""
        expect(self.there("verdict")).to_have_attribute("data-outcome", outcome)
        expect(self.there("verdict-message")).to_contain_text(sentence)

    def has_saved(self) -> None:
        expect(self.there("saved")).to_have_attribute("data-draft", "saved")

    def keep(self, name: str) -> None:
        """Save a screenshot of the window."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"work-{name}.png")

    def is_handed_in(self) -> None:
        """Wait until the marketplace has received the form."""
        self.page.wait_for_url(f"**{FORM}")

    def _noted(self, request: Request) -> None:
        if request.url.endswith(FORM):
            self.forms.append(dict(parse_qsl(request.post_data or "")))
        elif "/work/" in request.url:
            self.calls.append(f"{request.method} {request.url.partition('/work')[2]}")


def to_check(site: WorkSite, texts: int) -> Hit:
    """A HIT to validate a number of examples by other workers."""
    for number in range(texts):
        site.campaign.add_example(f"AUTHOR{number}")
    return site.campaign.add_hit(HitKind.VALIDATE)
