"""What a cluster's answers mean: whether a retry may help, and what the user can do."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from plugin.errors import ClusterError, ClusterRefused, ClusterUnreachable, SettingsError
from plugin.jobs.ray_api import RayApi, Submission
from plugin.settings import load_settings
from plugin.wiring import Application
from round_manager.jobs import JobRequest
from tests.fakes.http_server import RunningServer
from tests.ray_cluster import free_ports

Answer = Callable[[str, str], tuple[int, str]]
JOB = '{"status": "PENDING", "driver_exit_code": null, "message": null}'


class Dashboard:
    """A server that answers as a test says, and remembers the tokens that it was sent."""

    def __init__(self) -> None:
        self.answer: Answer = lambda method, path: (200, "{}")
        self.tokens: list[str] = []
        self.bodies: list[str] = []

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        self.tokens.append(environ.get("HTTP_AUTHORIZATION", ""))
        length = int(environ.get("CONTENT_LENGTH") or 0)
        self.bodies.append(environ["wsgi.input"].read(length).decode())
        status, body = self.answer(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        start(f"{status} Answer", [("Content-Type", "application/json")])
        return [body.encode()]


@pytest.fixture
def dashboard() -> Dashboard:
    return Dashboard()


@pytest.fixture
def api(dashboard: Dashboard) -> Iterator[RayApi]:
    with RunningServer(dashboard) as server:
        yield RayApi(f"http://127.0.0.1:{server.port}", "a-token")


@pytest.mark.parametrize("address", ["", "head:8265", "ray://head:10001", "auto"])
def test_the_address_is_that_of_a_dashboard(address: str) -> None:
    with pytest.raises(SettingsError) as error:
        RayApi(address)
    assert error.value.hint is not None


def test_a_cluster_that_does_not_answer_may_answer_later() -> None:
    with pytest.raises(ClusterUnreachable) as error:
        RayApi(f"http://127.0.0.1:{free_ports(1)[0]}").version()
    assert (error.value.retry, error.value.hint is not None) == (True, True)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, "Traceback", ClusterUnreachable),
        (503, "", ClusterUnreachable),
        (401, "", ClusterRefused),
        (403, "", ClusterRefused),
        (302, "", ClusterRefused),
        (200, "<html>", ClusterRefused),
        (200, "[]", ClusterRefused),
        (200, '{"state": "SUCCEEDED"}', ClusterRefused),
    ],
)
def test_other_answers_are_errors(
    api: RayApi, dashboard: Dashboard, status: int, body: str, expected: type[ClusterError]
) -> None:
    dashboard.answer = lambda method, path: (status, body)
    for call in (api.version, lambda: api.find("job"), api.resources):
        with pytest.raises(expected):
            call()


def test_a_job_that_another_process_submitted_at_the_same_time_is_submitted(api: RayApi, dashboard: Dashboard) -> None:
    dashboard.answer = lambda method, path: (500, "already exists") if method == "POST" else (200, JOB)
    api.submit(Submission("job", "true"))
    assert set(dashboard.tokens) == {"Bearer a-token"}
    dashboard.answer = lambda method, path: (500, "no memory") if method == "POST" else (404, "does not exist")
    with pytest.raises(ClusterUnreachable):
        api.submit(Submission("job", "true"))


@pytest.mark.parametrize(("kind", "gpus", "reserved"), [("training", 2, 1), ("training", 0, 0), ("evaluation", 2, 0)])
def test_a_job_is_submitted_without_secrets_and_a_training_with_a_gpu_if_there_is_one(
    dashboard: Dashboard, tmp_path: Path, kind: str, gpus: int, reserved: int
) -> None:
    nodes = [{"state": state, "resources_total": {"CPU": 4.0, "GPU": gpus}} for state in ("ALIVE", "DEAD")]
    listed = json.dumps({"data": {"result": {"result": nodes}}})
    dashboard.answer = lambda method, path: (404, "") if "/jobs/outfox" in path else (200, listed)
    secret = "not-for-everyone-" * 3
    with RunningServer(dashboard) as server:
        settings = {
            "OUTFOX_HOME": str(tmp_path),
            "OUTFOX_DATABASE_URL": f"postgresql://outfox:{secret}@db.internal/outfox",
            "OUTFOX_SECRET": secret,
            "OUTFOX_LABEL_STUDIO_TOKEN": secret,
            "OUTFOX_CROWD_KEY_SECRET": secret,
            "OUTFOX_ML_BACKEND_AUTH": f"user:{secret}",
            "OUTFOX_REGISTRY": "s3://lab/models",
            "OUTFOX_ARCHIVES": str(tmp_path / "archives"),
            "OUTFOX_JOBS_RUNNER": "ray",
            "OUTFOX_JOBS_ADDRESS": f"http://127.0.0.1:{server.port}",
            "OUTFOX_JOBS_CONFIG": "/etc/outfox/jobs.toml",
        }
        Application(load_settings(settings)).job_runner().start(JobRequest(kind, "sentiment", token="durable-7"))
    assert secret not in "".join(dashboard.bodies)
    sent = json.loads(dashboard.bodies[-1])
    assert sent["entrypoint_num_gpus"] == reserved
    assert sent["submission_id"].endswith(f"-{kind}-durable-7")
    assert sent["entrypoint"].startswith("exec outfox --config /etc/outfox/jobs.toml ")
    places = {"OUTFOX_REGISTRY": "s3://lab/models", "OUTFOX_ARCHIVES": str(tmp_path / "archives")}
    assert places.items() <= sent["runtime_env"]["env_vars"].items()


def test_places_that_only_this_machine_reaches_are_refused() -> None:
    settings = {"OUTFOX_JOBS_RUNNER": "ray", "OUTFOX_JOBS_ADDRESS": "http://127.0.0.1:9", "OUTFOX_HOME": "/nowhere"}
    with pytest.raises(SettingsError) as error:
        Application(load_settings(settings)).job_runner()
    assert error.value.hint is not None
