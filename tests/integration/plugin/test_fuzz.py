"""Three thousand generated requests to every route of the three servers, as `make fuzz` sends them by the million."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.operations import service
from tests.fuzz.raw import real_servers
from tests.fuzz.run import RAW, Batches, State
from tests.fuzz.sent import Answer, FuzzFailure, Hang, Secrets, Sent, check, time_limit
from tests.fuzz.world import World, open_world

pytestmark = pytest.mark.xdist_group("fuzz")
REQUESTS, RAW_REQUESTS = 3_000, 150


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("fuzz") / "world") as found:
        yield found


def test_generated_requests_cause_no_error_no_hang_and_no_leak(world: World, tmp_path: Path) -> None:
    state = State()
    with real_servers(tmp_path / "servers") as servers:
        Batches(world, servers, state, slow=False).run(0, REQUESTS, RAW_REQUESTS)
    assert state.requests >= REQUESTS * 0.9, "Hypothesis may leave out a few that it has seen"
    for server, rules in world.routes.items():
        wanted = {RAW, *(rule.endpoint for rule in rules.iter_rules())}
        assert wanted - state.routes[server].keys() == set(), server
    assert set(service().operation_names) - state.routes["marketplace"].keys() == set()


SENT = Sent("web", "health", "GET", "/health")
SECRETS = Secrets(answered=["a-planted-secret"], logged=["a-typed-text"])


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, {}, b""),
        Answer(503, {}, b""),
        Answer(200, {}, b"... a-planted-secret ..."),
        Answer(302, {"location": "/a-planted-secret"}, b""),
    ],
)
def test_a_server_error_or_a_planted_secret_in_an_answer_is_found(answer: Answer) -> None:
    with pytest.raises(FuzzFailure):
        check(SENT, answer, SECRETS)


def test_a_planted_secret_or_a_typed_text_in_a_log_is_found() -> None:
    check(SENT, Answer(404, {}, b"a-typed-text"), SECRETS)
    for text in (b"... a-planted-secret", b"a-typed-text"):
        with pytest.raises(FuzzFailure):
            SECRETS.check_log(text)


def test_a_request_that_hangs_is_found() -> None:
    with pytest.raises(Hang), time_limit(0.05):
        threading.Event().wait()


def test_a_run_continues_where_the_last_one_stopped(tmp_path: Path) -> None:
    state = State(batches=3, requests=2_990)
    state.count("web", "health", "200", 0.1)
    state.write(tmp_path / "build" / "state.json")
    assert State.read(tmp_path / "build" / "state.json") == state
    assert State.read(tmp_path / "nothing.json") == State()
