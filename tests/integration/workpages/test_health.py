"""What `outfox crowd post` and `outfox doctor` see of the pages as they are really served."""

import pytest

from plugin.page_health import PagesAway, PagesSeen, PagesWrong, look_at_pages
from tests.integration.databases import Databases
from tests.integration.workpages.office import SITE, Office


@pytest.fixture(scope="session")
def databases(any_databases: Databases) -> Databases:
    """One kind is enough: what is looked for is not there on either."""
    return any_databases


def test_pages_that_are_served_with_the_same_secret_are_seen(office: Office) -> None:
    here = office.settings.model_copy(update={"web_url": office.web.url})
    assert look_at_pages(here) == PagesSeen(are_ours=True, framed_by=(SITE,))
    elsewhere = office.settings.model_copy(update={"hit_page_url": f"{office.web.url}/hits"})
    assert look_at_pages(elsewhere).are_ours


def test_pages_that_do_not_know_our_links_or_went_away_are_told(office: Office) -> None:
    here = office.settings.model_copy(update={"web_url": office.web.url})
    with pytest.raises(PagesWrong, match="do not know our links; give them and this command one OUTFOX_SECRET"):
        look_at_pages(here.model_copy(update={"secret": "another-secret-that-signs-other-links"}))
    with pytest.raises(PagesWrong, match="is not `outfox serve`"):
        look_at_pages(here.model_copy(update={"web_url": office.backend.url}))
    office.web.stop()
    try:
        with pytest.raises(PagesAway, match="does not answer"):
            look_at_pages(here)
    finally:
        office.web.start()
