from datetime import timedelta

import pytest
from sqlalchemy import select

from mturk.marketplace import credentials
from mturk.marketplace.site.auth import MAX_WRONG_LINKS
from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import Invitation, Login
from tests.unit.marketplace_site.stage import Stage, csrf, has_code

ACCOUNT = "/account"


def test_looking_at_a_link_does_not_use_it_up_and_the_button_signs_in(stage: Stage) -> None:
    link, browser = stage.link(stage.worker("Ada")), stage.site().test_client()
    for _ in range(3):
        page = browser.get(link)
        assert "Welcome, Ada" in page.text
    assert browser.get(ACCOUNT).status_code == 401
    assert browser.post(link, data={"csrf": csrf(page.text)}).location == "/?said=welcome"
    assert "Ada" in browser.get(ACCOUNT).text


def test_a_link_works_once(stage: Stage) -> None:
    link = stage.link(stage.worker())
    first, second = stage.site().test_client(), stage.site().test_client()
    seen = csrf(second.get(link).text)
    first.post(link, data={"csrf": csrf(first.get(link).text)})
    assert second.post(link, data={"csrf": seen}).status_code == 410
    assert has_code(second.get(link), "link_used")
    assert second.get(ACCOUNT).status_code == 401


def test_a_link_is_good_for_fourteen_days_and_no_longer(stage: Stage) -> None:
    link, browser = stage.link(stage.worker()), stage.site().test_client()
    stage.clock.advance(timedelta(days=14, seconds=-1))
    assert browser.get(link).status_code == 200
    stage.clock.advance(timedelta(seconds=1))
    answer = browser.get(link)
    assert (answer.status_code, has_code(answer, "link_expired")) == (410, True)


def test_neither_a_link_nor_a_login_can_be_read_from_the_database(stage: Stage) -> None:
    worker = stage.worker()
    link, browser = stage.link(worker), stage.signed_in(worker)
    cookie = browser.get_cookie("outfox_worker")
    assert cookie is not None
    with stage.market.read() as session:
        stored = [*session.scalars(select(Invitation.token_hash)), *session.scalars(select(Login.token_hash))]
    assert hash_token(link.removeprefix("/join/")) in stored
    assert hash_token(cookie.value) in stored
    assert link.removeprefix("/join/") not in stored
    assert cookie.value not in stored


def test_another_site_cannot_sign_a_visitor_in(stage: Stage) -> None:
    link, browser = stage.link(stage.worker()), stage.site().test_client()
    assert browser.post(link).status_code == 400
    assert browser.post(link, data={"csrf": ""}).status_code == 400
    browser.get(link)
    assert browser.post(link, data={"csrf": "guessed"}).status_code == 400
    assert browser.get(ACCOUNT).status_code == 401
    assert browser.get(link).status_code == 200, "and the link is as good as before"


def test_many_wrong_links_from_one_address_are_slowed_down_for_a_minute(stage: Stage) -> None:
    link, browser = stage.link(stage.worker()), stage.site().test_client()
    assert [browser.get(f"/join/{number}").status_code for number in range(MAX_WRONG_LINKS)] == [404] * MAX_WRONG_LINKS
    assert browser.get("/join/x").status_code == 429
    assert browser.get("/join/x", environ_base={"REMOTE_ADDR": "192.0.2.7"}).status_code == 404
    assert browser.get(link).status_code == 200, "a right link is let in all the same"
    stage.clock.advance(timedelta(minutes=1))
    assert browser.get("/join/x").status_code == 404


def test_a_signed_in_worker_makes_a_link_for_another_device(stage: Stage) -> None:
    browser, phone = stage.signed_in(stage.worker("Ada")), stage.site().test_client()
    page = browser.post("/account/link", data={"csrf": csrf(browser.get(ACCOUNT).text)}).text
    link = "/join/" + page.partition("http://127.0.0.1:7500/join/")[2].partition('"')[0]
    phone.post(link, data={"csrf": csrf(phone.get(link).text)})
    assert "on 2 devices" in phone.get(ACCOUNT).text
    assert "/join/" not in browser.get(ACCOUNT).text, "it is shown only once"


def test_a_link_for_another_device_is_good_for_a_day(stage: Stage) -> None:
    link = stage.link(stage.worker(), credentials.DEVICE_LINK_LIFE)
    stage.clock.advance(timedelta(days=1))
    assert stage.site().test_client().get(link).status_code == 410


def test_signing_out_ends_the_login_itself_and_not_only_the_cookie(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    cookie = browser.get_cookie("outfox_worker")
    assert cookie is not None
    assert browser.post("/sign-out", data={"csrf": csrf(browser.get(ACCOUNT).text)}).status_code == 303
    assert browser.get_cookie("outfox_worker") is None
    browser.set_cookie("outfox_worker", cookie.value)
    assert browser.get(ACCOUNT).status_code == 401


def test_signing_out_elsewhere_ends_the_other_logins_and_the_unused_links(stage: Stage) -> None:
    worker = stage.worker()
    here, there, link = stage.signed_in(worker), stage.signed_in(worker), stage.link(worker)
    stranger = stage.signed_in(stage.worker("Bob"))
    here.post("/sign-out", data={"csrf": csrf(here.get(ACCOUNT).text), "others": "yes"})
    assert [one.get(ACCOUNT).status_code for one in (here, there, stranger)] == [200, 401, 200]
    assert stage.site().test_client().get(link).status_code == 404


def test_a_login_stays_while_it_is_used_and_ends_after_ninety_days_without(stage: Stage) -> None:
    browser = stage.signed_in(stage.worker())
    for _ in range(3):
        stage.clock.advance(timedelta(days=89))
        answer = browser.get(ACCOUNT)
        assert answer.status_code == 200
        assert "Max-Age=7776000" in answer.headers["Set-Cookie"]
        assert "Set-Cookie" not in browser.get(ACCOUNT).headers
    stage.clock.advance(timedelta(days=90))
    assert browser.get(ACCOUNT).status_code == 401


@pytest.mark.parametrize("path", ["/account/link", "/sign-out", "/groups/X/accept", "/work/X/return", "/work/X/next"])
def test_every_form_needs_its_own_logins_token(stage: Stage, path: str) -> None:
    ada, bob = stage.signed_in(stage.worker("Ada")), stage.signed_in(stage.worker("Bob"))
    foreign = csrf(bob.get(ACCOUNT).text)
    for data in ({}, {"csrf": ""}, {"csrf": foreign}, {"csrf": "ü"}):
        assert ada.post(path, data=data).status_code == 400
    assert stage.site().test_client().post(path, data={"csrf": foreign}).status_code == 401


@pytest.mark.parametrize(("address", "prefix"), [("http://127.0.0.1:7500", ""), ("https://crowd.example", "__Host-")])
def test_the_cookie_is_for_this_site_only_and_goes_over_tls_where_the_site_does(
    stage: Stage, address: str, prefix: str
) -> None:
    browser, link = stage.site(address).test_client(), stage.link(stage.worker())
    base = {"base_url": address}
    answer = browser.post(link, data={"csrf": csrf(browser.get(link, **base).text)}, **base)
    kept = next(one for one in answer.headers.getlist("Set-Cookie") if one.startswith(f"{prefix}outfox_worker="))
    assert "HttpOnly" in kept
    assert "SameSite=Lax" in kept
    assert "Path=/" in kept
    assert "Domain" not in kept
    assert ("Secure" in kept) == address.startswith("https")
