"""Verdicts from the ML backend, for the web app's own pages: asked over HTTP, believed by their signature."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import requests

from ml_backend.errors import VerdictError
from ml_backend.verdict import Verdict, VerdictSigner
from plugin.errors import PluginError

SECONDS_TO_CONNECT = 2.0
SECONDS_TO_ANSWER = 12.0
FRESH = timedelta(minutes=1)
TOO_BUSY = (429, 503, 504)


class ModelAway(PluginError):
    """The ML backend cannot answer now; whoever asked can ask again in a moment."""

    code = "model_away"
    retry = True


class BackendJudge:
    """Asks one ML backend; may be used by many threads at once."""

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
        self._session = requests.Session()
        self._session.auth = auth
        # A proxy of this machine knows nothing of the backend, and ~/.netrc no password of its.
        self._session.trust_env = False

    def judge(
        self, task: str, round_number: int, fields: Mapping[str, str], target: str | None, holder: str
    ) -> tuple[Verdict, int]:
        """The verdict for one holder, and the microseconds that it took; ModelAway while there is none to be had."""
        began = time.monotonic()
        token = self._ask(f"{self._url}/tasks/{quote(task)}/rounds/{round_number}/judge", fields, target, holder)
        latency = int((time.monotonic() - began) * 1_000_000)
        try:
            return self._signer.read(token, holder, now=self._now(), max_age=FRESH), latency
        except VerdictError as error:
            cure = "the ML backend and the web app need the same secret, and clocks that agree"
            raise PluginError(f"the ML backend's verdict is not believed: {error}; {cure}") from error

    def _ask(self, url: str, fields: Mapping[str, str], target: str | None, holder: str) -> str:
        body = {"fields": dict(fields), "target": target, "holder": holder}
        try:
            answer = self._session.post(url, json=body, timeout=(SECONDS_TO_CONNECT, SECONDS_TO_ANSWER))
        except requests.RequestException as error:
            raise ModelAway("the model does not answer just now") from error
        if answer.status_code in TOO_BUSY:
            raise ModelAway("the model is busy or being loaded")
        try:
            said = answer.json()
        except ValueError as error:
            raise ModelAway(f"what answers at {self._url} is no ML backend") from error
        if answer.status_code != requests.codes.ok or not isinstance(said, dict) or "verdict" not in said:
            told = said.get("error") if isinstance(said, dict) else None
            raise PluginError(f"the ML backend refused to judge: {told or answer.status_code}")
        return str(said["verdict"])
