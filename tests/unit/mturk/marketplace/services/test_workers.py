import pytest

from mturk.marketplace.errors import InvalidParameter, WorkerNotFound
from mturk.marketplace.services import workers
from tests.fakes.market import StillWorld


def test_workers_are_invited_all_or_none(world: StillWorld) -> None:
    with pytest.raises(InvalidParameter):
        workers.invite_workers(world.market, ["Ada", ""], "https://crowd.example")
    assert workers.list_workers(world.market) == []
    invited = workers.invite_workers(world.market, ["Ada", "Bob"], "https://crowd.example", country="GB")
    assert [one.name for one in invited] == ["Ada", "Bob"]
    assert len({one.link for one in invited}) == 2
    assert [(one.name, one.country, one.signed_in) for one in workers.list_workers(world.market)] == [
        ("Ada", "GB", False),
        ("Bob", "GB", False),
    ]


def test_an_existing_worker_gets_another_link(world: StillWorld) -> None:
    (first,) = workers.invite_workers(world.market, ["Ada"], "https://crowd.example")
    again = workers.invite_again(world.market, first.worker_id, "https://crowd.example")
    assert (again.worker_id, again.name) == (first.worker_id, "Ada")
    assert again.link != first.link
    with pytest.raises(WorkerNotFound):
        workers.invite_again(world.market, "A1", "https://crowd.example")


def test_the_last_public_address_is_remembered(world: StillWorld) -> None:
    assert workers.public_address_of(world.market) is None
    for url in ("http://old.example", "https://crowd.example"):
        workers.remember_address(world.market, url)
    assert workers.public_address_of(world.market) == "https://crowd.example"
