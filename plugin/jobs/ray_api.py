"""A Ray cluster's REST interface: Ray's Jobs API and its list of nodes, at the address of the dashboard.

Ray's own client makes the same requests without any timeout, and `RAY_ADDRESS` in the environment overrides the address
that it is given; neither is acceptable in a manager.
"""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote, urlsplit

import requests

from common.errors import Hint, one_line
from plugin.errors import ClusterRefused, ClusterUnreachable, SettingsError

# To connect, and until the next bytes of an answer.
TIMEOUT = (5.0, 30.0)
JOBS = "/api/jobs/"
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class Submission:
    """A job to submit: its id, its command line, what it needs, and the variables of its environment.

    Ray shows all of it in its dashboard.
    """

    id: str
    command: str
    environment: dict[str, str] = field(default_factory=dict)
    cpus: int = 0
    gpus: int = 0

    def as_data(self) -> dict[str, Any]:
        """Return the body of the request."""
        return {
            "entrypoint": self.command,
            "submission_id": self.id,
            "runtime_env": {"env_vars": self.environment},
            "entrypoint_num_cpus": self.cpus,
            "entrypoint_num_gpus": self.gpus,
        }


@dataclass(frozen=True)
class SubmittedJob:
    """A job as the cluster reports it: its state, and how its process ended if it ended by itself."""

    state: str
    exit_code: int | None
    message: str

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """Return the job that the cluster described; raise ClusterRefused if the description is not one."""
        try:
            code = data.get("driver_exit_code")
            return cls(str(data["status"]), code if isinstance(code, int) else None, str(data.get("message") or ""))
        except (AttributeError, KeyError, TypeError) as error:
            raise ClusterRefused("the cluster describes its jobs in a form that Outfox does not know") from error


class RayApi:
    """The requests to one cluster."""

    def __init__(self, address: str, token: str = "") -> None:
        """Take the address of the dashboard, and the token that the cluster requires, if any."""
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingsError(
                "jobs on a cluster need jobs_address, the address of its dashboard, such as http://head:8265",
                hint=Hint("list_settings"),
            )
        self.address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def version(self) -> str:
        """Return the version of Ray on the cluster."""
        answer = self._json(self._request("GET", "/api/version"))
        if not isinstance(answer, dict) or "ray_version" not in answer:
            raise ClusterRefused(f"{self.address} is not the dashboard of a Ray cluster; check jobs_address")
        return str(answer["ray_version"])

    def find(self, job: str) -> SubmittedJob | None:
        """Return a job; None if the cluster does not know it."""
        answer = self._request("GET", f"{JOBS}{quote(job)}", HTTPStatus.NOT_FOUND)
        return None if answer.status_code == HTTPStatus.NOT_FOUND else SubmittedJob.from_data(self._json(answer))

    def submit(self, submission: Submission) -> None:
        """Submit a job, unless another process has submitted it."""
        try:
            self._request("POST", JOBS, json=submission.as_data())
        except ClusterUnreachable:
            # Ray refuses an id that it knows with status 500.
            if self.find(submission.id) is None:
                raise

    def stop(self, job: str) -> None:
        """Ask a job to stop: SIGTERM, and some time later SIGKILL."""
        self._request("POST", f"{JOBS}{quote(job)}/stop", HTTPStatus.NOT_FOUND)

    def log(self, job: str) -> str:
        """Return what a job has printed."""
        answer = self._json(self._request("GET", f"{JOBS}{quote(job)}/logs"))
        return str(answer.get("logs", "")) if isinstance(answer, dict) else ""

    def resources(self) -> dict[str, float]:
        """Return the processors, GPUs and so on of all nodes that are alive."""
        answer = self._json(self._request("GET", "/api/v0/nodes?limit=1000&detail=1"))
        try:
            nodes = [one for one in answer["data"]["result"]["result"] if one["state"] == "ALIVE"]
            total: dict[str, float] = {}
            for name, amount in (pair for one in nodes for pair in one["resources_total"].items()):
                total[name] = total.get(name, 0.0) + float(amount)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ClusterRefused("the cluster lists its nodes in a form that Outfox does not know") from error
        return total

    def _request(self, method: str, path: str, *accepted: int, json: Any = None) -> requests.Response:
        try:
            answer = requests.request(
                method, self.address + path, json=json, headers=self._headers, timeout=TIMEOUT, allow_redirects=False
            )
        except requests.RequestException as error:
            reason = one_line(error)
            raise ClusterUnreachable(f"the cluster at {self.address} cannot be reached: {reason}") from error
        if answer.status_code in accepted or answer.status_code == HTTPStatus.OK:
            return answer
        if answer.status_code in _REFUSED:
            raise ClusterRefused(
                f"the cluster at {self.address} requires another token than jobs_token", hint=Hint("list_settings")
            )
        lines = answer.text.strip().splitlines()
        text = f"the cluster at {self.address} answered with {answer.status_code}: {lines[-1][:200] if lines else ''}"
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise ClusterUnreachable(text)
        raise ClusterRefused(text)

    def _json(self, answer: requests.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise ClusterRefused(f"{self.address} is not the dashboard of a Ray cluster; check jobs_address") from error
