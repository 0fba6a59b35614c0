"""The client of the ML backend: signed verdicts for the web app's pages, and a health check of a round."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import requests
import urllib3

from common.errors import Hint
from ml_backend.errors import VerdictError
from ml_backend.judge import JudgeRequest
from ml_backend.serving.request_threads import MAX_WAITING, waiting_for_server
from ml_backend.verdict import Verdict, VerdictSigner
from plugin.errors import PluginError
from plugin.settings import PREFIX, Settings

CONNECT_TIMEOUT = 2.0
READ_TIMEOUT = 12.0
CHECK_TIMEOUT = 5
MAX_AGE = timedelta(minutes=1)
OK, UNAUTHORIZED, SERVER_ERROR = 200, 401, 500
BUSY = (429, 503, 504)
ADDRESS = f"{PREFIX}ML_BACKEND_URL"


class BackendUnavailable(PluginError):
    """The ML backend cannot answer at the moment; retrying soon can help."""

    retry = True


class RoundNotServed(PluginError):
    """The ML backend has no model for the round yet."""

    retry = True


class BackendUnreachable(RoundNotServed):
    """The ML backend does not answer."""


class BackendMisconfigured(PluginError):
    """What answers at the ML backend's address does not judge for the task."""


class JudgementRefused(PluginError):
    """The ML backend refused to judge."""


class BackendVerdictRejected(PluginError):
    """The signature of the ML backend's verdict is invalid."""


class BackendJudge:
    """Asks one ML backend for verdicts; safe to use from many threads."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        *,
        auth: tuple[str, str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._url = url.rstrip("/")
        self._signer = VerdictSigner(secrets)
        self._now = now
        # Not requests: each attempt of each worker asks, and requests takes three times as long to do so.
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT)
        self._pool = urllib3.PoolManager(maxsize=MAX_WAITING, retries=False, timeout=timeout)
        self._headers = {"Content-Type": "application/json", **_authorization(auth)}

    def judge(self, request: JudgeRequest) -> Verdict:
        """Return the verdict, signed for the request's holder."""
        token = self._ask(f"{self._url}/tasks/{quote(request.spec.name)}/rounds/{request.round}/judge", request)
        try:
            return self._signer.read(token, request.holder, now=self._now(), max_age=MAX_AGE)
        except VerdictError as error:
            text = f"the ML backend's verdict is not trusted: {error}"
            raise BackendVerdictRejected(f"{text}; give both processes the same secret and correct clocks") from error

    def _ask(self, url: str, request: JudgeRequest) -> str:
        body = {"fields": dict(request.fields), "target": request.target, "holder": request.holder}
        try:
            with waiting_for_server():
                response = self._pool.request("POST", url, body=json.dumps(body), headers=self._headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise BackendUnavailable("the model does not answer at the moment") from error
        if response.status in BUSY:
            raise BackendUnavailable("the model is busy or being loaded")
        answer = _json_object(response.data)
        if answer is None:
            raise BackendUnavailable(f"what answers at {self._url} is not an ML backend")
        if response.status != OK or "verdict" not in answer:
            reason = answer.get("error") or response.status
            raise JudgementRefused(f"the ML backend refused to judge: {reason}")
        return str(answer["verdict"])


def check_backend(settings: Settings, task: str, round_number: int) -> None:
    """Ask the ML backend as workers' pages do; raise an error if they would get no verdict."""
    address = settings.ml_backend_url.rstrip("/")
    url = f"{address}/tasks/{quote(task)}/rounds/{round_number}/health"
    try:
        with requests.Session() as session:
            # As for verdicts: ignore the machine's proxy.
            session.trust_env = False
            response = session.get(url, headers=_authorization(settings.backend_auth), timeout=CHECK_TIMEOUT)
    except ValueError as error:  # How requests reports invalid addresses; all its other errors are OSErrors.
        raise BackendMisconfigured(f"{address} is not a valid address; correct {ADDRESS}") from error
    except requests.RequestException as error:
        text = f"the ML backend at {address} does not answer, so creation HITs cannot be finished"
        raise BackendUnreachable(f"{text}; start it, or correct {ADDRESS}", hint=Hint("start_ml_backend")) from error
    if response.status_code == UNAUTHORIZED:
        raise BackendMisconfigured(f"the ML backend at {address} refuses our password; correct {PREFIX}ML_BACKEND_AUTH")
    if response.status_code >= SERVER_ERROR:
        text = f"the ML backend at {address} has no model for round {round_number} of {task} yet"
        raise RoundNotServed(f"{text} (HTTP {response.status_code}); wait until it has loaded one, or check its log")
    if response.status_code != OK or (_json_object(response.content) or {}).get("status") != "UP":
        text = f"the ML backend at {address} does not serve {task}, so creation HITs cannot be finished"
        raise BackendMisconfigured(f"{text}; serve all tasks, or add {task}, or correct {ADDRESS}")


def _authorization(auth: tuple[str, str] | None) -> dict[str, str]:
    """Return the header with a user and a password, in UTF-8 as the backend expects them."""
    return {} if auth is None else {"Authorization": f"Basic {b64encode(':'.join(auth).encode()).decode()}"}


def _json_object(body: bytes) -> dict[str, object] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None
