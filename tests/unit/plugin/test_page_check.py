import pytest

from plugin.page_check import frame_problem
from plugin.settings import Settings


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
