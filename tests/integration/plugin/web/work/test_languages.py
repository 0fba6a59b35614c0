"""Workers' pages in their language: the task's, or the one that the worker chose."""

import re

import pytest
import requests

from common.messages import LocalText
from common.translation import LANGUAGES
from round_manager.models import HitKind, Worker
from tests.integration.plugin.web.work.conftest import OpenSite
from tests.integration.plugin.web.work.work_site import PATIENCE, SUBMIT_TO, WorkSite, setup_in
from tests.pseudo import untranslated

pytestmark = pytest.mark.any_database
GERMAN = {"Accept-Language": "de-AT, de;q=0.9, en;q=0.5"}


def language_of(answer: requests.Response) -> str:
    found = re.search(r'<html lang="([^"]*)" dir="ltr"', answer.text)
    assert found, answer.text[:500]
    return found[1]


def opened(site: WorkSite, worker: str, language: str = "", **headers: str) -> requests.Response:
    """Open a new HIT, and choose a language if there is one, as the link on the page does."""
    hit = site.campaign.add_hit()
    told = {"assignmentId": f"AS-{hit.key}", "hitId": "H", "workerId": worker, "turkSubmitTo": SUBMIT_TO}
    chosen = f"&lang={language}" if language else ""
    return requests.get(site.address(hit, **told) + chosen, headers=headers, timeout=PATIENCE)


def test_the_tasks_language_decides_until_the_worker_chooses_another_one(open_site: OpenSite) -> None:
    site = open_site(work={"hits_at_once": 9})
    first = opened(site, "W1", **GERMAN)
    assert language_of(first) == "en", "the task is in English"
    assert all(f'hreflang="{one}"' in first.text for one in LANGUAGES)
    assert language_of(opened(site, "W1", "es")) == "es"
    assert language_of(opened(site, "W1", **GERMAN)) == "es", "the choice is kept"
    assert language_of(opened(site, "W2", "xx")) == "en"
    with site.campaign.store.read() as session:
        workers = {one.external_id: one.language for one in session.query(Worker)}
    assert (workers["W1"], workers["W2"]) == ("es", None)


def test_a_task_in_several_languages_is_shown_in_the_one_that_the_browser_prefers(open_site: OpenSite) -> None:
    title = LocalText.of({"en": "Fool the model", "de": "Täuschen Sie das Modell"})
    site = open_site(work={"hits_at_once": 9}, languages=("en", "de"), title=title)
    german, english = opened(site, "W1", **GERMAN), opened(site, "W2", **{"Accept-Language": "fr"})
    assert (language_of(german), language_of(english)) == ("de", "en")
    tasks = [setup_in(one)["task"] for one in (german, english)]
    assert [one["title"] for one in tasks] == ["Täuschen Sie das Modell", "Fool the model"]
    assert [one["languages"][0] for one in tasks] == ["de", "en"]


def test_errors_come_in_the_language_of_the_page_and_keep_their_codes(site: WorkSite) -> None:
    page = site.open("W1")
    texts = set()
    for language in ("en", "de", "es"):
        headers = {**page.headers, "Accept-Language": language}
        answer = page.call("POST", "/items/0/hand-in", page.written("Never asked."), headers=headers).json()
        assert answer["code"] == "not_asked_yet"
        texts.add(answer["error"])
    assert len(texts) == 3
    broken = requests.get(f"{site.web.url}/hits/none", headers={"Accept-Language": "es"}, timeout=PATIENCE)
    assert (broken.status_code, language_of(broken)) == (401, "es")


@pytest.mark.parametrize("kind", HitKind)
def test_no_text_of_a_page_or_of_its_calls_is_untranslated(site: WorkSite, kind: HitKind) -> None:
    hit = site.campaign.add_hit(kind)
    if kind is HitKind.VALIDATE:
        site.campaign.add_example("AUTHOR")
    preview = site.address(hit, assignmentId="ASSIGNMENT_ID_NOT_AVAILABLE")
    told = {"assignmentId": f"AS-{hit.key}", "hitId": "H", "workerId": "W1", "turkSubmitTo": SUBMIT_TO}
    addresses = [preview, site.address(hit, **told), f"{site.web.url}/hits/none?x=1", f"{site.web.url}/nowhere?x=1"]
    title = site.campaign.spec.title
    for address in addresses:
        answer = requests.get(f"{address}&lang=en-XA", headers={"Accept": "text/html"}, timeout=PATIENCE)
        assert untranslated(answer.text, [title]) == [], address
