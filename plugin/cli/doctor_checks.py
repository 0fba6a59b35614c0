"""Checks what this machine needs to run Outfox, with advice for each problem."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from secrets import token_hex
from typing import Literal

import requests

from common.errors import CodedError
from common.text import dollars
from crowd.errors import CrowdError, RetryPolicy
from ml_backend.checkpoint import embedded_encoder
from plugin.backend_client import BackendUnreachable, check_backend
from plugin.crowd import check_pages, frame_problem
from plugin.errors import PluginError, SettingsError
from plugin.hints import advice_for
from plugin.labelstudio.editor import editor_files
from plugin.lock import lock_differences, locked_packages
from plugin.web.work.access import MarketSite
from plugin.wiring import Application
from round_manager.errors import RoundManagerError, SchemaError, StoreUnavailableError
from round_manager.models import RoundStatus
from round_manager.services.rounds import live_round
from round_manager.services.tasks import live_tasks

NEEDED_DISK = 2 * 1024**3
TIMEOUT_SECONDS = 3
LATER = "created when first needed"
SHOWN_DIFFERENCES = 3

State = Literal["ok", "warning", "missing"]


@dataclass(frozen=True)
class Finding:
    """One result; `missing` means that something needed will not work."""

    what: str
    state: State
    detail: str
    advice: str = ""


def examine(app: Application) -> list[Finding]:
    """Run every check, in the order in which a new user needs them."""
    return [finding for check in _CHECKS for finding in check(app)]


def _python(app: Application) -> Iterator[Finding]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= (3, 11)
    yield Finding("Python", "ok" if good else "missing", found, "" if good else "install Python 3.11 or newer")


def _packages(app: Application) -> Iterator[Finding]:
    wanted = {
        "torch": "make setup",
        "transformers": "make setup",
        "onnxruntime": "make setup",
        "label-studio": "pip install 'outfox[label-studio]'",
        "label-studio-sdk": "pip install 'outfox[label-studio]'",
    }
    for name, advice in wanted.items():
        try:
            yield Finding(name, "ok", version(name))
        except PackageNotFoundError:
            yield Finding(name, "missing", "is not installed", advice)


def _lock(app: Application) -> Iterator[Finding]:
    packages = locked_packages()
    differences = list(lock_differences(packages))
    if not differences:
        yield Finding("lock", "ok", "installed packages have the versions that the tests ran with")
        return
    named = [f"{one.name} {one.installed} instead of {one.locked}" for one in differences[:SHOWN_DIFFERENCES]]
    more = len(differences) - len(named)
    detail = ", ".join(named) + (f" and {more} more" if more else "")
    yield Finding("lock", "warning", detail, "run `make setup`, or install the packages of plugin/locks/runtime.txt")


def _home(app: Application) -> Iterator[Finding]:
    settings = app.settings
    home = settings.home_path
    # Checks change nothing, so nothing is written to try it out.
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        detail = f"{existing} is not a writable folder"
        yield Finding("home", "missing", detail, "set OUTFOX_HOME to a writable folder")
        return
    yield Finding("home", "ok", str(home) if existing == home else f"{home}, {LATER}")
    free = shutil.disk_usage(existing).free
    state: State = "ok" if free >= NEEDED_DISK else "warning"
    advice = "" if state == "ok" else "models and rounds need disk space; free some"
    yield Finding("disk", state, f"{free / 1024**3:.0f} GiB free", advice)


def _secret(app: Application) -> Iterator[Finding]:
    settings = app.settings
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


def _database(app: Application) -> Iterator[Finding]:
    try:
        with app.open_store() as store:
            yield Finding("database", "ok", f"revision {store.check().found}")
    except (SchemaError, StoreUnavailableError) as error:
        yield Finding("database", "warning", "cannot be used now", advice_for(error))
    except RoundManagerError as error:
        yield Finding("database", "missing", "cannot be opened", advice_for(error))


def _files(app: Application) -> Iterator[Finding]:
    for what, find in (("embedded encoder", embedded_encoder), ("labelling editor", editor_files)):
        try:
            yield Finding(what, "ok", str(find()))
        except CodedError as error:
            yield Finding(what, "missing", "cannot be used", advice_for(error))


def label_studio_findings(app: Application) -> Iterator[Finding]:
    """Check whether Label Studio answers and has a token."""
    settings = app.settings
    address = settings.label_studio_url.rstrip("/")
    try:
        answer = requests.get(f"{address}/health", timeout=TIMEOUT_SECONDS)
        answer.raise_for_status()
    except requests.RequestException:
        advice = "start it, or set OUTFOX_LABEL_STUDIO_URL; `outfox demo` starts its own"
        yield Finding("Label Studio", "warning", f"{address} does not respond", advice)
        return
    yield Finding("Label Studio", "ok", address)
    if not settings.label_studio_token:
        advice = "set OUTFOX_LABEL_STUDIO_TOKEN (Label Studio: Account & Settings)"
        yield Finding("Label Studio token", "warning", "is not set", advice)


def server_findings(app: Application) -> Iterator[Finding]:
    """Check whether the ML backend and the web app answer."""
    settings = app.settings
    ours = (
        ("ML backend", settings.ml_backend_url, "`outfox ml-backend`", "OUTFOX_ML_BACKEND_URL"),
        ("web app", settings.web_url, "`outfox serve`", "OUTFOX_WEB_URL"),
    )
    for what, url, command, setting in ours:
        try:
            answer = requests.get(f"{url.rstrip('/')}/health", timeout=TIMEOUT_SECONDS)
        except requests.RequestException:
            advice = f"start it with {command}, or set {setting}; live verdicts need it"
            yield Finding(what, "warning", f"{url} does not respond", advice)
            continue
        advice = "" if answer.ok else f"see the output of {command}"
        yield Finding(what, "ok" if answer.ok else "warning", url if answer.ok else f"{url} is not ready", advice)


def _served_tasks(app: Application) -> Iterator[Finding]:
    """Check that the ML backend serves the open rounds; whether it responds is checked with the servers."""
    settings = app.settings
    for task, number in _open_rounds(app):
        try:
            check_backend(settings, task, number)
        except BackendUnreachable:
            return
        except PluginError as error:
            yield Finding(
                f"model for {task}", "warning", f"round {number} is open but gets no verdicts", advice_for(error)
            )


def _open_rounds(app: Application) -> list[tuple[str, int]]:
    try:
        with app.services() as services:
            rounds = [(task, live_round(services, task)) for task in live_tasks(services)]
    except RoundManagerError:
        return []  # Reported by the check of the database.
    return [(name, live.number) for name, live in rounds if live and live.status is RoundStatus.OPEN]


def _pages(app: Application) -> Iterator[Finding]:
    settings = app.settings
    what, address = "workers' pages", settings.hit_pages
    try:
        wanted = MarketSite(settings.crowd_sites).origins
        # Without a secret yet, any other will do: the pages report that it is not theirs.
        asking = settings if settings.existing_secrets() else settings.model_copy(update={"secret": token_hex()})
        seen = check_pages(asking)
        yield Finding(what, "ok", address if seen.are_ours else f"{address}, a page of your own")
        if seen.are_ours and set(seen.framed_by) != set(wanted):
            detail = f"only {' '.join(seen.framed_by)} may show them, but the settings name {' '.join(wanted)}"
            yield Finding("frame", "warning", detail, "restart `outfox serve` with these settings")
            return
    except SettingsError as error:
        yield Finding(what, "missing", "the settings are invalid", advice_for(error))
        return
    except PluginError as error:
        yield Finding(what, "warning", f"{address} cannot show HITs", f"{advice_for(error)}; only crowd work needs it")
    problem = frame_problem(settings)
    detail = f"only {' '.join(wanted)} may show the pages"
    yield Finding("frame", "warning" if problem else "ok", detail, problem)


def _crowd(app: Application) -> Iterator[Finding]:
    settings = app.settings
    if not settings.has_crowd_keys:
        advice = "set OUTFOX_CROWD_KEY_ID and OUTFOX_CROWD_KEY_SECRET; only crowd work needs them"
        yield Finding("crowd", "warning", "there are no access keys for a marketplace", advice)
        return
    try:
        cents = app.crowd(RetryPolicy(budget=TIMEOUT_SECONDS)).balance()
        yield Finding("crowd", "ok", f"{settings.crowd_url}, {dollars(cents)} to spend")
    except CrowdError as error:
        advice = f"{error}; `outfox marketplace` runs your own"
        yield Finding("crowd", "warning", f"{settings.crowd_url} cannot be used", advice)


def cluster_findings(app: Application) -> Iterator[Finding]:
    """Check whether the cluster answers, and what its machines must share with this one."""
    settings = app.settings
    if settings.jobs_runner != "ray":
        return
    try:
        app.ray_runner()
        api = app.ray_api()
        ray, resources = api.version(), api.resources()
    except PluginError as error:
        yield Finding("cluster", "missing", "jobs cannot run on it", advice_for(error))
        return
    sizes = ", ".join(f"{resources.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
    yield Finding("cluster", "ok", f"{settings.jobs_address}, Ray {ray}, {sizes}")
    if not settings.database_url or settings.database_url.startswith("sqlite"):
        advice = "set OUTFOX_DATABASE_URL to a PostgreSQL database that all machines reach"
        yield Finding("database for the cluster", "warning", "SQLite serves one machine only", advice)


def _browser(app: Application) -> Iterator[Finding]:
    found = next((shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")), None)
    if found:
        yield Finding("Chromium", "ok", found)
    else:
        yield Finding("Chromium", "warning", "only tests need it", "`make test` installs it")


_CHECKS: tuple[Callable[[Application], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _lock,
    _home,
    _secret,
    _database,
    _files,
    label_studio_findings,
    server_findings,
    _served_tasks,
    _pages,
    _crowd,
    cluster_findings,
    _browser,
)
