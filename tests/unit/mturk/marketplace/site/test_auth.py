from datetime import timedelta

import pytest
from sqlalchemy import select

from mturk.marketplace.services.sign_in import DEVICE_LINK_LIFE
from mturk.marketplace.site.auth import MAX_WRONG_LINKS
from mturk.marketplace.tables.base import hash_token
from mturk.marketplace.tables.people import Invitation, Login
from tests.fakes.market import StillWorld
from tests.fakes.market_pages import csrf, has_code

ACCOUNT = "/account"


def test_viewing_a_link_does_not_use_it_and_the_button_signs_in(world: StillWorld) -> None:
    link, browser = world.link(world.make_worker("Ada")), world.site().test_client()
    for _ in range(3):
        page = browser.get(link)
        assert "Welcome, Ada" in page.text
    assert browser.get(ACCOUNT).status_code == 401
    assert browser.post(link, data={"csrf": csrf(page.text)}).location == "/?said=welcome"
    assert "Ada" in browser.get(ACCOUNT).text


def test_a_link_works_once(world: StillWorld) -> None:
    link = world.link(world.make_worker())
    first, second = world.site().test_client(), world.site().test_client()
    seen = csrf(second.get(link).text)
    first.post(link, data={"csrf": csrf(first.get(link).text)})
    assert second.post(link, data={"csrf": seen}).status_code == 410
    assert has_code(second.get(link), "link_used")
    assert second.get(ACCOUNT).status_code == 401


def test_a_link_expires_after_fourteen_days(world: StillWorld) -> None:
    link, browser = world.link(world.make_worker()), world.site().test_client()
    world.clock.advance(timedelta(days=14, seconds=-1))
    assert browser.get(link).status_code == 200
    world.clock.advance(timedelta(seconds=1))
    response = browser.get(link)
    assert (response.status_code, has_code(response, "link_expired")) == (410, True)


def test_only_hashes_of_links_and_logins_are_stored(world: StillWorld) -> None:
    worker = world.make_worker()
    link, browser = world.link(worker), world.sign_in(worker)
    cookie = browser.get_cookie("outfox_worker")
    assert cookie is not None
    with world.market.read() as session:
        stored = [*session.scalars(select(Invitation.token_hash)), *session.scalars(select(Login.token_hash))]
    assert hash_token(link.removeprefix("/join/")) in stored
    assert hash_token(cookie.value) in stored
    assert link.removeprefix("/join/") not in stored
    assert cookie.value not in stored


def test_another_site_cannot_sign_a_visitor_in(world: StillWorld) -> None:
    link, browser = world.link(world.make_worker()), world.site().test_client()
    assert browser.post(link).status_code == 400
    assert browser.post(link, data={"csrf": ""}).status_code == 400
    browser.get(link)
    assert browser.post(link, data={"csrf": "guessed"}).status_code == 400
    assert browser.get(ACCOUNT).status_code == 401
    assert browser.get(link).status_code == 200, "the link still works"


def test_many_wrong_links_from_one_address_are_limited_for_a_minute(world: StillWorld) -> None:
    link, browser = world.link(world.make_worker()), world.site().test_client()
    assert [browser.get(f"/join/{number}").status_code for number in range(MAX_WRONG_LINKS)] == [404] * MAX_WRONG_LINKS
    assert browser.get("/join/x").status_code == 429
    assert browser.get("/join/x", environ_base={"REMOTE_ADDR": "192.0.2.7"}).status_code == 404
    assert browser.get(link).status_code == 200, "a valid link still works"
    world.clock.advance(timedelta(minutes=1))
    assert browser.get("/join/x").status_code == 404


def test_a_signed_in_worker_creates_a_link_for_another_device(world: StillWorld) -> None:
    browser, phone = world.sign_in(world.make_worker("Ada")), world.site().test_client()
    page = browser.post("/account/link", data={"csrf": csrf(browser.get(ACCOUNT).text)}).text
    link = "/join/" + page.partition("http://127.0.0.1:7500/join/")[2].partition('"')[0]
    phone.post(link, data={"csrf": csrf(phone.get(link).text)})
    assert "on 2 devices" in phone.get(ACCOUNT).text
    assert "/join/" not in browser.get(ACCOUNT).text, "the link is shown only once"


def test_a_link_for_another_device_expires_after_a_day(world: StillWorld) -> None:
    link = world.link(world.make_worker(), DEVICE_LINK_LIFE)
    world.clock.advance(timedelta(days=1))
    assert world.site().test_client().get(link).status_code == 410


def test_signing_out_ends_the_login_not_only_the_cookie(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    cookie = browser.get_cookie("outfox_worker")
    assert cookie is not None
    assert browser.post("/sign-out", data={"csrf": csrf(browser.get(ACCOUNT).text)}).status_code == 303
    assert browser.get_cookie("outfox_worker") is None
    browser.set_cookie("outfox_worker", cookie.value)
    assert browser.get(ACCOUNT).status_code == 401


def test_signing_out_elsewhere_ends_other_logins_and_unused_links(world: StillWorld) -> None:
    worker = world.make_worker()
    here, there, link = world.sign_in(worker), world.sign_in(worker), world.link(worker)
    other = world.sign_in(world.make_worker("Bob"))
    here.post("/sign-out", data={"csrf": csrf(here.get(ACCOUNT).text), "others": "yes"})
    assert [one.get(ACCOUNT).status_code for one in (here, there, other)] == [200, 401, 200]
    assert world.site().test_client().get(link).status_code == 404


def test_a_login_expires_ninety_days_after_its_last_use(world: StillWorld) -> None:
    browser = world.sign_in(world.make_worker())
    for _ in range(3):
        world.clock.advance(timedelta(days=89))
        response = browser.get(ACCOUNT)
        assert response.status_code == 200
        assert "Max-Age=7776000" in response.headers["Set-Cookie"]
        assert "Set-Cookie" not in browser.get(ACCOUNT).headers
    world.clock.advance(timedelta(days=90))
    assert browser.get(ACCOUNT).status_code == 401


@pytest.mark.parametrize("path", ["/account/link", "/sign-out", "/groups/X/accept", "/work/X/return", "/work/X/next"])
def test_every_form_needs_the_csrf_token_of_its_login(world: StillWorld, path: str) -> None:
    ada, bob = world.sign_in(world.make_worker("Ada")), world.sign_in(world.make_worker("Bob"))
    foreign = csrf(bob.get(ACCOUNT).text)
    for data in ({}, {"csrf": ""}, {"csrf": foreign}, {"csrf": "ü"}):
        assert ada.post(path, data=data).status_code == 400
    assert world.site().test_client().post(path, data={"csrf": foreign}).status_code == 401


@pytest.mark.parametrize(("address", "prefix"), [("http://127.0.0.1:7500", ""), ("https://crowd.example", "__Host-")])
def test_the_cookie_is_limited_to_this_site_and_secure_over_tls(world: StillWorld, address: str, prefix: str) -> None:
    browser, link = world.site(address).test_client(), world.link(world.make_worker())
    base = {"base_url": address}
    response = browser.post(link, data={"csrf": csrf(browser.get(link, **base).text)}, **base)
    cookie = next(one for one in response.headers.getlist("Set-Cookie") if one.startswith(f"{prefix}outfox_worker="))
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie
    assert ("Secure" in cookie) == address.startswith("https")
