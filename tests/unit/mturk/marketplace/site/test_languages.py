"""The worker site in other languages."""

import pytest
from flask.testing import FlaskClient

from common.pseudo import ACCENTED
from common.translation import LANGUAGES
from tests.fakes.market import StillWorld
from tests.fakes.market_pages import accept_task, csrf, submit_path
from tests.pseudo import untranslated


def every_page(world: StillWorld) -> list[str]:
    """Return the pages of the site, with work in every state and errors among them."""
    ada = world.make_worker("Ada")
    works = [world.work(ada, world.post(f"Task {number}", cents=100).type_id).id for number in range(4)]
    world.approve(works[0], "Nice")
    world.bonus(works[0], 250, "You fooled it")
    world.reject(works[1], "Copied")
    world.message(ada, "Round 2", "It opens on Monday.")
    requirements = [{"QualificationTypeId": "000000000000000000L0", "Comparator": "GreaterThan", "IntegerValues": [99]}]
    locked = world.post("Locked", requirements=requirements)
    opened, taken = world.post("Open", places=3), world.post("Taken")
    browser = world.sign_in(ada)
    browser.get(f"/?lang={ACCENTED}")
    assignment = accept_task(browser, world.group_of(taken.type_id))
    groups = [world.group_of(hit.type_id) for hit in (locked, opened)]
    paths = ["/", "/?q=nothing+like+it", "/?said=last", "/queue", "/earnings", "/messages", "/account", "/nowhere"]
    paths += [f"/groups/{group}" for group in groups] + ["/groups/none", f"/work/{assignment}", "/work/none"]
    paths += [f"/work/{assignment}/return", world.link(world.make_worker("Bob")), "/join/wrong"]
    pages = [browser.get(path).text for path in paths]
    token = csrf(browser.get("/account").text)
    pages.append(browser.post("/account/link", data={"csrf": token}).text)
    pages.append(browser.post("/account/link", data={"csrf": "wrong"}).text)
    submit = submit_path(browser, assignment)
    pages.append(browser.post(submit, data={"assignmentId": assignment, "answer": "yes"}).text)
    pages.append(browser.post(submit, data={"answer": "yes"}).text)
    stranger = world.site().test_client()
    pages += [stranger.get(f"/{path}?lang={ACCENTED}").text for path in ("", "queue")]
    return pages


def test_no_text_of_the_site_is_untranslated(world: StillWorld) -> None:
    found = {text for page in every_page(world) for text in untranslated(page, ["Locked", "Open", "Taken"])}
    assert not found


def test_a_visitor_chooses_a_language_and_keeps_it(world: StillWorld) -> None:
    browser: FlaskClient = world.sign_in(world.make_worker("Ada"))
    assert '<html lang="en" dir="ltr">' in browser.get("/").text
    page = browser.get("/queue", headers={"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}).text
    assert '<html lang="de" dir="ltr">' in page
    assert all(f'hreflang="{language}"' in page for language in LANGUAGES)
    browser.get("/queue?lang=es")
    assert '<html lang="es" dir="ltr">' in browser.get("/earnings", headers={"Accept-Language": "de"}).text
    assert '<html lang="es" dir="ltr">' in browser.get("/queue?lang=xx").text
    assert 'dir="rtl"' in browser.get("/?lang=ar-XB").text


@pytest.mark.parametrize(("language", "money"), [("de", "1,25\xa0$"), ("es", "1,25\xa0US$"), ("en", "$1.25")])
def test_money_is_written_as_in_the_language(world: StillWorld, language: str, money: str) -> None:
    world.post("Any", cents=125)
    assert money in world.sign_in(world.make_worker()).get(f"/?lang={language}").text
