"""Examples come page by page, newest first, each exactly once."""

from uuid import UUID, uuid4

import pytest

from round_manager.errors import ExampleNotFound
from round_manager.models import ExampleStatus
from round_manager.services.context import ServiceContext
from round_manager.services.validation import list_examples
from tests.campaign import Campaign


def test_pages_continue_after_their_last_example(campaign: Campaign) -> None:
    written = [campaign.add_example().public_id for _ in range(5)]
    services = ServiceContext(campaign.store, campaign.clock)
    seen: list[UUID] = []
    first = page = list_examples(services, "sentiment", limit=2)
    seen += [one.example.public_id for one in page.examples]
    campaign.add_example()  # An example that arrives meanwhile shifts nothing.
    while page.next_after is not None:
        page = list_examples(services, "sentiment", limit=2, after=page.next_after)
        seen += [one.example.public_id for one in page.examples]
    assert seen == written[::-1]
    assert (first.round.number, first.examples[0].votes) == (1, 0)


def test_pages_can_be_filtered_by_status_and_verdict(campaign: Campaign) -> None:
    flagged = campaign.add_example(status=ExampleStatus.FLAGGED)
    campaign.add_example()
    services = ServiceContext(campaign.store, campaign.clock)
    page = list_examples(services, "sentiment", statuses=[ExampleStatus.FLAGGED])
    assert [one.example.public_id for one in page.examples] == [flagged.public_id]
    assert list_examples(services, "sentiment", fooled=not flagged.fooled).examples == ()


@pytest.mark.any_database
def test_a_page_after_an_unknown_example_is_an_error(campaign: Campaign) -> None:
    services = ServiceContext(campaign.store, campaign.clock)
    with pytest.raises(ExampleNotFound):
        list_examples(services, "sentiment", after=uuid4())
