"""No pass of the manager scans a whole round or a whole table: it runs every few seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from round_manager.database.store import Store
from tests.integration.databases import Databases
from tests.integration.plans import asked, walks
from tests.integration.plugin.manager.managed_campaign import ManagedCampaign, start_managed


@pytest.fixture
def file_store(sqlite_databases: Databases) -> Iterator[Store]:
    """SQLite only: PostgreSQL plans by statistics, which a test with few rows does not have."""
    with sqlite_databases.opened() as opened:
        yield opened


def test_no_query_of_a_pass_scans_the_whole_round(file_store: Store, tmp_path: Path) -> None:
    campaign: ManagedCampaign = start_managed(file_store, tmp_path)
    campaign.qualify_workers()
    campaign.manage()
    campaign.write_hits()
    campaign.manage()
    campaign.check_hits(1)
    with asked() as statements:
        campaign.manage()
        campaign.manage()
    assert len(statements) > 30
    assert walks(file_store, statements) == {}
