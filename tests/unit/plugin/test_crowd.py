from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit
from uuid import UUID, uuid4

import pytest

from plugin.crowd import HitLinks, frame_problem
from plugin.errors import PluginError
from plugin.settings import Settings
from round_manager.models import Hit, HitKind

OLD, NEW = "old" * 16, "new" * 16


def hit(public_id: UUID | None = None) -> Hit:
    """A HIT that was planned and is stored nowhere."""
    own_id = public_id or uuid4()
    return Hit(
        public_id=own_id,
        key=f"h-{own_id.hex}",
        task_id=1,
        round_id=1,
        kind=HitKind.CREATE,
        marketplace="test",
        reward_cents=45,
        max_assignments=1,
        assignment_seconds=600,
        created_at=datetime.now(UTC),
    )


def parts(url: str) -> tuple[str, str]:
    """What the page is given: the HIT's name in the path, and the key."""
    split = urlsplit(url)
    (key,) = parse_qs(split.query)["key"]
    return split.path.rsplit("/", 1)[-1], key


def test_a_link_leads_back_to_its_hit_and_stays_the_same() -> None:
    links, one = HitLinks("https://here/hits", [NEW]), hit()
    assert links.url(one) == links.url(one)
    assert links.url(one).startswith("https://here/hits/")
    assert links.check(*parts(links.url(one))) == one.public_id


def test_the_key_of_one_hit_does_not_open_another() -> None:
    links = HitLinks("https://here/hits", [NEW])
    name, _ = parts(links.url(hit()))
    _, key = parts(links.url(hit()))
    with pytest.raises(PluginError):
        links.check(name, key)


@pytest.mark.parametrize(("name", "key"), [("", ""), ("x" * 32, "y"), ("0" * 32, ""), ("..", "."), ("é", "ü")])
def test_an_invalid_link_is_refused(name: str, key: str) -> None:
    with pytest.raises(PluginError):
        HitLinks("https://here/hits", [NEW]).check(name, key)


def test_a_link_works_during_a_secret_rotation_but_not_afterwards() -> None:
    one = hit()
    link = parts(HitLinks("https://here/hits", [OLD]).url(one))
    assert HitLinks("https://here/hits", [OLD, NEW]).check(*link) == one.public_id
    with pytest.raises(PluginError):
        HitLinks("https://here/hits", [NEW]).check(*link)


def test_the_last_secret_signs() -> None:
    one = hit()
    link = parts(HitLinks("https://here/hits", [OLD, NEW]).url(one))
    assert HitLinks("https://here/hits", [NEW]).check(*link) == one.public_id


@pytest.mark.parametrize(
    ("page", "sites"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:7500"),
        ("http://localhost:8000", "http://[::1]:7500"),
        ("https://outfox.example", "https://worker.example https://submit.example"),
        ("http://outfox.example", "http://market.example"),
        ("https://outfox.example", "https://market.example:8443"),
    ],
)
def test_pages_that_browsers_show_have_no_problem(page: str, sites: str) -> None:
    assert frame_problem(Settings(web_url=page, crowd_site_url=sites)) == ""


@pytest.mark.parametrize(
    ("page", "sites", "fact"),
    [
        ("http://outfox.example", "https://market.example", "over https"),
        ("http://outfox.example", "http://10.0.0.3 https://market.example", "over https"),
        ("https://outfox.example", "http://market.example", "over https"),
        ("http://127.0.0.1:8000", "https://market.example", "each worker's own machine"),
        ("http://localhost:8000", "http://10.0.0.3:7500", "each worker's own machine"),
        ("https://outfox.example", "nonsense", "correct OUTFOX_WEB_URL or OUTFOX_CROWD_SITE_URL"),
        ("http://[::1", "http://market.example", "correct OUTFOX_WEB_URL or OUTFOX_CROWD_SITE_URL"),
    ],
)
def test_pages_that_browsers_refuse_are_reported(page: str, sites: str, fact: str) -> None:
    assert fact in frame_problem(Settings(web_url=page, crowd_site_url=sites))


def test_a_page_elsewhere_is_fixed_by_the_setting_that_names_it() -> None:
    settings = Settings(hit_page_url="http://own.example/hits", crowd_site_url="https://market.example")
    assert "set OUTFOX_HIT_PAGE_URL" in frame_problem(settings)
