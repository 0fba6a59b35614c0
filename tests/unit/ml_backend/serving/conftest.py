"""A verdict service with models that need no loading."""

from functools import cache

import pytest

from ml_backend.serving.service import VerdictService
from templates import Pack
from templates import find_pack as load_pack
from tests.conftest import PACKS
from tests.fakes.clock import SettableClock
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.sink import ListSink

find_pack = cache(load_pack)


class ServiceSetup:
    """A service with the fakes around it."""

    def __init__(self, *packs: Pack) -> None:
        self.packs = {pack.spec.name: pack for pack in packs}
        self.models = FakeModelProvider(*packs)
        self.sink = ListSink()
        self.clock = SettableClock()
        self.service = VerdictService(self.packs, self.models, self.sink, self.clock)


@pytest.fixture
def setup() -> ServiceSetup:
    """The four packs that come with Outfox, served."""
    return ServiceSetup(*map(find_pack, PACKS))


@pytest.fixture(params=PACKS)
def pack(request: pytest.FixtureRequest) -> Pack:
    """Each of the four packs in turn."""
    return find_pack(request.param)
