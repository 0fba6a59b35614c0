"""The check of the workers' pages against a running web app."""

import pytest

from plugin.crowd import PageCheck, PagesMisconfigured, PagesUnreachable, check_pages
from tests.integration.plugin.web.work.work_site import SITE, WorkSite

# One kind is enough: the check does not depend on the database.
pytestmark = pytest.mark.any_database


def test_pages_with_the_same_secret_pass(site: WorkSite) -> None:
    here = site.settings.model_copy(update={"web_url": site.web.url})
    assert check_pages(here) == PageCheck(are_ours=True, framed_by=(SITE,))
    elsewhere = site.settings.model_copy(update={"hit_page_url": f"{site.web.url}/hits"})
    assert check_pages(elsewhere).are_ours


def test_pages_with_another_secret_or_without_answer_fail(site: WorkSite) -> None:
    here = site.settings.model_copy(update={"web_url": site.web.url})
    with pytest.raises(PagesMisconfigured, match="OUTFOX_SECRET"):
        check_pages(here.model_copy(update={"secret": "another-secret-that-signs-other-links"}))
    with pytest.raises(PagesMisconfigured):
        check_pages(here.model_copy(update={"web_url": site.backend.url}))
    site.web.stop()
    try:
        with pytest.raises(PagesUnreachable):
            check_pages(here)
    finally:
        site.web.start()
