"""The check of the workers' pages against a running web app."""

import pytest

from plugin.crowd import PageCheck, PagesMisconfigured, PagesUnreachable, check_pages
from tests.integration.databases import Databases
from tests.integration.plugin.web.work.office import SITE, Office


@pytest.fixture(scope="session")
def databases(any_databases: Databases) -> Databases:
    """One kind is enough: the check does not depend on the database."""
    return any_databases


def test_pages_with_the_same_secret_pass(office: Office) -> None:
    here = office.settings.model_copy(update={"web_url": office.web.url})
    assert check_pages(here) == PageCheck(are_ours=True, framed_by=(SITE,))
    elsewhere = office.settings.model_copy(update={"hit_page_url": f"{office.web.url}/hits"})
    assert check_pages(elsewhere).are_ours


def test_pages_with_another_secret_or_without_answer_fail(office: Office) -> None:
    here = office.settings.model_copy(update={"web_url": office.web.url})
    with pytest.raises(PagesMisconfigured, match="OUTFOX_SECRET"):
        check_pages(here.model_copy(update={"secret": "another-secret-that-signs-other-links"}))
    with pytest.raises(PagesMisconfigured):
        check_pages(here.model_copy(update={"web_url": office.backend.url}))
    office.web.stop()
    try:
        with pytest.raises(PagesUnreachable):
            check_pages(here)
    finally:
        office.web.start()
