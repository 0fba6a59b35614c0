"""Examples come page by page, newest first, each exactly once."""

from uuid import UUID, uuid4

import pytest

from round_manager.errors import ExampleNotFound
from round_manager.models import ExampleStatus
from round_manager.services.context import ServiceContext
from round_manager.services.validation import list_examples
from tests.integration.round_manager.season import Season


def test_pages_continue_after_their_last_example(season: Season) -> None:
    written = [season.floor.pending().public_id for _ in range(5)]
    services = ServiceContext(season.store, season.floor.clock)
    seen: list[UUID] = []
    first = page = list_examples(services, "sentiment", limit=2)
    seen += [one.example.public_id for one in page.examples]
    season.floor.pending()  # An example that arrives meanwhile shifts nothing.
    while page.next_after is not None:
        page = list_examples(services, "sentiment", limit=2, after=page.next_after)
        seen += [one.example.public_id for one in page.examples]
    assert seen == written[::-1]
    assert (first.round.number, first.examples[0].votes) == (1, 0)


def test_pages_can_be_filtered_by_status_and_verdict(season: Season) -> None:
    flagged = season.floor.pending(status=ExampleStatus.FLAGGED)
    season.floor.pending()
    services = ServiceContext(season.store, season.floor.clock)
    page = list_examples(services, "sentiment", statuses=[ExampleStatus.FLAGGED])
    assert [one.example.public_id for one in page.examples] == [flagged.public_id]
    assert list_examples(services, "sentiment", fooled=not flagged.fooled).examples == ()


def test_a_page_after_an_unknown_example_is_an_error(season: Season) -> None:
    services = ServiceContext(season.store, season.floor.clock)
    with pytest.raises(ExampleNotFound):
        list_examples(services, "sentiment", after=uuid4())
