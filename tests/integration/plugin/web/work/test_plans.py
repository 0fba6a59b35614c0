"""No query of a worker's page scans a whole round, which would take seconds with a million examples."""

import pytest

from round_manager.models import HitKind
from tests.integration.plans import asked, walks
from tests.integration.plugin.web.work.conftest import OpenSite

pytestmark = pytest.mark.sqlite("PostgreSQL plans by statistics, which a test with few rows does not have")


@pytest.mark.parametrize("name", ["sentiment", "qa"])
def test_no_query_of_a_workers_page_scans_the_whole_round(open_site: OpenSite, name: str) -> None:
    site = open_site(name, validation={"gold_rate": 0.5})
    with asked() as statements:
        page = site.open("W1")
        body = page.fooling()
        page.post("/items/0/tries", body)
        page.post("/items/0/hand-in", body)
        site.campaign.add_example("W2")
        checking = site.open("V1", kind=HitKind.VALIDATE)
        assert checking.state()["items"]
    assert len(statements) > 30
    assert walks(site.campaign.store, statements) == {}
