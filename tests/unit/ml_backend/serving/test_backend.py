"""The catalogue of packs that a backend serves."""

import pytest

from ml_backend.errors import UnknownTask
from ml_backend.serving.backend import PackCatalogue
from ml_backend.serving.service import VerdictService
from templates import Pack, find_pack
from templates.errors import TemplateError
from tests.fakes.clock import SettableClock
from tests.fakes.model_provider import FakeModelProvider
from tests.fakes.sink import ListSink


class Folder:
    """A folder of packs that counts lookups."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.looked = 0

    def find(self, task: str) -> Pack:
        self.looked += 1
        if task not in self.there:
            raise TemplateError(f"there is no task pack `{task}`")
        return find_pack(task)


def test_a_pack_that_is_added_later_is_found_once(caplog: pytest.LogCaptureFixture) -> None:
    folder = Folder()
    catalogue = PackCatalogue(folder.find)
    assert [catalogue.can_serve("qa") for _ in range(3)] == [False] * 3
    assert caplog.text.count("a task is not served") == 1
    folder.there.add("qa")
    assert catalogue.can_serve("qa")
    looked = folder.looked
    assert (catalogue.can_serve("qa"), catalogue["qa"].spec.name, list(catalogue)) == (True, "qa", ["qa"])
    assert folder.looked == looked


def test_a_service_answers_for_a_task_as_soon_as_its_pack_is_known() -> None:
    folder = Folder()
    catalogue, models = PackCatalogue(folder.find), FakeModelProvider(find_pack("qa"))
    service = VerdictService(catalogue, models, ListSink(), SettableClock())
    with pytest.raises(UnknownTask):
        service.versions("qa", None)
    folder.there.add("qa")
    assert catalogue.can_serve("qa")
    assert (service.versions("qa", None), service.tasks, service.serves("nli")) == (["v1"], ("qa",), False)
    # Only the initial tasks decide whether the process is healthy.
    assert service.initial_tasks == frozenset()
