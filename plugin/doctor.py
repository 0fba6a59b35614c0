"""What this machine has and lacks to run Outfox, with what to do about each lack."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from secrets import token_hex
from typing import Literal

import requests

from common.money import dollars
from crowd.errors import CrowdError
from ml_backend.checkpoint import embedded_encoder
from ml_backend.errors import BackendError
from plugin.backend_client import BackendUnreachable, check_backend
from plugin.cli.hints import advice_for
from plugin.errors import PluginError, SettingsError
from plugin.labelstudio.editor import editor_files
from plugin.page_check import check_pages, frame_problem
from plugin.settings import Settings
from plugin.web.work.access import MarketSite
from round_manager.database.store import open_store
from round_manager.errors import RoundManagerError, SchemaError, StoreUnavailableError
from round_manager.models import RoundStatus
from round_manager.tasks.rounds import live_round
from round_manager.tasks.tasks import list_tasks

NEEDED_DISK = 2 * 1024**3
SECONDS_TO_ANSWER = 3
LATER = "made when it is first needed"

State = Literal["ok", "warning", "missing"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `missing` means that something asked for will not work."""

    what: str
    state: State
    detail: str
    advice: str = ""


def examine(settings: Settings) -> list[Finding]:
    """Everything that was looked at, in the order in which a new user needs it."""
    return [finding for look in _LOOKS for finding in look(settings)]


def _python(settings: Settings) -> Iterator[Finding]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= (3, 11)
    yield Finding("Python", "ok" if good else "missing", found, "" if good else "install Python 3.11 or newer")


def _packages(settings: Settings) -> Iterator[Finding]:
    wanted = {
        "torch": "make setup",
        "transformers": "make setup",
        "onnxruntime": "make setup",
        "label-studio": "pip install 'outfox[label-studio]'",
        "label-studio-sdk": "pip install 'outfox[label-studio]'",
    }
    for name, cure in wanted.items():
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            yield Finding(name, "missing", "is not installed", cure)


