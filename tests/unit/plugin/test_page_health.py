import pytest

from plugin.page_health import frame_problem
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
def test_pages_that_browsers_show_are_no_problem(page: str, sites: str) -> None:
    assert frame_problem(Settings(web_url=page, crowd_site_url=sites)) == ""


@pytest.mark.parametrize(
    ("page", "sites", "words"),
    [
        ("http://outfox.example", "https://market.example", "no http page inside an https site"),
        ("http://outfox.example", "http://10.0.0.3 https://market.example", "no http page inside an https site"),
        ("https://outfox.example", "http://market.example", "hands in by http"),
        ("http://127.0.0.1:8000", "https://market.example", "every worker's own machine"),
        ("http://localhost:8000", "http://10.0.0.3:7500", "every worker's own machine"),
        ("https://outfox.example", "nonsense", "is no address; correct OUTFOX_WEB_URL or OUTFOX_CROWD_SITE_URL"),
        ("http://[::1", "http://market.example", "is no address; correct OUTFOX_WEB_URL or OUTFOX_CROWD_SITE_URL"),
    ],
)
def test_pages_that_browsers_refuse_are_told_with_the_cure(page: str, sites: str, words: str) -> None:
    assert words in frame_problem(Settings(web_url=page, crowd_site_url=sites))


def test_a_page_elsewhere_is_cured_by_the_setting_that_names_it() -> None:
    settings = Settings(hit_page_url="http://own.example/hits", crowd_site_url="https://market.example")
    assert "set OUTFOX_HIT_PAGE_URL" in frame_problem(settings)
