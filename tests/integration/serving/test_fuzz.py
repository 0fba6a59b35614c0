"""Ten thousand spoiled requests against a real backend."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fakes.fuzz import Request, check, requests
from tests.integration.serving.running import Running, running

pytestmark = pytest.mark.xdist_group("serving-fuzz")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fuzz") / "folder") as found:
        yield found


@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_a_spoiled_request_gets_a_clear_answer(backend: Running, request: Request) -> None:
    check(backend, request)


def test_the_backend_is_as_well_after_them_as_before(backend: Running) -> None:
    assert backend.request("GET", "/health").status == 200
    assert backend.status()["queue"] == {"busy": 0, "at_once": 1, "waiting": 0, "room": 64}
    assert not [one for one in backend.events() if one["level"] == "error"]
