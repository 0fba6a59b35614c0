"""Whether the ML backend answers for a task's round: without it, nobody can finish a HIT to create."""

from urllib.parse import quote

import requests

from plugin.errors import PluginError
from plugin.settings import PREFIX, Settings

SECONDS_TO_ANSWER = 5
OK, NO_PASSWORD, BROKEN = 200, 401, 500
ADDRESS = f"{PREFIX}ML_BACKEND_URL"


class BackendAway(PluginError):
    """The ML backend has no model for the round now."""

    code = "backend_away"
    retry = True


class BackendSilent(BackendAway):
    """Nothing answers where the ML backend should be."""

    code = "backend_silent"


class BackendWrong(PluginError):
    """Something answers that will not judge for the task."""

    code = "backend_wrong"


def look_at_backend(settings: Settings, task: str, round_number: int) -> None:
    """Asks the ML backend as workers' pages do; an error that tells the cure where they would get no verdict."""
    address = settings.ml_backend_url.rstrip("/")
    url = f"{address}/tasks/{quote(task)}/rounds/{round_number}/health"
    try:
        with requests.Session() as session:
            # As for verdicts: a proxy of this machine knows nothing of the backend.
            session.trust_env = False
            answer = session.get(url, auth=settings.backend_auth, timeout=SECONDS_TO_ANSWER)
    except ValueError as error:  # What requests says of addresses that are none; all its errors are OSErrors too.
        raise BackendWrong(f"{address} is no address of an ML backend; correct {ADDRESS}") from error
    except requests.RequestException as error:
        told = f"the ML backend at {address} does not answer, and nobody could finish a HIT to create"
        raise BackendSilent(f"{told}; start `outfox ml-backend`, or correct {ADDRESS}") from error
    if answer.status_code == NO_PASSWORD:
        raise BackendWrong(f"the ML backend at {address} refuses our password; correct {PREFIX}ML_BACKEND_AUTH")
    if answer.status_code >= BROKEN:
        told = f"the ML backend at {address} has no model for round {round_number} of {task} yet"
        raise BackendAway(f"{told} (HTTP {answer.status_code}); wait until it has loaded one, or look at its log")
    if answer.status_code != OK or not _is_backend(answer):
        told = f"the ML backend at {address} does not serve {task}, and nobody could finish a HIT to create"
        cure = f"start `outfox ml-backend` without --tasks, or with {task} among them, or correct {ADDRESS}"
        raise BackendWrong(f"{told}; {cure}")


def _is_backend(answer: requests.Response) -> bool:
    try:
        said = answer.json()
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("status") == "UP"
