import pytest

from mturk.marketplace import people
from mturk.marketplace.errors import EntityExists, InvalidParameter
from tests.fakes.clock import NOON
from tests.fakes.market import StillWorld


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\nb"])
def test_names_that_are_empty_too_long_or_not_printable_are_refused(world: StillWorld, name: str) -> None:
    with world.market.write() as session:
        for add in (people.add_requester, people.add_worker):
            with pytest.raises(InvalidParameter):
                add(session, name, NOON)


def test_invalid_people_and_deposits_are_refused(world: StillWorld) -> None:
    with world.market.write() as session:
        with pytest.raises(EntityExists):
            people.add_requester(session, "LAB", NOON)
        with pytest.raises(InvalidParameter):
            people.add_worker(session, "Ann", NOON, country="usa")
        for cents in (0, -1):
            with pytest.raises(InvalidParameter):
                people.deposit(session, world.requester, cents, NOON)
