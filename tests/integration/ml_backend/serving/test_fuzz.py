"""Three thousand malformed requests against a real backend."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.fakes.fuzz import check, request
from tests.integration.ml_backend.serving.running import Running, running

pytestmark = pytest.mark.xdist_group("serving-fuzz")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("fuzz") / "folder") as found:
        yield found


# Hypothesis chooses the seeds and remembers those that failed: drawing every part of a request takes longer than
# answering it.
EACH_SEED = 50


@settings(max_examples=3_000 // EACH_SEED, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64))
def test_a_malformed_request_gets_an_error_response(backend: Running, seed: int) -> None:
    dice = Random(seed)
    for _ in range(EACH_SEED):
        malformed = request(dice)
        try:
            check(backend, malformed)
        except Exception:
            note(f"the request was {malformed}")
            raise


def test_the_backend_is_idle_and_healthy_afterwards(backend: Running) -> None:
    assert backend.request("GET", "/health").status == 200
    assert backend.status()["queue"] == {"busy": 0, "at_once": 1, "waiting": 0, "room": 64}
    assert not [one for one in backend.events() if one["level"] == "error"]