def _home(settings: Settings) -> Iterator[Finding]:
    home = settings.home_path
    # Whoever only asks leaves the machine as it was: what is there is looked at, and nothing is tried out.
    there = next(place for place in (home, *home.parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        told = f"{there} is no folder that you may write to"
        yield Finding("home", "missing", told, "set OUTFOX_HOME to a folder you may write to")
        return
    yield Finding("home", "ok", str(home) if there == home else f"{home}, {LATER}")
    free = shutil.disk_usage(there).free
    state: State = "ok" if free >= NEEDED_DISK else "warning"
    cure = "" if state == "ok" else "models and rounds need room; free some"
    yield Finding("disk", state, f"{free / 1024**3:.0f} GiB free", cure)


def _secret(settings: Settings) -> Iterator[Finding]:
    try:
        secrets = settings.existing_secrets()
    except PluginError as error:
        yield Finding("secret", "missing", "is not set", advice_for(error))
        return
    file = settings.secret_file
    if not secrets:
        yield Finding("secret", "ok", LATER)
    elif any(len(secret) < 32 for secret in secrets):
        yield Finding("secret", "missing", "is too short", "use at least 32 characters: `openssl rand -hex 32`")
    elif not settings.secret and file.stat().st_mode & 0o077:
        yield Finding("secret", "warning", f"others can read {file}", f"chmod 600 {file}")
    else:
        yield Finding("secret", "ok", "set" if settings.secret else f"kept in {file}")


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        with open_store(settings.database) as store:
            yield Finding("database", "ok", f"revision {store.check().found}")
    except SchemaError as error:
        yield Finding("database", "warning", "its tables do not fit", advice_for(error))
    except StoreUnavailableError as error:
        yield Finding("database", "warning", "cannot be reached", advice_for(error))
    except RoundManagerError as error:
        yield Finding("database", "missing", "cannot be opened", advice_for(error))


def _encoder(settings: Settings) -> Iterator[Finding]:
    try:
        yield Finding("embedded encoder", "ok", str(embedded_encoder()))
    except BackendError as error:
        yield Finding("embedded encoder", "missing", "cannot be used", advice_for(error))


def _editor(settings: Settings) -> Iterator[Finding]:
    try:
        yield Finding("labelling editor", "ok", str(editor_files()))
    except PluginError as error:
        yield Finding("labelling editor", "missing", "its files are not there", advice_for(error))


def _label_studio(settings: Settings) -> Iterator[Finding]:
    address = settings.label_studio_url.rstrip("/")
    try:
        answer = requests.get(f"{address}/health", timeout=SECONDS_TO_ANSWER)
        answer.raise_for_status()
    except requests.RequestException:
        cure = "start it, or set OUTFOX_LABEL_STUDIO_URL; `outfox demo` brings its own"
        yield Finding("Label Studio", "warning", f"{address} does not answer", cure)
        return
    yield Finding("Label Studio", "ok", address)
    if not settings.label_studio_token:
        cure = "set OUTFOX_LABEL_STUDIO_TOKEN (Label Studio: Account & Settings)"
        yield Finding("Label Studio token", "warning", "is not set", cure)


def _servers(settings: Settings) -> Iterator[Finding]:
    ours = (
        ("ML backend", settings.ml_backend_url, "`outfox ml-backend`", "OUTFOX_ML_BACKEND_URL"),
        ("web app", settings.web_url, "`outfox serve`", "OUTFOX_WEB_URL"),
    )
    for what, url, command, setting in ours:
        try:
            answer = requests.get(f"{url.rstrip('/')}/health", timeout=SECONDS_TO_ANSWER)
        except requests.RequestException:
            cure = f"start it with {command}, or set {setting}; live verdicts need it"
            yield Finding(what, "warning", f"{url} does not answer", cure)
            continue
        cure = "" if answer.ok else f"look at what {command} says"
        yield Finding(what, "ok" if answer.ok else "warning", url if answer.ok else f"{url} is not ready", cure)


def _served_tasks(settings: Settings) -> Iterator[Finding]:
    """Only what the ML backend lacks: whether it answers at all is told with the servers."""
    for task, number in _open_rounds(settings):
        try:
            check_backend(settings, task, number)
        except BackendUnreachable:
            return
        except PluginError as error:
            yield Finding(
                f"model for {task}", "warning", f"round {number} is open and gets no verdicts", advice_for(error)
            )


def _open_rounds(settings: Settings) -> list[tuple[str, int]]:
    try:
        with open_store(settings.database) as store, store.read() as session:
            rounds = [(task.name, live_round(session, task.id)) for task in list_tasks(session) if not task.archived_at]
    except RoundManagerError:
        return []  # What is wrong with the database is told with it.
    return [(name, live.number) for name, live in rounds if live and live.status is RoundStatus.OPEN]


def _pages(settings: Settings) -> Iterator[Finding]:
    what, address = "workers' pages", settings.hit_pages
    try:
        wanted = MarketSite(settings.crowd_sites).origins
        # Before there is a secret, any other asks as well: pages that answer do not know it, and say so.
        asking = settings if settings.existing_secrets() else settings.model_copy(update={"secret": token_hex()})
        seen = check_pages(asking)
        yield Finding(what, "ok", address if seen.are_ours else f"{address}, a page of your own")
        if seen.are_ours and set(seen.framed_by) != set(wanted):
            told = f"only {' '.join(seen.framed_by)} may show them, and the settings say {' '.join(wanted)}"
            yield Finding("frame", "warning", told, "start `outfox serve` again, with these settings")
            return
    except SettingsError as error:
        yield Finding(what, "missing", "the settings are not right", advice_for(error))
        return
    except PluginError as error:
        yield Finding(
            what, "warning", f"{address} shows no work", f"{advice_for(error)}; only work for a crowd needs it"
        )
    problem = frame_problem(settings)
    told = f"only {' '.join(wanted)} may show the pages"
    yield Finding("frame", "warning" if problem else "ok", told, problem)


def _crowd(settings: Settings) -> Iterator[Finding]:
    if not settings.has_crowd_keys:
        cure = "set OUTFOX_CROWD_KEY_ID and OUTFOX_CROWD_KEY_SECRET; only work for a crowd needs them"
        yield Finding("crowd", "warning", "there are no access keys for a marketplace", cure)
        return
    # Imported here: boto3 is slow to load, and most who ask have no crowd.
    from crowd.retries import RetryPolicy
    from plugin.crowd import crowd_of

    try:
        cents = crowd_of(settings, RetryPolicy(budget=SECONDS_TO_ANSWER)).balance()
        yield Finding("crowd", "ok", f"{settings.crowd_url}, {dollars(cents)} to spend")
    except CrowdError as error:
        cure = f"{error}; `outfox marketplace` runs one of your own"
        yield Finding("crowd", "warning", f"{settings.crowd_url} cannot be used", cure)


def _browser(settings: Settings) -> Iterator[Finding]:
    found = next((shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")), None)
    if found:
        yield Finding("Chromium", "ok", found)
    else:
        yield Finding("Chromium", "warning", "only tests need it", "`make test` gets it by itself")


_LOOKS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _home,
    _secret,
    _database,
    _encoder,
    _editor,
    _label_studio,
    _servers,
    _served_tasks,
    _pages,
    _crowd,
    _browser,
)
